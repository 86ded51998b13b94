"""Clicks that wait for a worker, as rows: Redis may be flushed and workers may die.

Writing the row must not keep Slack waiting. If the database is too slow for that the click is in
Redis alone, until its job writes the row after all.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import InterfaceError, OperationalError, connection
from django.db.models import Q
from django.db.models.functions import Now

from approvals.models import SlackClick
from approvals.slack.orders import Order

TAKES_AT_MOST = timedelta(seconds=60)  # then another worker may try
GRACE = timedelta(seconds=2)  # for the job that was enqueued with it
KEPT = timedelta(days=1)

_CLAIM = """
    INSERT INTO approvals_slackclick (id, said, claimed_until)
    VALUES (%(id)s, %(said)s, now() + %(lease)s)
    ON CONFLICT (id) DO UPDATE SET claimed_until = excluded.claimed_until
    WHERE approvals_slackclick.done_at IS NULL
      AND (approvals_slackclick.claimed_until IS NULL OR approvals_slackclick.claimed_until < now())
    RETURNING id
"""


def write_down(order: Order) -> None:
    """Once; a job that was faster has written it already.

    Either at once or not at all: the person may be told meanwhile that nothing was decided.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 400")  # ms; this connection is not used again
    SlackClick.objects.bulk_create(
        [SlackClick(id=order.id, said=order.as_text())], ignore_conflicts=True
    )


def claim(order: Order) -> bool:
    """Whether it is ours to do; not if it is done, or another worker is at it."""
    with connection.cursor() as cursor:
        values: dict[str, Any] = {"id": order.id, "said": order.as_text(), "lease": TAKES_AT_MOST}
        cursor.execute(_CLAIM, values)
        return cursor.fetchone() is not None


def let_go(order: Order) -> None:
    """The database failed in the middle: whoever tries again may claim it at once. If not even
    this can be written, another worker may after ``TAKES_AT_MOST``."""
    with suppress(OperationalError, InterfaceError):
        connection.close()
        SlackClick.objects.filter(pk=order.id, done_at=None).update(claimed_until=None)


def done(order: Order) -> None:
    SlackClick.objects.filter(pk=order.id).update(done_at=Now())
    SlackClick.objects.filter(done_at__lt=Now() - KEPT).delete()


def due() -> list[str]:
    """What the queue lost: orders that nobody has claimed, or whose worker fell silent."""
    free = Q(claimed_until=None) | Q(claimed_until__lt=Now())
    lost = SlackClick.objects.filter(
        free, done_at=None, created_at__lt=Now() - GRACE, created_at__gt=Now() - KEPT
    )
    return list(lost.order_by("created_at").values_list("said", flat=True)[:500])
