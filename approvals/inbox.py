"""What waits for whom: one query behind the list, the badge and the tab title."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Q

from ledger.models import Transaction, TransactionQuerySet
from ledger.states import AT_WORK, State

SOON = timedelta(minutes=5)
MOST_ROWS = 500
STUCK_AFTER = 3  # attempts


@dataclass(frozen=True, slots=True)
class Filters:
    """What the URL asks for."""

    q: str = ""
    tool: str = ""
    risk: str = ""

    @property
    def is_set(self) -> bool:
        return bool(self.q or self.tool or self.risk)


@dataclass(slots=True)
class Group:
    key: str
    title: str
    rows: list[Transaction] = field(default_factory=list)


def open_rows(tenants: frozenset[str]) -> TransactionQuerySet:
    """Everything that has not ended."""
    return Transaction.objects.for_tenants(tenants).exclude(
        state__in=sorted({State.REFUSED, State.COMMITTED, State.ABORTED, State.FAILED,
                          State.COMPENSATED})
    )  # fmt: skip


def needs_somebody(tenants: frozenset[str]) -> TransactionQuerySet:
    """What a person has to look at; its count is the badge and the tab title."""
    stuck = Q(state__in=[State.ROLLING_BACK, State.COMPENSATING], attempts__gte=STUCK_AFTER)
    return open_rows(tenants).filter(Q(state__in=[State.PREPARED, State.IN_DOUBT]) | stuck)


def matching(rows: TransactionQuerySet, filters: Filters) -> TransactionQuerySet:
    if filters.tool:
        rows = rows.filter(tool=filters.tool)
    if filters.risk:
        rows = rows.filter(risk_level=filters.risk)
    for word in filters.q.replace("\x00", "").split()[:8]:
        rows = rows.filter(_says(word))
    return rows


def _says(word: str) -> Q:
    anywhere = (
        Q(action_summary__icontains=word)
        | Q(proposed_by_name__icontains=word)
        | Q(operation_key__icontains=word)
        | Q(tool__icontains=word)
        | Q(receipt=word)
        | Q(trace_id=word)
    )
    if re.fullmatch(r"[0-9a-fA-F-]{6,36}", word):
        anywhere |= Q(id__icontains=word)
    return anywhere


def waiting(tenants: frozenset[str], filters: Filters) -> list[Transaction]:
    """The rows of the list, most urgent first."""
    rows = matching(needs_somebody(tenants), filters)
    return list(rows.prefetch_related("decisions").order_by("expires_at")[:MOST_ROWS])


def group_of(row: Transaction, now: datetime) -> str:
    if row.state == State.IN_DOUBT:
        return "doubt"
    if row.state in AT_WORK:
        return "stuck"
    return "soon" if row.expires_at - now <= SOON else "waiting"


def groups(rows: Iterable[Transaction], now: datetime) -> list[Group]:
    """In doubt first, then what is stuck, then by time left. Empty groups vanish."""
    found = {
        "doubt": Group("doubt", "In doubt"),
        "stuck": Group("stuck", "Stuck"),
        "soon": Group("soon", "Expiring soon"),
        "waiting": Group("waiting", "Waiting"),
    }
    for row in rows:
        found[group_of(row, now)].rows.append(row)
    return [group for group in found.values() if group.rows]
