"""Standing of a transaction, typed, and in one sentence for a language model.

A pure function of the row. Machines read the sentences, so they stay English.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from ledger.states import Ending, Reasons, State


class OutcomeKind(StrEnum):
    PENDING = "pending"  # waits for sign-off, or is being carried out
    IN_DOUBT = "in_doubt"  # it may have taken effect; nobody knows yet
    SUCCEEDED = "succeeded"
    HANDED_OVER = "handed_over"  # signed off; the agent carries it out, and no receipt comes back
    REFUSED = "refused"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    FAILED = "failed"


NOT_FINAL = frozenset({OutcomeKind.PENDING, OutcomeKind.IN_DOUBT})


class OutcomeForAgent(NamedTuple):
    """Outcome an agent is told. ``do_not_retry``: not even in another form, unless asked to."""

    kind: OutcomeKind
    sentence: str
    do_not_retry: bool = True

    @property
    def is_final(self) -> bool:
        return self.kind not in NOT_FINAL

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "is_final": self.is_final,
            "sentence": self.sentence,
            "do_not_retry": self.do_not_retry,
        }


class Row(Protocol):
    @property
    def state(self) -> str: ...
    @property
    def ending(self) -> str: ...
    @property
    def ending_reason(self) -> str: ...
    @property
    def error(self) -> str: ...
    @property
    def error_source(self) -> dict[str, Any] | None: ...
    @property
    def receipt(self) -> str: ...
    @property
    def late_receipt(self) -> str: ...
    @property
    def revision(self) -> int: ...
    @property
    def asked_at(self) -> datetime | None: ...


NOT_AGAIN = (
    "Nothing was carried out. Do not propose it again, in this or another form, unless the user "
    "asks for it."
)
YOU_MAY = "Nothing was carried out. It may be proposed again."
WAIT = "Do not propose it again: wait for the outcome."
CHANGED = "It was carried out, otherwise than you proposed it: `changed` says what is different."
LATE = OutcomeForAgent(
    OutcomeKind.IN_DOUBT,
    "It ended without a receipt, and then a receipt came: an operator finds out whether it took "
    f"effect. {WAIT}",
)
QUESTION = OutcomeForAgent(
    OutcomeKind.PENDING,
    "It is waiting for sign-off, and somebody who decides has a question about it: read `question`"
    " and answer it. Nothing has been carried out yet. Do not propose it again.",
)
BY_STATE: dict[str, OutcomeForAgent] = {
    State.PREPARED: OutcomeForAgent(
        OutcomeKind.PENDING,
        f"It is {State.PREPARED.label}. Nothing has been carried out yet. {WAIT}",
    ),
    State.APPROVED: OutcomeForAgent(OutcomeKind.PENDING, f"It is {State.APPROVED.label}. {WAIT}"),
    State.HANDED_OVER: OutcomeForAgent(
        OutcomeKind.HANDED_OVER,
        "It was signed off, and you carry it out yourself: once, exactly as it was proposed. Do "
        "not propose it again.",
    ),
    State.COMMITTING: OutcomeForAgent(
        OutcomeKind.PENDING, f"It is {State.COMMITTING.label}. {WAIT}"
    ),
    State.IN_DOUBT: OutcomeForAgent(
        OutcomeKind.IN_DOUBT,
        f"It is {State.IN_DOUBT.label}: whether it took effect is not known yet. {WAIT}",
    ),
    State.COMPENSATING: OutcomeForAgent(
        OutcomeKind.PENDING, f"It is {State.COMPENSATING.label}. {WAIT}"
    ),
    State.COMPENSATED: OutcomeForAgent(
        OutcomeKind.WITHDRAWN,
        f"It is {State.COMPENSATED.label}. Do not propose it again, in this or another form, "
        "unless the user asks for it.",
    ),
}
# The same, where the proposing agent carries it out itself.
FOR_ITS_AGENT: dict[str, OutcomeForAgent] = {
    State.APPROVED: OutcomeForAgent(
        OutcomeKind.PENDING,
        "It was signed off, and you carry it out yourself. Fetch the permit (POST to the address "
        "of the transaction with /permit), redeem it, act once, and post the receipt. Do not "
        "propose it again.",
    ),
    State.COMMITTING: OutcomeForAgent(
        OutcomeKind.PENDING,
        "Its permit was redeemed: act once, and post the receipt before the time to act is over. "
        "Do not propose it again.",
    ),
}
# Of each ending: what it is, how the sentence begins, and whether it may be proposed again.
ENDED: dict[str, tuple[OutcomeKind, str, bool]] = {
    Ending.REJECTED: (OutcomeKind.REFUSED, "It was refused", False),
    Ending.SENT_BACK: (
        OutcomeKind.REFUSED,
        "It was sent back: propose it anew as it is asked for, with the id of this one as "
        "`replaces`. What is asked",
        True,
    ),
    Ending.OUTDATED: (
        OutcomeKind.FAILED,
        "It was signed off, and was not true any more when it was to be carried out",
        True,
    ),
    Ending.EXPIRED: (OutcomeKind.EXPIRED, "Nobody signed it off in time", False),
    Ending.CANCELED: (OutcomeKind.WITHDRAWN, "The agent withdrew it", False),
    Ending.WITHDRAWN: (OutcomeKind.WITHDRAWN, "An operator withdrew it", False),
    Ending.HOLD_LAPSED: (
        OutcomeKind.EXPIRED,
        "It was signed off, and what was held for it lapsed before it was carried out",
        True,
    ),
    Ending.PERMIT_LAPSED: (
        OutcomeKind.EXPIRED,
        "It was signed off, and no permit of it was redeemed in time",
        True,
    ),
    Ending.ABANDONED: (OutcomeKind.FAILED, "It could not be entered", True),
    Ending.FAILED: (OutcomeKind.FAILED, "It could not be carried out", True),
}
UNEXPLAINED = (OutcomeKind.FAILED, "It ended without any effect", False)
# The reasons of these are our own words, and say nothing that the sentence does not.
OWN_WORDS = frozenset({Ending.EXPIRED, Ending.HOLD_LAPSED, Ending.PERMIT_LAPSED, Ending.ABANDONED})


def outcome_of(row: Row, *, is_own: bool = True, acts_itself: bool = False) -> OutcomeForAgent:
    """Standing of the transaction. Reason and receipt are left out unless the reader ``is_own``.

    ``acts_itself``: its agent carries it out, with a permit.

    What people or time decided is final at once, although what was held is still being released.
    What may be proposed again is final only then: until then it holds its operation key.
    """
    if row.state == State.COMMITTED:
        return _succeeded(row, row.receipt if is_own else "")
    if row.state == State.PREPARED and row.asked_at is not None and is_own:
        return QUESTION
    if acts_itself and row.state in FOR_ITS_AGENT:
        return FOR_ITS_AGENT[row.state]
    if row.state == State.IN_DOUBT and is_own:
        return _in_doubt(row)
    if row.state in BY_STATE:
        return BY_STATE[row.state]
    reason = row.ending_reason if is_own else ""
    if row.state == State.REFUSED:
        return refused_by_tool(reason)
    if row.late_receipt:
        return LATE
    return _ended(row, reason)


def _in_doubt(row: Row) -> OutcomeForAgent:
    """With the words of the tool itself; what it merely raised may hold secrets."""
    outcome = BY_STATE[State.IN_DOUBT]
    if (row.error_source or {}).get("code") != Reasons.TOOL_SAID.code:
        return outcome
    return outcome._replace(sentence=f"{outcome.sentence} {row.error}")


def refused_by_tool(reason: str) -> OutcomeForAgent:
    """The tool would not plan it: other arguments may do, and nobody was asked in vain."""
    begins = _with("The tool refused it before anybody was asked", reason)
    return OutcomeForAgent(
        OutcomeKind.REFUSED,
        f"{begins} Nothing was carried out. It may be proposed again with other arguments.",
        do_not_retry=False,
    )


def _succeeded(row: Row, receipt: str) -> OutcomeForAgent:
    named = f" The receipt is {receipt}." if receipt else ""
    done = "It was carried out." if row.revision == 1 else CHANGED
    return OutcomeForAgent(OutcomeKind.SUCCEEDED, f"{done}{named} Do not propose it again.")


def _ended(row: Row, reason: str) -> OutcomeForAgent:
    kind, begins, may_retry = ENDED.get(row.ending, UNEXPLAINED)
    begins = _with(begins, "" if row.ending in OWN_WORDS else reason)
    if not may_retry:
        return OutcomeForAgent(kind, f"{begins} {NOT_AGAIN}")
    if row.state == State.ROLLING_BACK:
        releasing = "What was held for it is being let go."
        return OutcomeForAgent(OutcomeKind.PENDING, f"{begins} {releasing} {WAIT}")
    return OutcomeForAgent(kind, f"{begins} {YOU_MAY}", do_not_retry=False)


def _with(begins: str, reason: str) -> str:
    """The sentence's beginning, and the reason that somebody gave."""
    return f'{begins}, with the reason: "{reason}".' if reason else f"{begins}."
