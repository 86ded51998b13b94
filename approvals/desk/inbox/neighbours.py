"""The transactions before and after one, among those that wait for a person, as on the list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q

from approvals.desk.inbox.aside import is_aside
from approvals.desk.inbox.fair_share import URGENT_FIRST
from approvals.desk.viewers import Viewer, can_decide, ranked
from ledger.models import Transaction, TransactionQuerySet
from ledger.states import State


@dataclass(frozen=True, slots=True)
class Beside:
    previous: UUID | None
    next: UUID | None


def beside(row: Transaction, viewer: Viewer) -> Beside:
    """The neighbours of the row in the order of the list; of a decided one the next is the first
    there."""
    listed = Transaction.objects.filter(can_decide(viewer), ~is_aside(viewer.principal))
    waiting = ranked(listed, viewer).exclude(pk=row.pk)
    if row.state != State.PREPARED:
        return Beside(None, _first(waiting, URGENT_FIRST))
    itself = ranked(Transaction.objects.filter(pk=row.pk), viewer)
    place = itself.values_list(*URGENT_FIRST).get()
    return Beside(
        _first(waiting.filter(_beyond(place, "lt")), [f"-{name}" for name in URGENT_FIRST]),
        _first(waiting.filter(_beyond(place, "gt")), URGENT_FIRST),
    )


def _beyond(place: Sequence[Any], way: str) -> Q:
    """Before or behind this place."""
    rank, at, pk = place
    within = Q(**{f"expires_at__{way}": at}) | Q(expires_at=at, **{f"pk__{way}": pk})
    return Q(**{f"rank__{way}": rank}) | Q(within, rank=rank)


def _first(rows: TransactionQuerySet, order: Sequence[str]) -> UUID | None:
    return rows.order_by(*order).values_list("pk", flat=True).first()
