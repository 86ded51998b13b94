"""One move of one row, sealed: what ``advance()`` of a transaction and of a task have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from django.db import models
from django.db.models import F

from ledger.database import update_returning
from ledger.events import chains
from ledger.models import Event
from ledger.principals import Principal, Surface
from ledger.states import Move

Row = TypeVar("Row", bound=models.Model)


class Moved(NamedTuple, Generic[Row]):
    """The row as the move left it, and the event that says so."""

    row: Row
    event: Event


def no_recipients(row: models.Model) -> Iterable[tuple[str, str]]:
    return ()


def make(
    rows: models.QuerySet[Row],
    move: Move[Any],
    *,
    by: Principal,
    via: Surface,
    reason: str = "",
    details: Callable[[Row], Mapping[str, Any]],
    owed_to: Callable[[Row], Iterable[tuple[str, str]]] = no_recipients,
    columns: Mapping[str, Any],
    transaction_id: UUID | None = None,
) -> Moved[Row] | None:
    """Make ``move`` with the one row of ``rows``; ``None``, and nothing written, if none may.

    One UPDATE compares the state, writes the new one with ``columns`` and returns the row; the
    event goes to its chain and to the outbox, the doorbell rings after commit. Call it inside a
    database transaction: the row stays locked until its end, so the events of one row never
    interleave. ``details`` and ``owed_to`` read the row as the UPDATE left it.
    """
    state = F("state") if move.target is None else move.target
    row: Any = update_returning(rows.filter(state__in=move.sources), state=state, **columns)
    if row is None:
        return None
    event = chains.append(
        row.pk,
        transaction_id=transaction_id,
        tenant=row.tenant,
        kind=move.kind,
        to_state=row.state,
        by=by,
        via=via,
        reason=reason,
        details=details(row),
        owed_to=owed_to(row),
    )
    return Moved(row, event)
