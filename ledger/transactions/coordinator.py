"""The verbs of a transaction, for agents, people and the sweeper: the door of this package."""

from __future__ import annotations

from typing import Unpack
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import seals, states
from ledger.errors import CanceledBefore, IdempotencyKeyMissing, NotAllowed, NotPossible
from ledger.models import (
    Ending,
    Event,
    IdempotencyKey,
    Transaction,
    Verdict,
    clock_runs,
)
from ledger.principals import SWEEPER, Principal, Surface
from ledger.states import EventKind, Reasons
from ledger.transactions import sign_offs, votes
from ledger.transactions.deadlines import left_behind, set_going
from ledger.transactions.decisions import (
    approve_all,
    approve_by_policy,
    decide,
    withdraw,
)
from ledger.transactions.eligibility import Vote
from ledger.transactions.late_decisions import (
    already_decided,
    snapshot_of,
    withdrawn_or_refuse,
)
from ledger.transactions.prepare import (
    KEY_MAX,
    PREPARE_ROUTE,
    Answer,
    Proposal,
    Request,
    checked,
)
from ledger.transactions.prepare.prepare import is_for_batch, prepare, prepare_all
from ledger.transactions.renewal import renew_terms
from ledger.transactions.requests import (
    THREAD,
    NotEditable,
    advise,
    answer,
    ask,
    extend,
    longest_of,
    note,
    requests_to_agent,
    revise,
    why_not_editable,
)
from ledger.transactions.reviews import review
from ledger.transactions.settlements import compensate, resolve
from ledger.transactions.transitions import FRESH, REASON_MAX, advance, check_reason

__all__ = [
    "PREPARE_ROUTE",
    "REASON_MAX",
    "THREAD",
    "Answer",
    "NotEditable",
    "Proposal",
    "Request",
    "Vote",
    "advise",
    "answer",
    "approve",
    "approve_all",
    "approve_by_policy",
    "ask",
    "cancel",
    "cancel_request",
    "check_reason",
    "checked",
    "close_request",
    "compensate",
    "escalate",
    "expire",
    "extend",
    "is_for_batch",
    "left_behind",
    "longest_of",
    "note",
    "pass_on",
    "prepare",
    "prepare_all",
    "reject",
    "renew_terms",
    "requests_to_agent",
    "resolve",
    "review",
    "revise",
    "send_back",
    "set_going",
    "why_not_editable",
    "withdraw_approval",
]

# Of one transaction: each tells every approver again.
MOST_ESCALATIONS = 5


def approve(transaction_id: UUID, **vote: Unpack[Vote]) -> Transaction:
    """Sign off exactly what the approver saw.

    The decision that completes the contract's quorum moves the transaction on. Approving again
    returns the present row. Raises ``AlreadyDecided, DigestMismatch, Expired, OwnTransaction``,
    each carrying who decided what, and ``NotAllowed`` for an agent where a person is required.
    """
    return decide(transaction_id, Verdict.APPROVE, **vote)


def reject(transaction_id: UUID, **vote: Unpack[Vote]) -> Transaction:
    """Reject; the reason, which it needs, is passed on to the agent. Raises as ``approve`` does."""
    return decide(transaction_id, Verdict.REJECT, **vote)


def send_back(transaction_id: UUID, **vote: Unpack[Vote]) -> Transaction:
    """Reject, and ask the agent to propose it anew as the reason says. Raises as ``approve``."""
    return decide(transaction_id, Verdict.SEND_BACK, **vote)


def pass_on(transaction_id: UUID, **vote: Unpack[Vote]) -> Transaction:
    """Leave the decision to people, with a supervising agent's reasoning.

    From then on only people's approvals count, those of agents before it neither. Passing on
    again returns the present row. Needs a reason, and raises as ``approve`` does.
    """
    return decide(transaction_id, Verdict.PASS_ON, **vote)


def withdraw_approval(transaction_id: UUID, *, by: Principal, via: Surface) -> Transaction:
    """Undo one's own approval, while its time for that lasts and nobody has begun.

    It waits for sign-off again, for what is left of its time; who withdrew may decide once more.
    One that fills no seat of what rules have asked for since can be undone while it waits.
    Withdrawing again returns the present row. Raises ``NotPossible, NotAllowed, NotFound``.
    """
    try:
        with atomic():
            # Who claims waits for this lock, or leaves the row alone.
            Transaction.objects.select_for_update().filter(pk=transaction_id).first()
            links = sign_offs.links_of(transaction_id)
            vote = votes.standing_approval(links, str(by))
            if vote is None:
                raise NotPossible()
            until = votes.undo_until(vote)
            is_idle = votes.may_be_replaced(vote, links)
            if until is None and not is_idle:
                raise NotPossible()
            not_after = None if is_idle else until
            return withdraw(links, vote, by=by, via=via, not_after=not_after)
    except NotPossible:
        return withdrawn_or_refuse(transaction_id, by)


def cancel(
    transaction_id: UUID,
    *,
    by: Principal,
    via: Surface,
    reason: str = "",
    proposer: Principal | None = None,
) -> Transaction:
    """Cancel a transaction; only its proposer may. Canceling again returns the present row.

    Pass ``proposer`` where ``by`` acts in its place: when a task that was prepared for an agent
    ends, the transaction that it proposed is canceled. Raises ``AlreadyDecided, Expired,
    NotAllowed, NotFound, InvalidRequest``.
    """
    check_reason(reason)
    owner = str(proposer or by)
    try:
        return advance(
            transaction_id,
            states.CANCEL,
            by=by,
            via=via,
            reason=reason,
            details={"in_place_of": owner} if owner != str(by) else None,
            only_if=Q(proposed_by=owner),
            ending=Ending.CANCELED,
            ending_reason=reason,
            decided_at=Now(),
            work=FRESH,
        )
    except NotPossible as refusal:
        snapshot = snapshot_of(refusal)
        if snapshot.proposed_by != owner:
            raise NotAllowed("Only the agent that proposed a transaction can cancel it.") from None
        if snapshot.ending == Ending.CANCELED:
            return snapshot
        raise already_decided(snapshot) from None


def escalate(transaction_id: UUID, *, by: Principal, via: Surface, reason: str) -> Transaction:
    """Ask people once more for what its proposer still waits for; they are told again.

    Raises ``NotPossible`` once it is decided or was asked for ``MOST_ESCALATIONS`` times,
    ``InvalidRequest``.
    """
    check_reason(reason)
    asked = Event.objects.filter(subject=transaction_id, kind=EventKind.ESCALATED)
    if asked[:MOST_ESCALATIONS].count() == MOST_ESCALATIONS:
        raise NotPossible(f"People were told again {MOST_ESCALATIONS} times; that is all.")
    own = Q(proposed_by=str(by), expires_at__gt=Now())
    return advance(transaction_id, states.ESCALATE, by=by, via=via, reason=reason, only_if=own)


def cancel_request(
    key: str, *, by: Principal, via: Surface, reason: str = "", proposer: Principal | None = None
) -> Transaction | None:
    """Cancel by idempotency key, even before its prepare arrives or while that still plans.

    This takes the key, so that such a prepare is refused. Returns the canceled transaction, if
    there is one.
    """
    if not key or len(key) > KEY_MAX:
        raise IdempotencyKeyMissing(f"An Idempotency-Key has 1 to {KEY_MAX} characters.")
    seals.refuse_unsafe_text(key)
    transaction_id = close_request(key, proposer=proposer or by)
    if transaction_id is None:
        return None
    return cancel(transaction_id, by=by, via=via, reason=reason, proposer=proposer)


def close_request(key: str, *, proposer: Principal) -> UUID | None:
    """Take an idempotency key, so that no prepare with it can be inserted any more.

    Returns the transaction that was inserted with it before, unchanged, if there is one. Waits for
    an uncommitted INSERT with the key, so exactly one of the two gets it.
    """
    names = {"agent": str(proposer), "route": PREPARE_ROUTE, "key": key}
    row = IdempotencyKey(**names, status=CanceledBefore.status)
    IdempotencyKey.objects.bulk_create([row], ignore_conflicts=True)
    return IdempotencyKey.objects.get(**names).transaction_id


def expire(transaction_id: UUID) -> Transaction:
    """Expire what is past ``expires_at`` by the database's clock, unless a brake stopped that."""
    return advance(
        transaction_id,
        states.EXPIRE,
        by=SWEEPER,
        via=Surface.SYSTEM,
        reason=Reasons.NOT_IN_TIME(),
        only_if=Q(expires_at__lte=Now()) & clock_runs(),
        ending=Ending.EXPIRED,
        ending_reason=Reasons.SILENCE(),
        decided_at=Now(),
        work=FRESH,
    )
