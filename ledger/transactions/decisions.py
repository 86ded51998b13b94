"""One decision of one principal on one intent digest, and the refusals of those who came late."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import intents, seals, states
from ledger.errors import (
    AlreadyDecided,
    DigestMismatch,
    Expired,
    InvalidRequest,
    NotAllowed,
    NotFound,
    NotPossible,
    OwnTransaction,
)
from ledger.models import Decision, Ending, Transaction, Verdict
from ledger.principals import POLICY, Principal, Surface
from ledger.states import EventKind, State
from ledger.transactions import sign_offs
from ledger.transactions.transitions import FRESH, advance

REASON_MAX = 2_000  # characters


def approve_by_policy(transaction_id: UUID, digest: str) -> Transaction:
    """Sign off a transaction whose contract requires no approver, with POLICY as the decider."""
    return decide(
        transaction_id,
        Verdict.APPROVE,
        digest=digest,
        by=POLICY,
        via=Surface.SYSTEM,
        reason="The contract asks for no approver.",
    )


def decide(
    transaction_id: UUID, verdict: Verdict, *, digest: str, by: Principal, via: Surface, reason: str
) -> Transaction:
    """Record one decision; the one that completes the quorum, or rejects, moves the transaction.

    Deciding the same again returns the present row. Raises ``AlreadyDecided, DigestMismatch,
    Expired, OwnTransaction, NotAllowed, NotFound, InvalidRequest``.
    """
    check_reason(reason)
    try:
        with atomic():
            return _record(transaction_id, verdict, digest=digest, by=by, via=via, reason=reason)
    except NotPossible as refusal:
        # Read again: what the refused attempt had written was rolled back.
        snapshot = Transaction.objects.get(pk=snapshot_of(refusal).pk)
        return _same_again_or_refuse(snapshot, verdict, digest, by)


def _record(
    transaction_id: UUID, verdict: Verdict, *, digest: str, by: Principal, via: Surface, reason: str
) -> Transaction:
    open_for_decision = Q(intent_digest=digest, state=State.PREPARED, expires_at__gt=Now())
    row = (
        Transaction.objects.select_for_update()
        .filter(open_for_decision & ~Q(proposed_by=str(by)), pk=transaction_id)
        .first()
    )
    if row is None:
        raise NotPossible(snapshot=Transaction.objects.filter(pk=transaction_id).first())
    _check_may_decide(row, by)
    earlier = [link for link in sign_offs.links_of(row.pk) if link.kind in sign_offs.DECISIONS]
    if any(link.principal == str(by) for link in earlier):
        raise NotPossible(snapshot=row)
    decision = Decision.objects.create(
        transaction=row,
        principal=str(by),
        principal_name=by.display_name,
        verdict=verdict,
        intent_digest=digest,
        via=via,
        reason=reason,
    )
    event: dict[str, Any] = {
        "by": by,
        "via": via,
        "reason": reason,
        "not_after": row.expires_at,
        "details": {
            "intent_digest": digest,
            "verdict": str(verdict),
            "decision_at": seals.as_text(decision.at),
        },
    }
    if verdict == Verdict.REJECT:
        ending: dict[str, Any] = {
            "ending": Ending.REJECTED,
            "ending_reason": reason,
            "decided_at": Now(),
        }
        return advance(row.pk, states.REJECT, **ending, work=FRESH, **event)
    approvals = len(earlier) + 1  # a rejection would have ended it
    if approvals < row.quorum and by != POLICY:
        return advance(row.pk, states.RECORD_APPROVAL, **event)
    return advance(row.pk, states.APPROVE, decided_at=Now(), work=FRESH, **event)


def _check_may_decide(row: Transaction, by: Principal) -> None:
    """Check, whatever the surface, that the contract accepts this kind of principal."""
    if not sign_offs.may_sign_off(str(by), row.required_approver):
        raise NotAllowed(
            f"The contract of {row.tool} asks for a person to decide."
            if by.is_agent
            else f"The contract of {row.tool} asks for an approver."
        )


def _same_again_or_refuse(
    snapshot: Transaction, verdict: Verdict, digest: str, by: Principal
) -> Transaction:
    if snapshot.proposed_by == str(by):
        raise OwnTransaction(transaction_id=str(snapshot.pk))
    own = snapshot.decisions.filter(principal=str(by)).first()
    if own is not None and (own.verdict, own.intent_digest) == (verdict, digest):
        return snapshot
    if snapshot.state != State.PREPARED:
        raise already_decided(snapshot)
    if snapshot.intent_digest != digest:
        raise DigestMismatch(snapshot=snapshot, intent_digest=snapshot.intent_digest)
    if own is not None:
        raise AlreadyDecided(f"You have {own.get_verdict_display()} it.", snapshot=snapshot)
    raise Expired("Its time was up; nobody can decide on it any more.", snapshot=snapshot)


def already_decided(snapshot: Transaction) -> NotPossible:
    """The error that says who decided what, when and on which surface."""
    decisive = (
        EventKind.APPROVED,
        EventKind.REJECTED,
        EventKind.EXPIRED,
        EventKind.CANCELED,
        EventKind.REFUSED,
    )
    event = snapshot.events.filter(kind__in=decisive).order_by("-seq").first()
    if event is None:
        return AlreadyDecided(f"It is {snapshot.get_state_display()}.", snapshot=snapshot)
    error = Expired if event.kind == EventKind.EXPIRED else AlreadyDecided
    return error(
        f"{event.kind.capitalize()} by {event.principal_name} via {event.via} "
        f"at {event.at:%Y-%m-%d %H:%M:%S} UTC.",
        snapshot=snapshot,
        decided_by=event.principal,
        decided_by_name=event.principal_name,
        decision=event.kind,
        decided_via=event.via,
        decided_at=event.at.isoformat(),
        state=snapshot.state,
    )


def snapshot_of(refusal: NotPossible) -> Transaction:
    if refusal.snapshot is None:
        raise NotFound() from refusal
    snapshot: Transaction = refusal.snapshot
    return snapshot


def check_reason(reason: str) -> None:
    if len(reason) > REASON_MAX:
        raise InvalidRequest(f"A reason has at most {REASON_MAX} characters.")
    intents.refuse_unsafe_text(reason, "reason")
