"""RQ: looks at remote agents, tasks of Assent's own. Each may run twice or never."""

from __future__ import annotations

from uuid import UUID

from django.db import close_old_connections

from a2a import builtin
from a2a.models import Mirror
from a2a.remote import agents, sync
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


jobs.JOBS |= {"mirror": mirror, "fetch_card": fetch_card, "begin": begin}
sweeper.further_jobs |= {
    "mirror": sync.due, "fetch_card": agents.due, "begin": builtin.due,
}  # fmt: skip


def on_bell(subject: UUID, kind: str, **_: object) -> None:
    """News for a remote agent: at once. New tasks are found within a second, in the next round."""
    if kind in {"task_answered", "task_canceled"}:
        sync.on_bell(subject, kind)
        if Mirror.objects.filter(task=subject, is_over=False).exists():
            jobs.enqueue("mirror", subject)


doorbell.event_committed.connect(on_bell, dispatch_uid="a2a.jobs.on_bell")
