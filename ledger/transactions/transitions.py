"""``advance()``: the only function that writes a transaction's ``state``.

``advance_all_at_once()`` and ``end_all_at_once()`` are its forms for hot moves that go as they
should: one statement for many, compiled once. A move that they do not make, ``advance()`` makes, or
says why not.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import Enum
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.db.models.expressions import Combinable
from django.db.transaction import atomic

from ledger import seals
from ledger.errors import InvalidRequest, NotFound, NotPossible, Sentence
from ledger.events import moves
from ledger.events.moves import ManyMoves, MovedAtOnce, SealedAtOnce, compile_move as compile_moves
from ledger.foundation.postgres import use_prepared_statements
from ledger.models import Transaction
from ledger.principals import Principal, Surface
from ledger.states import Move, State

ALWAYS = Q()
REASON_MAX = 2_000  # characters


class Unchanged(Enum):
    """A column that keeps its value."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkColumns:
    """The columns that say which worker has a transaction, and when it is next due.

    New values for one UPDATE; expressions are evaluated by the database.
    """

    fencing_token: Combinable | Unchanged = UNCHANGED
    attempts: int | Combinable | Unchanged = UNCHANGED
    lease_expires_at: Combinable | Unchanged | None = UNCHANGED
    next_attempt_at: Combinable | Unchanged | None = UNCHANGED

    def values(self) -> dict[str, Any]:
        """The columns that change, as ``QuerySet.update()`` takes them."""
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        return {name: value for name, value in columns.items() if value is not UNCHANGED}


# No worker has it and nothing is scheduled.
RELEASED = WorkColumns(lease_expires_at=None, next_attempt_at=None)
# The same, where a new kind of work begins: attempts are counted anew.
FRESH = WorkColumns(attempts=0, lease_expires_at=None, next_attempt_at=None)
# Taken from the worker that had it: with an older fencing token its writes match no row.
REVOKED = WorkColumns(
    fencing_token=F("fencing_token") + 1, lease_expires_at=None, next_attempt_at=None
)


def check_reason(reason: str) -> None:
    """Raises ``InvalidRequest`` for a reason that no event can have."""
    if len(reason) > REASON_MAX:
        raise InvalidRequest(Sentence("A reason has at most {most} characters.", most=REASON_MAX))
    seals.refuse_unsafe_text(reason, "reason")


def advance(
    transaction_id: UUID,
    move: Move[State],
    *,
    by: Principal,
    via: Surface,
    reason: str = "",
    only_if: Q = ALWAYS,
    not_after: datetime | None = None,
    details: Mapping[str, Any] | None = None,
    work: WorkColumns | None = None,
    **columns: Any,
) -> Transaction:
    """Make one move of one transaction; returns the row as it is then.

    The only function that writes ``state``. State, event and outbox are one database transaction;
    the doorbell rings after it. Nothing outside the database is called.

    ``only_if`` narrows the compare-and-set: to the digest on the approver's screen, to a worker's
    fencing token, to ``expires_at`` by the database's clock. ``columns`` are written by the same
    UPDATE; ``details`` go into the event, with the new values of the columns that say what came
    of the transaction. ``work`` are the columns of the worker's lease and of its next attempt.
    ``not_after`` is a deadline for the time of the event.

    Raises ``NotPossible``, carrying the transaction as it now is, when no row matched: the caller
    lost a race, came late or repeats itself. Nothing was written then. Raises ``NotFound``.
    """
    if work is not None:
        columns |= work.values()

    def sealed(row: Transaction) -> Mapping[str, Any]:
        return {**(details or {}), "sets": seals.outcome_of(row, columns)}

    with use_prepared_statements(), atomic():
        moved = moves.make(
            Transaction.objects.filter(only_if, pk=transaction_id),
            move,
            by=by,
            via=via,
            reason=reason,
            details=sealed,
            columns=columns,
            transaction_id=transaction_id,
        )
        if moved is None or (not_after is not None and moved.event.at > not_after):
            raise _refusal(transaction_id, move)
    return moved.row


def _refusal(transaction_id: UUID, move: Move[State]) -> NotPossible | NotFound:
    snapshot = Transaction.objects.filter(pk=transaction_id).first()
    if snapshot is None:
        return NotFound()
    return NotPossible(
        f"The transaction is {snapshot.get_state_display()}; {_not_now(move)}.",
        snapshot=snapshot,
        state=snapshot.state,
    )


def _not_now(move: Move[State]) -> str:
    if move.target is None:
        return f"{str(move).replace('_', ' ')} is not possible now"
    return f"it cannot become {move.target} now"


# --- many in one statement ---------------------------------------------------------------------


class OneMove(NamedTuple):
    """The part of a move that each of those has for itself that are made together.

    ``columns`` are its own values of the columns that the move has from each.
    """

    transaction_id: UUID
    by: Principal
    via: Surface
    reason: str = ""
    details: Mapping[str, Any] = MappingProxyType({})
    columns: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CompiledMove:
    """A move of many transactions; ``outcome`` are the columns that its event has to seal.

    ``sets`` has their values where those are the same for all.
    """

    moves: ManyMoves[Transaction]
    outcome: frozenset[str]
    sets: Mapping[str, Any]


def compile_move(
    rows: QuerySet[Transaction],
    move: Move[State],
    own: Mapping[str, str] = MappingProxyType({}),
    *,
    work: WorkColumns,
    **columns: Any,
) -> CompiledMove:
    """``advance`` of the rows that are of ``rows``, which has ``pk=of_each("id")``.

    ``own`` are further values of each, ``of_each`` in ``rows`` and ``columns``, with their SQL
    types. Of the other columns that say what came of the transaction, one of ``ended_at`` and
    ``decided_at`` alone may be an expression.
    """
    now_in = "decided_at" if "decided_at" in columns else "ended_at"
    moves = compile_moves(rows, move, own, now_in, **columns, **work.values())
    outcome = frozenset(columns) & frozenset(seals.OUTCOME)
    sets = {name: columns[name] for name in outcome - {now_in, *own}}
    return CompiledMove(moves, outcome, sets)


def advance_all_at_once(
    compiled: CompiledMove, wanted: Sequence[OneMove], *, skip_locked: bool = False
) -> dict[UUID, MovedAtOnce[Transaction]]:
    """Make a compiled move of these transactions; nothing is written for those that are missing.

    ``skip_locked``: it does not wait for a row that somebody else has locked; that one is missing.
    """
    moved = compiled.moves.make(
        [_sealed(compiled, each) for each in wanted], skip_locked=skip_locked
    )
    return {each.row.pk: each for each in moved}


def end_all_at_once(
    compiled: CompiledMove, wanted: Sequence[OneMove], *, skip_locked: bool = False
) -> set[UUID]:
    """The same for a move that ends transactions. Reads nothing."""
    return compiled.moves.end([_sealed(compiled, each) for each in wanted], skip_locked=skip_locked)


def _sealed(compiled: CompiledMove, single: OneMove) -> SealedAtOnce:
    now_mark = secrets.token_hex(16)
    new = {**compiled.sets, compiled.moves.now_in: now_mark, **single.columns}
    sets = seals.outcome_of(SimpleNamespace(**new), compiled.outcome)
    text = seals.canonical({**single.details, "sets": sets}).decode()
    return SealedAtOnce(
        single.transaction_id, single.by, single.via, text, now_mark, single.reason, single.columns
    )
