"""The states of a transaction and the moves between them. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db.models import TextChoices

from ledger.errors import Sentence, StandardReason


class State(TextChoices):
    PREPARED = "prepared", Sentence("waiting for sign-off")
    REFUSED = "refused", Sentence("refused by the tool")
    APPROVED = "approved", Sentence("signed off, waiting for a worker")
    COMMITTING = "committing", Sentence("being carried out")
    COMMITTED = "committed", Sentence("done")
    HANDED_OVER = "handed_over", Sentence("handed to the agent")
    IN_DOUBT = "in_doubt", Sentence("in doubt")
    ROLLING_BACK = "rolling_back", Sentence("releasing what was held")
    ABORTED = "aborted", Sentence("ended without any effect")
    FAILED = "failed", Sentence("failed, nothing was done")
    COMPENSATING = "compensating", Sentence("being compensated")
    COMPENSATED = "compensated", Sentence("done, then compensated")


class Ending(TextChoices):
    """Ways in which a transaction ends without an effect."""

    REJECTED = "rejected", Sentence("rejected")
    SENT_BACK = "sent_back", Sentence("sent back to the agent")
    EXPIRED = "expired", Sentence("expired")
    OUTDATED = "outdated", Sentence("not true any more")
    CANCELED = "canceled", Sentence("canceled by the agent")
    HOLD_LAPSED = "hold_lapsed", Sentence("the hold lapsed")
    PERMIT_LAPSED = "permit_lapsed", Sentence("the agent did not act in time")
    ABANDONED = "abandoned", Sentence("planned, and not entered")
    WITHDRAWN = "withdrawn", Sentence("withdrawn by an operator")
    FAILED = "failed", Sentence("failed")


class Reasons:
    """The reasons that Assent itself gives for moves. Rows keep the codes: they never change."""

    NO_APPROVER = StandardReason("no_approver", "The contract asks for no approver.")
    BY_RULES = StandardReason("by_rules", "By rule {rules} of set {number} nobody has to sign.")
    NOT_IN_TIME = StandardReason("not_decided_in_time", "Nobody decided in time.")
    SILENCE = StandardReason("silence", "Nobody decided in time; silence is not consent.")
    NOT_ENTERED = StandardReason("not_entered", "It was planned, and could not be entered.")
    REPLACED_PLAN = StandardReason(
        "replaced_plan", "Another plan has taken its place; what this one held is released."
    )
    HOLD_LAPSED = StandardReason(
        "hold_lapsed", "What was held for it lapsed before it could be carried out."
    )
    PLANNED_AGAIN = StandardReason(
        "planned_again", "It was planned again before it was carried out, and came out otherwise."
    )
    NOT_PLANNED_AGAIN = StandardReason(
        "not_planned_again",
        "Planned again before it was carried out, the tool refused it: {text}",
    )
    NO_PERMIT_REDEEMED = StandardReason(
        "no_permit_redeemed", "Its agent redeemed no permit in time."
    )
    NO_TOOL = StandardReason("no_tool", "No tool named {tool} is deployed here.")
    TOOL_RAISED = StandardReason(
        "tool_raised",
        "The tool broke off; its log has more under {number}.",
        reads="{kind} ({number})",
    )
    TOOL_SAID = StandardReason("tool_said", "The tool says: {text}")
    SILENT_WORKER = StandardReason(
        "silent_worker", "The worker fell silent before it recorded an outcome."
    )
    SILENT_AGENT = StandardReason(
        "silent_agent", "Its agent fell silent after it had redeemed the permit."
    )
    ATTEMPT = StandardReason("attempt", "Attempt {number} with the same operation key.")
    NOT_DONE_IN_TIME = StandardReason(
        "not_done_in_time", "The tool accepted it, and did not do it in time."
    )
    LATE_FROM_WORKER = StandardReason(
        "late_from_worker",
        "A worker brought this receipt after the transaction had been settled.",
    )
    LATE_FROM_AGENT = StandardReason(
        "late_from_agent", "The agent posted this receipt after its time to act."
    )
    NOTHING_HAPPENED = StandardReason("nothing_happened", "The agent says that nothing happened.")
    RETENTION_OVER = StandardReason("retention_over", "Its retention was over.")


class EventKind(TextChoices):
    """Kind of event in a transaction, and its label. The audit log seals the values."""

    PREPARED = "prepared", Sentence("Proposed")
    REFUSED = "refused", State.REFUSED.label
    PLAN_ABANDONED = "plan_abandoned", Sentence("Planned, and could not be entered")
    APPROVAL_RECORDED = "approval_recorded", Sentence("Partly approved (others are needed too)")
    PASSED_ON = "passed_on", Sentence("Passed on to people")
    ESCALATED = "escalated", Sentence("The agent asks once more")
    DEADLINE_MOVED = (
        "deadline_moved",
        Sentence("Put off: its clock stood still while it was stopped"),
    )
    REVISED = "revised", Sentence("Changed")
    PLAN_CONFIRMED = "plan_confirmed", Sentence("Planned again: it is still as it was signed off")
    OUTDATED = "outdated", Sentence("Planned again: the tool refuses it by now")
    ASKED = "asked", Sentence("A question to the agent")
    ANSWERED = "answered", Sentence("The agent's answer")
    NOTED = "noted", Sentence("A note")
    EXTENDED = "extended", Sentence("Given more time")
    ADVISED = "advised", Sentence("Advice of a supervising agent")
    APPROVED = "approved", Sentence("Approved")
    APPROVAL_WITHDRAWN = "approval_withdrawn", Sentence("Approval withdrawn")
    TERMS_RENEWED = "terms_renewed", Sentence("Judged by the rules that are active since")
    TERMS_TIGHTENED = "terms_tightened", Sentence("The rules ask for more now: it waits again")
    REJECTED = "rejected", Sentence("Rejected")
    SENT_BACK = "sent_back", Sentence("Sent back to the agent")
    EXPIRED = "expired", Sentence("Expired: nobody decided in time")
    CANCELED = "canceled", Sentence("Canceled by the agent")
    HANDED_OVER = "handed_over", Sentence("Handed to the agent, which carries it out itself")
    PERMIT_ISSUED = "permit_issued", Sentence("The agent fetched its permit")
    CLAIMED = "claimed", Sentence("A worker began")
    HOLD_LAPSED = "hold_lapsed", Sentence("What was held lapsed")
    WITHDRAWN = "withdrawn", Sentence("Withdrawn before anybody began")
    COMMITTED = "committed", State.COMMITTED.label
    FAILED = "failed", State.FAILED.label
    FELL_IN_DOUBT = "fell_in_doubt", State.IN_DOUBT.label
    RETRIED = "retried", Sentence("Run again with the same operation key")
    RETRY_ORDERED = "retry_ordered", Sentence("Another run was ordered")
    DISPROVED = "disproved", Sentence("Found that nothing happened")
    ABORTED = "aborted", Sentence("Everything held was released")
    FAILURE_SETTLED = "failure_settled", Sentence("Everything held was released")
    LET_GO_BY_HAND = "let_go_by_hand", Sentence("What was held was released by hand")
    FAILURE_LET_GO_BY_HAND = (
        "failure_let_go_by_hand",
        Sentence("What was held was released by hand"),
    )
    RECEIPT_KEPT = "receipt_kept", Sentence("The late receipt is true: committed")
    COMPENSATION_STARTED = "compensation_started", Sentence("Compensation asked for")
    COMPENSATED = "compensated", Sentence("Compensated")
    LATE_RECEIPT = "late_receipt", Sentence("A receipt came late")
    LATE_RECEIPT_SETTLED = "late_receipt_settled", Sentence("The late receipt was looked at")
    SETTLEMENT_PROPOSED = (
        "settlement_proposed",
        Sentence("Outcome proposed (another operator is needed too)"),
    )
    SETTLEMENT_DECLINED = "settlement_declined", Sentence("The proposed settlement was declined")
    DECISION_REVIEWED = "decision_reviewed", Sentence("The supervisor's decision was reviewed")
    CONTENT_ERASED = "content_erased", Sentence("Content erased: its retention was over")
    LEGAL_HOLD_PLACED = "legal_hold_placed", Sentence("Legal hold: the content is kept")
    LEGAL_HOLD_RELEASED = "legal_hold_released", Sentence("Legal hold released")


S = TypeVar("S", bound=str)


class Outcome(TextChoices):
    """Outcome an operator may settle a transaction as. The audit log seals the values."""

    COMMITTED = "committed", Sentence("committed")
    NOTHING_HAPPENED = "nothing_happened", Sentence("nothing happened")
    RETRY = "retry", Sentence("retry")
    KEEP_RECEIPT = "keep_receipt", Sentence("keep receipt")
    NOT_OURS = "not_ours", Sentence("not ours")
    DEALT_WITH = "dealt_with", Sentence("dealt with")
    WITHDRAW = "withdraw", Sentence("withdraw")
    LET_GO = "let_go", Sentence("released by hand")
    DECLINE = "decline", Sentence("decline")
    COMPENSATE = "compensate", Sentence("compensate")


@dataclass(frozen=True, slots=True)
class Move(Generic[S]):
    """One arrow of a map: the kind of event that it appends, where it starts, where it leads.

    No sources: it brings the row into being. No target: the state stays as it is.
    """

    kind: str
    sources: frozenset[S]
    target: S | None

    def __str__(self) -> str:
        return str(self.kind)


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
# Its clock stood still under a brake: the time to decide it is longer by as much.
MOVE_DEADLINE = _move(EventKind.DEADLINE_MOVED, State.PREPARED, to=None)
APPROVE = _move(EventKind.APPROVED, State.PREPARED, to=State.APPROVED)
REJECT = _move(EventKind.REJECTED, State.PREPARED, to=State.ROLLING_BACK)
# A rejection with an invitation to propose it anew, otherwise.
SEND_BACK = _move(EventKind.SENT_BACK, State.PREPARED, to=State.ROLLING_BACK)
EXPIRE = _move(EventKind.EXPIRED, State.PREPARED, to=State.ROLLING_BACK)
CANCEL = _move(EventKind.CANCELED, State.PREPARED, to=State.ROLLING_BACK)

# Whoever approved it withdraws that, before anybody has begun.
WITHDRAW_APPROVAL = _move(
    EventKind.APPROVAL_WITHDRAWN, State.PREPARED, State.APPROVED, to=State.PREPARED
)

# Its arguments or its plan are other ones from here on: votes before it do not count any more.
# A person corrects what waits; a worker finds what was signed off not true any more.
REVISE = _move(EventKind.REVISED, State.PREPARED, State.APPROVED, to=State.PREPARED)
CONFIRM_PLAN = _move(EventKind.PLAN_CONFIRMED, State.APPROVED, to=None)
OUTDATE = _move(EventKind.OUTDATED, State.APPROVED, to=State.ROLLING_BACK)

# What people and the agent say to each other meanwhile; a question, its answer and more time move
# the deadline.
ASK = _move(EventKind.ASKED, State.PREPARED, to=None)
ANSWER = _move(EventKind.ANSWERED, State.PREPARED, to=None)
EXTEND = _move(EventKind.EXTENDED, State.PREPARED, to=None)
NOTE = _move(EventKind.NOTED, *State, to=None)
# What a supervising agent would decide, where people do.
ADVISE = _move(EventKind.ADVISED, State.PREPARED, to=None)

# Other rules were activated before anybody began.
RENEW_TERMS = _move(EventKind.TERMS_RENEWED, State.PREPARED, State.APPROVED, to=None)
TIGHTEN_TERMS = _move(EventKind.TERMS_TIGHTENED, State.APPROVED, to=State.PREPARED)

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
    PREPARE, REFUSE, ABANDON, RECORD_APPROVAL, PASS_ON, APPROVE, WITHDRAW_APPROVAL, REJECT, EXPIRE,
    CANCEL, HAND_OVER, ISSUE_PERMIT, CLAIM, LAPSE_HOLD, WITHDRAW, COMMIT, FAIL, DOUBT, RETRY,
    ORDER_RETRY, DISPROVE, ABORT, SETTLE, LET_GO, LET_GO_FAILED, KEEP_RECEIPT, COMPENSATE,
    FINISH_COMPENSATION, LATE_RECEIPT, LATE_RECEIPT_SETTLED, SETTLEMENT_PROPOSED,
    SETTLEMENT_DECLINED, CONTENT_ERASED, LEGAL_HOLD_PLACED, LEGAL_HOLD_RELEASED, REVIEW, ESCALATE,
    RENEW_TERMS, TIGHTEN_TERMS, MOVE_DEADLINE, REVISE, CONFIRM_PLAN, OUTDATE, ASK, ANSWER, EXTEND,
    NOTE, SEND_BACK, ADVISE,
)  # fmt: skip
# How the verifier of the audit log reads the map.
BY_KIND: dict[str, Move[State]] = {move.kind: move for move in MOVES}

# Ended without any effect. A transaction in any other state holds its operation key.
WITHOUT_EFFECT = frozenset({State.REFUSED, State.ABORTED, State.FAILED})
# Ended with one, whatever was done about it afterwards.
WITH_EFFECT = frozenset({State.COMMITTED, State.HANDED_OVER, State.COMPENSATING, State.COMPENSATED})
# A worker holds a lease on these while it acts.
AT_WORK = frozenset({State.COMMITTING, State.ROLLING_BACK, State.COMPENSATING})


class LedgerStatus(TextChoices):
    """Status the ledger shows in public, derived from the state."""

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
