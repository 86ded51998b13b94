"""``advance()``: the one writer of ``state``; ``note()`` writes an event that leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.transaction import atomic

from ledger.database import prepared_statements
from ledger.errors import NotFound, NotPossible
from ledger.events import chains, seals
from ledger.models import Transaction
from ledger.principals import Principal
from ledger.states import Move, Note

ALWAYS = Q()


def advance(
    transaction_id: UUID,
    move: Move,
    *,
    by: Principal,
    via: str,
    reason: str = "",
    only_if: Q = ALWAYS,
    not_after: datetime | None = None,
    details: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Transaction:
    """Make one move of one transaction, or say who was faster; returns the row as it is then.

    The only function that writes ``state``. State, event and outbox are one database transaction;
    the doorbell rings after it. Nothing outside the database is called.

    ``only_if`` narrows the compare-and-set: to the digest on the approver's screen, to a worker's
    fencing token, to ``expires_at`` by the database's clock. ``changes`` are further columns of
    the same UPDATE; ``details`` go into the event, and with them the new values of the columns
    that say what came of it. ``not_after`` is a deadline for the time of the event.

    Raises ``NotPossible``, carrying the transaction as it now is, when no row matched: the caller
    lost a race, came late or repeats itself. Nothing was written then. Raises ``NotFound``.
    """
    with prepared_statements.kept(), atomic():
        mine = Transaction.objects.filter(only_if, pk=transaction_id, state__in=move.sources)
        row = chains.update_returning(mine, state=move.target, **changes)
        if row is None:
            raise _refusal(transaction_id, move)
        event = chains.append(
            row.pk,
            transaction_id=row.pk,
            tenant=row.tenant,
            kind=move.name,
            to_state=move.target,
            by=by,
            via=via,
            reason=reason,
            details={**(details or {}), "sets": seals.outcome_of(row, changes)},
        )
        if not_after is not None and event.at > not_after:
            raise _refusal(transaction_id, move)
    return row


def note(
    transaction_id: UUID,
    kind: Note,
    *,
    by: Principal,
    via: str,
    reason: str = "",
    only_if: Q = ALWAYS,
    details: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Transaction:
    """Write one event that leaves the state as it is, with the ``changes`` that belong to it.

    Raises ``NotPossible`` and ``NotFound`` as ``advance`` does.
    """
    with prepared_statements.kept(), atomic():
        mine = Transaction.objects.filter(only_if, pk=transaction_id, state__in=kind.sources)
        row = chains.update_returning(mine, **changes)
        if row is None:
            raise _refusal(transaction_id, kind)
        chains.append(
            row.pk,
            transaction_id=row.pk,
            tenant=row.tenant,
            kind=kind.name,
            to_state=row.state,
            by=by,
            via=via,
            reason=reason,
            details={**(details or {}), "sets": seals.outcome_of(row, changes)},
        )
    return row


def _refusal(transaction_id: UUID, wanted: Move | Note) -> NotPossible | NotFound:
    snapshot = Transaction.objects.filter(pk=transaction_id).first()
    if snapshot is None:
        return NotFound()
    return NotPossible(
        f"The transaction is {snapshot.get_state_display()}; {_not_now(wanted)}.",
        snapshot=snapshot,
        state=snapshot.state,
    )


def _not_now(wanted: Move | Note) -> str:
    if isinstance(wanted, Note):
        return f"{wanted.name.replace('_', ' ')} is not possible now"
    return f"it cannot become {wanted.target} now"
