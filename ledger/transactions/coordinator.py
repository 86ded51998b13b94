"""The verbs: everything that agents, people and the clock can do to a transaction."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from ledger import intents, states
from ledger.errors import (
    CanceledBefore,
    IdempotencyKeyMissing,
    InvalidRequest,
    NotAllowed,
    NotPossible,
)
from ledger.models import Ending, Transaction, Verdict
from ledger.principals import SWEEPER, Principal, Surface
from ledger.transactions import insert
from ledger.transactions.decisions import (
    REASON_MAX,
    already_decided,
    approve_by_policy,
    check_reason,
    decide,
    snapshot_of,
)
from ledger.transactions.prepare import Answer, prepare
from ledger.transactions.proposals import KEY_MAX, PREPARE_ROUTE, Proposal
from ledger.transactions.settlements import compensate, resolve
from ledger.transactions.transitions import FRESH, advance

__all__ = [
    "PREPARE_ROUTE",
    "REASON_MAX",
    "Answer",
    "Proposal",
    "approve",
    "approve_by_policy",
    "cancel",
    "cancel_request",
    "check_reason",
    "close_request",
    "compensate",
    "expire",
    "prepare",
    "reject",
    "resolve",
]


def approve(
    transaction_id: UUID, *, digest: str, by: Principal, via: Surface, reason: str = ""
) -> Transaction:
    """Sign off exactly what the approver saw.

    The vote that completes the contract's quorum moves the transaction on. Saying the same again
    returns the present row. Raises ``AlreadyDecided, DigestMismatch, Expired, OwnTransaction``,
    each carrying who decided what, and ``NotAllowed`` for an agent where a person is asked for.
    """
    return decide(transaction_id, Verdict.APPROVE, digest=digest, by=by, via=via, reason=reason)


def reject(
    transaction_id: UUID, *, digest: str, by: Principal, via: Surface, reason: str
) -> Transaction:
    """Say no, and why: the reason reaches the agent. Raises as ``approve`` does."""
    if not reason.strip():
        raise InvalidRequest("A rejection needs a reason; it is what the agent learns from.")
    return decide(transaction_id, Verdict.REJECT, digest=digest, by=by, via=via, reason=reason)


def cancel(
    transaction_id: UUID,
    *,
    by: Principal,
    via: Surface,
    reason: str = "",
    proposer: Principal | None = None,
) -> Transaction:
    """Take a proposal back; only its proposer may. Canceling twice is one cancel.

    ``proposer`` is named where ``by`` acts in the proposer's place: a task that was proposed for
    an agent ends, and what it proposed ends with it.
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


def cancel_request(
    key: str, *, by: Principal, via: Surface, reason: str = "", proposer: Principal | None = None
) -> Transaction | None:
    """Cancel by idempotency key, also when the prepare has not arrived or still plans.

    The key is taken, so that such a prepare cannot enter any more: it is refused. Returns the
    canceled transaction, if there is one.
    """
    if not key or len(key) > KEY_MAX:
        raise IdempotencyKeyMissing(f"An Idempotency-Key has 1 to {KEY_MAX} characters.")
    intents.refuse_unsafe_text(key)
    transaction_id = close_request(key, proposer=proposer or by)
    if transaction_id is None:
        return None
    return cancel(transaction_id, by=by, via=via, reason=reason, proposer=proposer)


def close_request(key: str, *, proposer: Principal) -> UUID | None:
    """See to it that nothing enters with this key any more.

    Returns the transaction that has entered with it; that one is left as it is.
    """
    return insert.take_key(str(proposer), PREPARE_ROUTE, key, status=CanceledBefore.status)


def expire(transaction_id: UUID) -> Transaction:
    """Let a transaction lapse whose time is up by the database's clock."""
    return advance(
        transaction_id,
        states.EXPIRE,
        by=SWEEPER,
        via=Surface.SYSTEM,
        reason="Nobody decided in time.",
        only_if=Q(expires_at__lte=Now()),
        ending=Ending.EXPIRED,
        ending_reason="Nobody decided in time; silence is not consent.",
        decided_at=Now(),
        work=FRESH,
    )
