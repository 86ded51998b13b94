"""The states of a transaction and the moves between them. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from django.db.models import TextChoices


class State(TextChoices):
    PREPARED = "prepared", "waiting for sign-off"
    REFUSED = "refused", "refused before anything was held"
    APPROVED = "approved", "signed off, waiting for a worker"
    COMMITTING = "committing", "being carried out"
    COMMITTED = "committed", "done, with a receipt"
    HANDED_OVER = "handed_over", "signed off, handed to the agent"
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
    PERMIT_LAPSED = "permit_lapsed", "the agent did not act in time"
    ABANDONED = "abandoned", "planned, and not entered"
    WITHDRAWN = "withdrawn", "withdrawn by an operator"
    FAILED = "failed", "failed"


class EventKind(StrEnum):
    """What happened to a transaction. The audit log seals the values: they never change."""

    PREPARED = "prepared"
    REFUSED = "refused"
    PLAN_ABANDONED = "plan_abandoned"
    APPROVAL_RECORDED = "approval_recorded"
    PASSED_ON = "passed_on"
    ESCALATED = "escalated"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELED = "canceled"
    HANDED_OVER = "handed_over"
    PERMIT_ISSUED = "permit_issued"
    CLAIMED = "claimed"
    HOLD_LAPSED = "hold_lapsed"
    WITHDRAWN = "withdrawn"
    COMMITTED = "committed"
    FAILED = "failed"
    FELL_IN_DOUBT = "fell_in_doubt"
    RETRIED = "retried"
    RETRY_ORDERED = "retry_ordered"
    DISPROVED = "disproved"
    ABORTED = "aborted"
    FAILURE_SETTLED = "failure_settled"
    LET_GO_BY_HAND = "let_go_by_hand"
    FAILURE_LET_GO_BY_HAND = "failure_let_go_by_hand"
    RECEIPT_KEPT = "receipt_kept"
    COMPENSATION_STARTED = "compensation_started"
    COMPENSATED = "compensated"
    LATE_RECEIPT = "late_receipt"
    LATE_RECEIPT_SETTLED = "late_receipt_settled"
    SETTLEMENT_PROPOSED = "settlement_proposed"
    SETTLEMENT_DECLINED = "settlement_declined"
    DECISION_REVIEWED = "decision_reviewed"
    CONTENT_ERASED = "content_erased"
    LEGAL_HOLD_PLACED = "legal_hold_placed"
    LEGAL_HOLD_RELEASED = "legal_hold_released"


S = TypeVar("S", bound=str)


class Outcome(StrEnum):
    """What an operator may settle a transaction as. The audit log seals the values."""

    COMMITTED = "committed"
    NOTHING_HAPPENED = "nothing_happened"
    RETRY = "retry"
    KEEP_RECEIPT = "keep_receipt"
    NOT_OURS = "not_ours"
    DEALT_WITH = "dealt_with"
    WITHDRAW = "withdraw"
    LET_GO = "let_go"
    DECLINE = "decline"
    COMPENSATE = "compensate"


@dataclass(frozen=True, slots=True)
class Move(Generic[S]):
    """One arrow of a map: the kind of event that it appends, where it starts, where it leads.

    No sources: it brings the row into being. No target: the state stays as it is.
    """

    kind: StrEnum
    sources: frozenset[S]
    target: S | None

    def __str__(self) -> str:
        return self.kind.value


def _move(kind: EventKind, *sources: State, to: State | None) -> Move[State]:
    return Move(kind, frozenset(sources), to)


# No sources: these three bring a transaction into being.
PREPARE = _move(EventKind.PREPARED, to=State.PREPARED)
REFUSE = _move(EventKind.REFUSED, to=State.REFUSED)
ABANDON = _move(EventKind.PLAN_ABANDONED, to=State.ROLLING_BACK)

RECORD_APPROVAL = _move(EventKind.APPROVAL_RECORDED, State.PREPARED, to=State.PREPARED)
# A supervising agent leaves it to people: from then on no agent's decision counts.
PASS_ON = _move(EventKind.PASSED_ON, State.PREPARED, to=State.PREPARED)
# The agent asks once more: people are told again. It decides nothing.
ESCALATE = _move(EventKind.ESCALATED, State.PREPARED, to=State.PREPARED)
APPROVE = _move(EventKind.APPROVED, State.PREPARED, to=State.APPROVED)
REJECT = _move(EventKind.REJECTED, State.PREPARED, to=State.ROLLING_BACK)
EXPIRE = _move(EventKind.EXPIRED, State.PREPARED, to=State.ROLLING_BACK)
CANCEL = _move(EventKind.CANCELED, State.PREPARED, to=State.ROLLING_BACK)

# The agent carries it out itself: nothing comes back, and no worker ever claims it.
HAND_OVER = _move(EventKind.HANDED_OVER, State.APPROVED, to=State.HANDED_OVER)

CLAIM = _move(EventKind.CLAIMED, State.APPROVED, to=State.COMMITTING)
# Its agent carries it out: each permit that it is given. Redeeming one is a claim.
ISSUE_PERMIT = _move(EventKind.PERMIT_ISSUED, State.APPROVED, to=None)
LAPSE_HOLD = _move(EventKind.HOLD_LAPSED, State.APPROVED, to=State.ROLLING_BACK)

WITHDRAW = _move(EventKind.WITHDRAWN, State.APPROVED, to=State.ROLLING_BACK)

COMMIT = _move(EventKind.COMMITTED, State.COMMITTING, State.IN_DOUBT, to=State.COMMITTED)
FAIL = _move(EventKind.FAILED, State.COMMITTING, to=State.ROLLING_BACK)
DOUBT = _move(EventKind.FELL_IN_DOUBT, State.COMMITTING, to=State.IN_DOUBT)
RETRY = _move(EventKind.RETRIED, State.IN_DOUBT, to=State.COMMITTING)
ORDER_RETRY = _move(EventKind.RETRY_ORDERED, State.IN_DOUBT, to=State.IN_DOUBT)
DISPROVE = _move(EventKind.DISPROVED, State.IN_DOUBT, to=State.ROLLING_BACK)

ABORT = _move(EventKind.ABORTED, State.ROLLING_BACK, to=State.ABORTED)
SETTLE = _move(EventKind.FAILURE_SETTLED, State.ROLLING_BACK, to=State.FAILED)
# An operator settles what no worker can: the tool is gone, or its rollback never succeeds.
LET_GO = _move(EventKind.LET_GO_BY_HAND, State.ROLLING_BACK, to=State.ABORTED)
LET_GO_FAILED = _move(EventKind.FAILURE_LET_GO_BY_HAND, State.ROLLING_BACK, to=State.FAILED)
# A receipt came after the row was settled without one; an operator confirmed it.
KEEP_RECEIPT = _move(
    EventKind.RECEIPT_KEPT,
    State.IN_DOUBT,
    State.ROLLING_BACK,
    State.ABORTED,
    State.FAILED,
    to=State.COMMITTED,
)

COMPENSATE = _move(EventKind.COMPENSATION_STARTED, State.COMMITTED, to=State.COMPENSATING)
FINISH_COMPENSATION = _move(EventKind.COMPENSATED, State.COMPENSATING, to=State.COMPENSATED)

FINAL = frozenset(
    {
        State.REFUSED,
        State.COMMITTED,
        State.HANDED_OVER,
        State.ABORTED,
        State.FAILED,
        State.COMPENSATED,
    }
)
# To query for what is open, name these: of `NOT state IN (...)` PostgreSQL expects far too many.
OPEN = frozenset(State) - FINAL
# Every state that a worker may have acted in, or after.
_BEGUN = frozenset(State) - {
    State.PREPARED,
    State.REFUSED,
    State.APPROVED,
    State.HANDED_OVER,
}
LATE_RECEIPT = _move(EventKind.LATE_RECEIPT, *_BEGUN, to=None)
LATE_RECEIPT_SETTLED = _move(EventKind.LATE_RECEIPT_SETTLED, *_BEGUN, to=None)
# What takes two operators: the proposal of the first, and its refusal.
_SETTLED_BY_HAND = _BEGUN | {State.APPROVED}
SETTLEMENT_PROPOSED = _move(EventKind.SETTLEMENT_PROPOSED, *_SETTLED_BY_HAND, to=None)
SETTLEMENT_DECLINED = _move(EventKind.SETTLEMENT_DECLINED, *_SETTLED_BY_HAND, to=None)

# What a person thinks of a supervisor's decision. It changes nothing.
REVIEW = _move(EventKind.DECISION_REVIEWED, *State, to=None)

# Retention: the content of what has ended is erased in time, unless an operator holds it back.
CONTENT_ERASED = _move(EventKind.CONTENT_ERASED, *FINAL, to=None)
LEGAL_HOLD_PLACED = _move(EventKind.LEGAL_HOLD_PLACED, *State, to=None)
LEGAL_HOLD_RELEASED = _move(EventKind.LEGAL_HOLD_RELEASED, *State, to=None)

MOVES = (
    PREPARE, REFUSE, ABANDON, RECORD_APPROVAL, PASS_ON, APPROVE, REJECT, EXPIRE, CANCEL, HAND_OVER,
    ISSUE_PERMIT, CLAIM, LAPSE_HOLD, WITHDRAW, COMMIT, FAIL, DOUBT, RETRY, ORDER_RETRY, DISPROVE,
    ABORT, SETTLE, LET_GO, LET_GO_FAILED, KEEP_RECEIPT, COMPENSATE, FINISH_COMPENSATION,
    LATE_RECEIPT, LATE_RECEIPT_SETTLED, SETTLEMENT_PROPOSED, SETTLEMENT_DECLINED, CONTENT_ERASED,
    LEGAL_HOLD_PLACED, LEGAL_HOLD_RELEASED, REVIEW, ESCALATE,
)  # fmt: skip
# How the verifier of the audit log reads the map.
BY_KIND: dict[str, Move[State]] = {move.kind: move for move in MOVES}

# Ended without any effect. A transaction in any other state holds its operation key.
WITHOUT_EFFECT = frozenset({State.REFUSED, State.ABORTED, State.FAILED})
# A worker holds a lease on these while it acts.
AT_WORK = frozenset({State.COMMITTING, State.ROLLING_BACK, State.COMPENSATING})


class LedgerStatus(TextChoices):
    """What the ledger says in public, derived from the state."""

    PLANNED = "planned"
    IN_PROGRESS = "in_progress"
    SUCCEEDED = "succeeded"
    HANDED_OVER = "handed_over"
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
    State.HANDED_OVER: LedgerStatus.HANDED_OVER,
    State.REFUSED: LedgerStatus.FAILED,
    State.ABORTED: LedgerStatus.FAILED,
    State.FAILED: LedgerStatus.FAILED,
    State.COMPENSATING: LedgerStatus.COMPENSATING,
    State.COMPENSATED: LedgerStatus.COMPENSATED,
}
