"""RQ: looks at remote agents, tasks of Assent's own. Each may run twice or never."""

from __future__ import annotations

from uuid import UUID

from django.db import close_old_connections

from a2a import builtin
from a2a.models import Mirror
from a2a.remote import agents, sync
from a2a.states import TaskEventKind
from ledger.events import doorbell
from ledger.workers import jobs, sweeper


def mirror(task_id: str) -> None:
    """Send a task to its remote agent, or look how far it is there."""
    close_old_connections()
    sync.go_on(UUID(task_id))


def fetch_card(remote_id: str) -> None:
    """Compare a remote agent's card with the one that was pinned."""
    close_old_connections()
    agents.look_again(int(remote_id))


def begin(task_id: str) -> None:
    """Bring a task that Assent does itself before people. Asks the tool for its plan."""
    close_old_connections()
    builtin.begin(UUID(task_id))


def enqueue_after_event(subject: UUID, kind: str, **_: object) -> None:
    """News for a remote agent: at once. New tasks are found within a second, in the next round."""
    if kind in {TaskEventKind.ANSWERED, TaskEventKind.CANCELED}:
        sync.hurry(subject, kind)
        if Mirror.objects.filter(task=subject, is_over=False).exists():
            jobs.enqueue("mirror", subject)


def register() -> None:
    sweeper.register_job("mirror", mirror, sync.due)
    sweeper.register_job("fetch_card", fetch_card, agents.due)
    sweeper.register_job("begin", begin, builtin.due)
    doorbell.register_listener(enqueue_after_event)
