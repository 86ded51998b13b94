"""Clicks that wait for a worker: as a job, and as a row, because Redis may lose the job.

Storing the row must not keep Slack waiting. If the database is too slow for that, the click is in
Redis alone until its job stores the row after all.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from approvals.models import SlackClick
from approvals.slack.interactions.commands import Click, to_text
from approvals.slack.interactions.deadlines import CLICKS, WRITES, statement_timeout
from ledger.backoff import Backoff
from ledger.workers import jobs, queues

logger = logging.getLogger(__name__)

JOB = "react"
# How long the acknowledgement waits for the row; the statement gives up a little earlier, so that
# nothing is stored after the person was told that it was not.
STORE_LIMIT = timedelta(milliseconds=500)
STORE_STATEMENT_LIMIT = timedelta(milliseconds=400)

LEASE = timedelta(seconds=60)  # after it another worker may try
BACKOFF = Backoff(first=timedelta(seconds=5), longest=LEASE)
GRACE = timedelta(seconds=2)  # for the job that was queued with the row
KEPT = timedelta(days=1)

_CLAIM = """
    INSERT INTO approvals_slackclick AS click (id, command, claimed_until, tries)
    VALUES (%(id)s, %(command)s, now() + %(lease)s, 1)
    ON CONFLICT (id) DO UPDATE SET claimed_until = excluded.claimed_until, tries = click.tries + 1
    WHERE click.done_at IS NULL AND (click.claimed_until IS NULL OR click.claimed_until < now())
    RETURNING tries, created_at
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to handle one click. ``tries`` counts the claims of that click."""

    click: Click
    tries: int
    clicked_at: datetime
    # Another attempt under the same claim, after the database connection was lost.
    is_retry: bool = False

    @property
    def is_first(self) -> bool:
        return self.tries == 1 and not self.is_retry


def submit(click: Click) -> None:
    """Store a click and queue its job; without Redis, a thread of this process does the job.

    Takes at most ``STORE_LIMIT``, and the second that Redis may cost when it is down.
    """
    try:
        WRITES.run(partial(store, click), limit=STORE_LIMIT)
    except Exception as failure:
        logger.warning("a click is not stored yet: %s", failure)
    text = to_text(click)
    if not jobs.enqueue(JOB, text, label=click.label):
        CLICKS.start(partial(queues.JOBS[JOB], text))


def store(click: Click) -> None:
    """Insert the row, unless the job has inserted it already. Raises ``OperationalError``."""
    with statement_timeout(STORE_STATEMENT_LIMIT):
        row = SlackClick(id=click.id, command=to_text(click))
        SlackClick.objects.bulk_create([row], ignore_conflicts=True)


def read(subject: str) -> str:
    """The command of a job: the subject itself, or that of the row whose id it is.

    Empty when there is no such row.
    """
    try:
        click_id = UUID(subject)
    except ValueError:
        return subject
    return SlackClick.objects.filter(pk=click_id).values_list("command", flat=True).first() or ""


def claim(click: Click) -> Claim | None:
    """``None`` if the click is done, or another worker handles it."""
    values: dict[str, Any] = {"id": click.id, "command": to_text(click), "lease": LEASE}
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, values)
        row = cursor.fetchone()
    return Claim(click, *row) if row else None


def release(claim: Claim) -> None:
    """Let the click be tried again, each time a little later, because the database failed.

    If not even this can be stored, another worker may try after ``LEASE``.
    """
    wait = BACKOFF.wait(claim.tries)
    with suppress(OperationalError, InterfaceError):
        connection.close()
        _claimed(claim).update(claimed_until=Now() + wait)


def done(claim: Claim) -> None:
    _claimed(claim).update(done_at=Now())
    SlackClick.objects.filter(created_at__lt=Now() - KEPT).delete()


def give_up_unreadable(text: str) -> None:
    """Do not try again what this version of Assent cannot read."""
    SlackClick.objects.filter(command=text).update(done_at=Now())


def due() -> list[str]:
    """Ids of clicks whose job was lost: never claimed, or the worker's lease has run out."""
    free = Q(claimed_until=None) | Q(claimed_until__lt=Now())
    lost = SlackClick.objects.filter(
        free, done_at=None, created_at__lt=Now() - GRACE, created_at__gt=Now() - KEPT
    )
    return [str(pk) for pk in lost.order_by("created_at").values_list("pk", flat=True)[:500]]


def _claimed(claim: Claim) -> QuerySet[SlackClick]:
    return SlackClick.objects.filter(pk=claim.click.id, tries=claim.tries, done_at=None)
