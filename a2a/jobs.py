"""RQ jobs: remote agents, and tasks that Assent executes itself. Each may run twice or never."""

from __future__ import annotations

from uuid import UUID

from django.db import close_old_connections

from a2a import builtin, remote
from a2a.remote import sync
from a2a.states import TaskEventKind
from ledger import doorbell
from ledger.workers import jobs, sweeper


def mirror(task_id: str) -> None:
    """Send a task to its remote agent, or poll it there."""
    close_old_connections()
    sync.sync(UUID(task_id))


def fetch_card(remote_id: str) -> None:
    """Compare a remote agent's card with the one that was pinned."""
    close_old_connections()
    remote.refetch(int(remote_id))


def begin(task_id: str) -> None:
    """Claim and run a task of a built-in skill. May call a tool for its plan."""
    close_old_connections()
    builtin.begin(UUID(task_id))


def tell_remote_agent(subject: UUID, kind: str, **_: object) -> None:
    """Tell a remote agent at once; the sweeper finds new tasks in its next round."""
    if kind in {TaskEventKind.ANSWERED, TaskEventKind.CANCELED} and sync.poll_now(subject):
        jobs.enqueue("mirror", subject)


def register() -> None:
    sweeper.register_job("mirror", mirror, sync.due)
    sweeper.register_job("fetch_card", fetch_card, remote.due)
    sweeper.register_job("begin", begin, builtin.due)
    doorbell.register_listener(tell_remote_agent)
