"""Clicks that wait for a worker, as rows: Redis may be flushed and workers may die.

Writing the row must not keep Slack waiting. If the database is too slow for that the click is in
Redis alone, until its job writes the row after all.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from approvals.models import SlackClick
from approvals.slack.interactions.commands import Order

TAKES_AT_MOST = timedelta(seconds=60)  # then another worker may try
AGAIN_AFTER = timedelta(seconds=5)
GRACE = timedelta(seconds=2)  # for the job that was enqueued with it
KEPT = timedelta(days=1)

_CLAIM = """
    INSERT INTO approvals_slackclick AS click (id, said, claimed_until, tries)
    VALUES (%(id)s, %(said)s, now() + %(lease)s, 1)
    ON CONFLICT (id) DO UPDATE SET claimed_until = excluded.claimed_until, tries = click.tries + 1
    WHERE click.done_at IS NULL AND (click.claimed_until IS NULL OR click.claimed_until < now())
    RETURNING tries, created_at
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """One try at one click."""

    order: Order
    tries: int
    clicked_at: datetime
    # Another try in the same job, after the database went away in the middle.
    is_again: bool = False

    @property
    def is_first(self) -> bool:
        return self.tries == 1 and not self.is_again


def write_down(order: Order) -> None:
    """Once; a job that was faster has written it already.

    Either at once or not at all: the person may be told meanwhile that nothing was decided.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 400")  # ms; this connection is not used again
    SlackClick.objects.bulk_create(
        [SlackClick(id=order.id, said=order.as_text())], ignore_conflicts=True
    )


def claim(order: Order) -> Claim | None:
    """None if it is done, or another worker is at it."""
    with connection.cursor() as cursor:
        values: dict[str, Any] = {"id": order.id, "said": order.as_text(), "lease": TAKES_AT_MOST}
        cursor.execute(_CLAIM, values)
        found = cursor.fetchone()
    return Claim(order, *found) if found else None


def let_go(claim: Claim) -> None:
    """The database failed in the middle: it is tried again, each time a little later. If not even
    this can be written, another worker may try after ``TAKES_AT_MOST``."""
    wait = min(AGAIN_AFTER * claim.tries, TAKES_AT_MOST)
    with suppress(OperationalError, InterfaceError):
        connection.close()
        _still(claim).update(claimed_until=Now() + wait)


def done(claim: Claim) -> None:
    _still(claim).update(done_at=Now())
    SlackClick.objects.filter(created_at__lt=Now() - KEPT).delete()


def give_up_unreadable(said: str) -> None:
    """Nobody here can carry it out, however often it is tried."""
    SlackClick.objects.filter(said=said).update(done_at=Now())


def _still(claim: Claim) -> QuerySet[SlackClick]:
    return SlackClick.objects.filter(pk=claim.order.id, tries=claim.tries, done_at=None)


def due() -> list[str]:
    """What the queue lost: ids of orders that nobody has claimed, or whose worker fell silent."""
    free = Q(claimed_until=None) | Q(claimed_until__lt=Now())
    lost = SlackClick.objects.filter(
        free, done_at=None, created_at__lt=Now() - GRACE, created_at__gt=Now() - KEPT
    )
    return [str(pk) for pk in lost.order_by("created_at").values_list("pk", flat=True)[:500]]


def written(subject: str) -> str:
    """The order that a job is for: the job brings it along, or its id. Empty when it is gone."""
    try:
        click_id = UUID(subject)
    except ValueError:
        return subject
    return SlackClick.objects.filter(pk=click_id).values_list("said", flat=True).first() or ""
