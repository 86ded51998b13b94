"""Transactions that were decided in a span of time: the newest of them, so that it costs little."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q
from django.db.models.expressions import RawSQL

from ledger.models import Transaction
from ledger.states import Ending, EventKind

MOST = 1_000  # of a span; older ones are left out
# Who did not approve ends it in one of these ways; whatever ends otherwise was approved before.
ENDINGS = {
    EventKind.REJECTED: Ending.REJECTED,
    EventKind.SENT_BACK: Ending.SENT_BACK,
    EventKind.EXPIRED: Ending.EXPIRED,
    EventKind.CANCELED: Ending.CANCELED,
}
KINDS = (EventKind.APPROVED, EventKind.REJECTED, EventKind.SENT_BACK, EventKind.EXPIRED)

# Of each tenant its newest, in the order of an index; without what nobody has to sign off.
_NEWEST = """
    SELECT newest.id FROM unnest(%s::text[]) reader (tenant) CROSS JOIN LATERAL (
        SELECT t.id, t.decided_at FROM ledger_transaction t
        WHERE t.tenant = reader.tenant AND t.required_approver <> 'NONE'
            AND t.decided_at >= %s AND t.decided_at < coalesce(%s::timestamptz, 'infinity')
        ORDER BY t.decided_at DESC LIMIT %s
    ) newest ORDER BY newest.decided_at DESC LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Decided:
    """Numbers of transactions by what was decided. ``is_partial``: there are more."""

    numbers: Counter[str]
    is_partial: bool

    def __bool__(self) -> bool:
        return any(self.numbers[kind] for kind in KINDS)


def decided_between(tenants: frozenset[str], since: datetime, until: datetime | None = None) -> Q:
    """The newest ``MOST`` that were decided at ``since`` or later, and before ``until``."""
    values = [sorted(tenants), since, until, MOST, MOST]
    return Q(pk__in=RawSQL(_NEWEST, values))


def decided_as(kind: str) -> Q:
    """Those that were approved, rejected, canceled, or that expired."""
    if kind == EventKind.APPROVED:
        return ~Q(ending__in=list(ENDINGS.values()))
    return Q(ending=ENDINGS[EventKind(kind)])


def count_decided(
    tenants: frozenset[str], since: datetime, until: datetime | None = None
) -> Decided:
    """The numbers of that time."""
    rows = Transaction.objects.filter(decided_between(tenants, since, until))
    by_ending = dict(rows.order_by().values_list("ending").annotate(number=Count("pk")))
    numbers = {str(kind): by_ending.pop(ending, 0) for kind, ending in ENDINGS.items()}
    numbers[str(EventKind.APPROVED)] = sum(by_ending.values())
    counts = Counter(numbers)
    return Decided(counts, counts.total() >= MOST)
