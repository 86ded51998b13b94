"""Calls of tools that are late: signed off for a while, and neither carried out nor given up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Min, Q
from django.db.models.functions import Now

from ledger.models import Transaction
from ledger.states import State

LATE_AFTER = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class LateCalls:
    """Those of one tool of a tenant: at work now, waiting for a worker, and since when the oldest
    has been signed off."""

    tenant: str
    tool: str
    at_work: int
    waiting: int
    oldest: datetime


def late_calls(tenants: Iterable[str] | None = None, tool: str | None = None) -> list[LateCalls]:
    """The oldest first; of all tenants and tools where none are named."""
    is_at_work = Q(state=State.COMMITTING, lease_expires_at__isnull=False)
    rows = Transaction.objects.for_workers().filter(
        Q(state=State.APPROVED) | is_at_work, decided_at__lte=Now() - LATE_AFTER
    )
    if tenants is not None:
        rows = rows.filter(tenant__in=tenants)
    if tool is not None:
        rows = rows.filter(tool=tool)
    counted = rows.values_list("tenant", "tool").annotate(
        at_work=Count("pk", filter=is_at_work),
        waiting=Count("pk", filter=Q(state=State.APPROVED)),
        oldest=Min("decided_at"),
    )
    return [LateCalls(*row) for row in counted.order_by("oldest")]
