"""Commands as rows: stored once, claimed by one worker at a time, and found by the sweeper.

A job carries the id of a row. What the row says is erased once it is carried out, and the row is
deleted after a day; until then the same click, sent again, is known.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from threading import Event
from typing import Generic, TypeVar
from uuid import UUID

from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic

from approvals.models import SlackCommand
from approvals.slack.interactions import commands
from approvals.slack.interactions.commands import Command
from approvals.slack.interactions.deadlines import WRITES, statement_timeout
from ledger.foundation.postgres import update_returning
from ledger.workers import jobs

logger = logging.getLogger(__name__)
C = TypeVar("C", bound=Command)

LEASE = timedelta(seconds=60)  # after it another worker may try
GRACE = timedelta(seconds=1)  # for the job that was enqueued with the row
KEPT = timedelta(days=1)
BATCH = 500


class NotStored(Exception):
    """A command was not stored in time; ``is_certain`` unless it may be stored nevertheless."""

    def __init__(self, *, is_certain: bool) -> None:
        super().__init__("The database did not store it in time.")
        self.is_certain = is_certain


@dataclass(frozen=True, slots=True)
class Claim(Generic[C]):
    """The right to carry out one command. ``tries`` counts the claims of that command."""

    command: C
    tries: int
    created_at: datetime
    # Another attempt under the same claim, after the database connection was lost.
    is_retry: bool = False

    @property
    def is_first(self) -> bool:
        return self.tries == 1 and not self.is_retry


def put(command: Command) -> None:
    """Store a command and enqueue its job."""
    _insert([command])
    jobs.enqueue(command.queue, command.id)


def put_in_time(command: Command, limit: timedelta) -> None:
    """The same for whoever has to answer Slack. Raises ``NotStored``.

    Takes at most ``limit``, and the second that Redis may cost when it is down.
    """
    within = 0.8 * limit
    ends, committing = time.monotonic() + within.total_seconds(), Event()
    try:
        WRITES.run(partial(_insert_in_time, command, within, ends, committing), limit=limit)
    except Exception as failure:
        logger.warning("a %s is not stored: %s", command.kind, failure)
        raise NotStored(is_certain=not committing.is_set()) from failure
    jobs.enqueue(command.queue, command.id)


def _insert_in_time(command: Command, within: timedelta, ends: float, committing: Event) -> None:
    """Sets ``committing`` before the COMMIT, which is not sent any more once ``ends`` is over."""
    with statement_timeout(within):
        _insert([command])
        committing.set()
        if time.monotonic() > ends:
            committing.clear()
            raise TimeoutError("The database was too slow.")


def _insert(new: Sequence[Command]) -> None:
    rows = [
        SlackCommand(id=each.id, queue=each.queue, command=commands.to_text(each)) for each in new
    ]
    SlackCommand.objects.bulk_create(rows, ignore_conflicts=True)


def claim(kind: type[C], command_id: UUID) -> Claim[C] | None:
    """``None`` if there is nothing to do: it is unknown, done, not due or another worker's."""
    rows = SlackCommand.objects.filter(pk=command_id, queue=kind.queue, done_at=None)
    due = rows.filter(due_at__lte=Now())
    row = update_returning(due, due_at=Now() + LEASE, tries=F("tries") + 1)
    if row is None:
        return None
    try:
        return Claim(commands.read(row.command, kind), row.tries, row.created_at)
    except ValueError as failure:
        logger.error("a command of Slack cannot be read: %s", failure)
        SlackCommand.objects.filter(pk=row.pk).update(done_at=Now())
        return None


def release(claim: Claim[C], wait: timedelta) -> None:
    """Let it be tried again after ``wait``; the sweeper enqueues it then."""
    _claimed(claim).update(due_at=Now() + wait)


def done(claim: Claim[C], *further: Command) -> None:
    """Erase what it says, and store and enqueue the commands that follow from it."""
    with atomic():
        if not _claimed(claim).update(done_at=Now(), command=""):
            return
        _insert(further)
    for command in further:
        jobs.enqueue(command.queue, command.id)


def due(kind: type[Command]) -> list[UUID]:
    """Ids of commands whose job was lost, whose worker fell silent or whose pause is over."""
    rows = SlackCommand.objects.filter(
        queue=kind.queue, done_at=None, due_at__lt=Now() - GRACE, created_at__gt=Now() - KEPT
    )
    return list(rows.order_by("due_at").values_list("pk", flat=True)[:BATCH])


def delete_old() -> None:
    SlackCommand.objects.filter(created_at__lt=Now() - KEPT).delete()


def _claimed(claim: Claim[C]) -> QuerySet[SlackCommand]:
    return SlackCommand.objects.filter(pk=claim.command.id, tries=claim.tries, done_at=None)
