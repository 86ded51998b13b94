"""The map of a transaction's life: states, the moves between them, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import TextChoices


class State(TextChoices):
    PREPARED = "prepared", "waiting for sign-off"
    REFUSED = "refused", "refused before anything was held"
    APPROVED = "approved", "signed off, waiting for a worker"
    COMMITTING = "committing", "being carried out"
    COMMITTED = "committed", "done, with a receipt"
    IN_DOUBT = "in_doubt", "started, outcome unknown"
    ROLLING_BACK = "rolling_back", "letting go of what was held"
    ABORTED = "aborted", "ended without any effect"
    FAILED = "failed", "could not be carried out"
    COMPENSATING = "compensating", "being compensated"
    COMPENSATED = "compensated", "done, then compensated"


class Ending(TextChoices):
    """Why a transaction was let go of."""

    REJECTED = "rejected", "rejected"
    EXPIRED = "expired", "expired"
    CANCELED = "canceled", "canceled by the agent"
    HOLD_LAPSED = "hold_lapsed", "the hold lapsed"
    ABANDONED = "abandoned", "planned, and not entered"
    WITHDRAWN = "withdrawn", "withdrawn by an operator"
    FAILED = "failed", "failed"


@dataclass(frozen=True, slots=True)
class Move:
    """One arrow of the map. Its name is the ``kind`` of the event that it writes."""

    name: str
    sources: frozenset[State]
    target: State

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Note:
    """Something that is written down and moves nothing; its event ends in the state it began in."""

    name: str
    sources: frozenset[State]

    def __str__(self) -> str:
        return self.name


def _move(name: str, *sources: State, to: State) -> Move:
    return Move(name, frozenset(sources), to)


# No sources: these three bring a transaction into being.
PREPARE = _move("prepared", to=State.PREPARED)
REFUSE = _move("refused", to=State.REFUSED)
ABANDON = _move("plan_abandoned", to=State.ROLLING_BACK)

VOTE = _move("approval_recorded", State.PREPARED, to=State.PREPARED)
APPROVE = _move("approved", State.PREPARED, to=State.APPROVED)
REJECT = _move("rejected", State.PREPARED, to=State.ROLLING_BACK)
EXPIRE = _move("expired", State.PREPARED, to=State.ROLLING_BACK)
CANCEL = _move("canceled", State.PREPARED, to=State.ROLLING_BACK)

CLAIM = _move("claimed", State.APPROVED, to=State.COMMITTING)
LAPSE_HOLD = _move("hold_lapsed", State.APPROVED, to=State.ROLLING_BACK)

WITHDRAW = _move("withdrawn", State.APPROVED, to=State.ROLLING_BACK)

COMMIT = _move("committed", State.COMMITTING, State.IN_DOUBT, to=State.COMMITTED)
FAIL = _move("failed", State.COMMITTING, to=State.ROLLING_BACK)
DOUBT = _move("fell_in_doubt", State.COMMITTING, to=State.IN_DOUBT)
RETRY = _move("retried", State.IN_DOUBT, to=State.COMMITTING)
ORDER_RETRY = _move("retry_ordered", State.IN_DOUBT, to=State.IN_DOUBT)
DISPROVE = _move("disproved", State.IN_DOUBT, to=State.ROLLING_BACK)

ABORT = _move("aborted", State.ROLLING_BACK, to=State.ABORTED)
SETTLE = _move("failure_settled", State.ROLLING_BACK, to=State.FAILED)
# On an operator's word, where no worker can: the tool is gone, or its rollback never succeeds.
LET_GO = _move("let_go_by_hand", State.ROLLING_BACK, to=State.ABORTED)
LET_GO_FAILED = _move("failure_let_go_by_hand", State.ROLLING_BACK, to=State.FAILED)
# A receipt came after the row was settled without one; an operator found it to be true.
KEEP_RECEIPT = _move(
    "receipt_kept", State.IN_DOUBT, State.ROLLING_BACK, State.ABORTED, State.FAILED,
    to=State.COMMITTED,
)  # fmt: skip

COMPENSATE = _move("compensation_started", State.COMMITTED, to=State.COMPENSATING)
FINISH_COMPENSATION = _move("compensated", State.COMPENSATING, to=State.COMPENSATED)

MOVES = (
    PREPARE, REFUSE, ABANDON, VOTE, APPROVE, REJECT, EXPIRE, CANCEL, CLAIM, LAPSE_HOLD, WITHDRAW,
    COMMIT, FAIL, DOUBT, RETRY, ORDER_RETRY, DISPROVE, ABORT, SETTLE, LET_GO, LET_GO_FAILED,
    KEEP_RECEIPT, COMPENSATE, FINISH_COMPENSATION,
)  # fmt: skip

# Whatever a worker was once at.
_BEGUN = frozenset(State) - {State.PREPARED, State.REFUSED, State.APPROVED}
LATE_RECEIPT = Note("late_receipt", _BEGUN)
LATE_RECEIPT_SETTLED = Note("late_receipt_settled", _BEGUN)
# What needs a second operator: the first one's word, and a word against it.
_SETTLED_BY_HAND = _BEGUN | {State.APPROVED}
SETTLEMENT_PROPOSED = Note("settlement_proposed", _SETTLED_BY_HAND)
SETTLEMENT_DECLINED = Note("settlement_declined", _SETTLED_BY_HAND)


FINAL = frozenset({State.REFUSED, State.COMMITTED, State.ABORTED, State.FAILED, State.COMPENSATED})
# Retention: the content of what has ended is erased in time, unless an operator holds it back.
CONTENT_ERASED = Note("content_erased", FINAL)
LEGAL_HOLD_PLACED = Note("legal_hold_placed", frozenset(State))
LEGAL_HOLD_RELEASED = Note("legal_hold_released", frozenset(State))

NOTES = (
    LATE_RECEIPT, LATE_RECEIPT_SETTLED, SETTLEMENT_PROPOSED, SETTLEMENT_DECLINED, CONTENT_ERASED,
    LEGAL_HOLD_PLACED, LEGAL_HOLD_RELEASED,
)  # fmt: skip


class Arrow(NamedTuple):
    """A move as the verifier of the audit log reads it; no target: the state stays as it was."""

    sources: frozenset[str]
    target: str | None


ARROWS = {
    move.name: Arrow(frozenset(map(str, move.sources)), str(move.target)) for move in MOVES
} | {note.name: Arrow(frozenset(map(str, note.sources)), None) for note in NOTES}

# Ended, and the world never changed: the operation key is free again. Every other state keeps it.
WITHOUT_EFFECT = frozenset({State.REFUSED, State.ABORTED, State.FAILED})
# A worker holds a lease on these while it acts.
AT_WORK = frozenset({State.COMMITTING, State.ROLLING_BACK, State.COMPENSATING})


class LedgerStatus(TextChoices):
    """What the ledger says in public, derived from the state."""

    PLANNED = "planned"
    IN_PROGRESS = "in_progress"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"


LEDGER_STATUS = {
    State.PREPARED: LedgerStatus.PLANNED,
    State.APPROVED: LedgerStatus.PLANNED,
    State.COMMITTING: LedgerStatus.IN_PROGRESS,
    State.IN_DOUBT: LedgerStatus.IN_PROGRESS,
    State.ROLLING_BACK: LedgerStatus.IN_PROGRESS,
    State.COMMITTED: LedgerStatus.SUCCEEDED,
    State.REFUSED: LedgerStatus.FAILED,
    State.ABORTED: LedgerStatus.FAILED,
    State.FAILED: LedgerStatus.FAILED,
    State.COMPENSATING: LedgerStatus.COMPENSATING,
    State.COMPENSATED: LedgerStatus.COMPENSATED,
}
