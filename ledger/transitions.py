"""``advance()``: the one writer of ``state``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q
from django.db.models.sql import UpdateQuery
from django.db.transaction import atomic, on_commit

from ledger import deliveries, doorbell, plans
from ledger.errors import NotFound, NotPossible
from ledger.intents import canonical
from ledger.models import Event, Transaction, TransactionQuerySet
from ledger.principals import Principal
from ledger.states import Move

ALWAYS = Q()


def advance(
    transaction_id: UUID,
    move: Move,
    *,
    by: Principal,
    via: str,
    reason: str = "",
    only_if: Q = ALWAYS,
    details: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Transaction:
    """Make one move of one transaction, or say who was faster; returns the row as it is then.

    The only function that writes ``state``. State, event and outbox are one database transaction;
    the doorbell rings after it. Nothing outside the database is called.

    ``only_if`` narrows the compare-and-set: to the digest on the approver's screen, to a worker's
    fencing token, to ``expires_at`` by the database's clock. ``changes`` are further columns of
    the same UPDATE; ``details`` go into the event.

    Raises ``NotPossible``, carrying the transaction as it now is, when no row matched: the caller
    lost a race, came late or repeats itself. Nothing was written then. Raises ``NotFound``.
    """
    with plans.kept(), atomic():
        mine = Transaction.objects.filter(only_if, pk=transaction_id, state__in=move.sources)
        row = _update_returning(mine, state=move.target, **changes)
        if row is None:
            raise _refusal(transaction_id, move)
        # The row stays locked until commit, so the events of one transaction never interleave.
        event = Event.objects.create(
            transaction_id=row.pk,
            tenant=row.tenant,
            kind=move.name,
            to_state=move.target,
            principal=str(by),
            principal_name=by.display_name,
            via=via,
            reason=reason,
            details=canonical(dict(details or {})).decode(),
        )
        owed = deliveries.put_in_outbox(event)
        ring = partial(doorbell.ring, event.pk, row.pk, row.tenant, move.name, owed)
        on_commit(ring, robust=True)
    return row


def _refusal(transaction_id: UUID, move: Move) -> NotPossible | NotFound:
    snapshot = Transaction.objects.filter(pk=transaction_id).first()
    if snapshot is None:
        return NotFound()
    return NotPossible(
        f"The transaction is {snapshot.get_state_display()}; it cannot become {move.target} now.",
        snapshot=snapshot,
        state=snapshot.state,
    )


def _update_returning(rows: TransactionQuerySet, **changes: Any) -> Transaction | None:
    """One UPDATE that hands back the row it changed; Django's ``update()`` only counts."""
    query: Any = rows.query.chain(UpdateQuery)
    query.add_update_values(changes)
    sql, params = query.get_compiler(connection=connection).as_sql()
    return next(iter(Transaction.objects.raw(f"{sql} RETURNING *", params)), None)
