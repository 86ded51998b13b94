"""Jobs: remote agents, and tasks that Assent executes itself. Each may run twice or never."""

from __future__ import annotations

from uuid import UUID

from a2a import builtin
from a2a.remote import sync
from a2a.states import TaskEventKind
from ledger.foundation import doorbell
from ledger.workers import jobs, register_job


def tell_remote_agent(subject: UUID, kind: str, **_: object) -> None:
    """Tell a remote agent at once; the sweeper finds new tasks in its next round."""
    if kind in {TaskEventKind.ANSWERED, TaskEventKind.CANCELED} and sync.poll_now(subject):
        jobs.enqueue("mirror", subject)


def register() -> None:
    register_job("mirror", sync.sync, UUID, sync.due)
    register_job("begin", builtin.begin, UUID, builtin.due)
    doorbell.register_listener(tell_remote_agent)
