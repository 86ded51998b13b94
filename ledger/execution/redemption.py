"""Permits: the proposing agent is given one, and redeeming it is the claim.

A transaction has one permit that counts. Issuing and redeeming both write the transaction's row
first, which locks it; what they then read of permits is what the one before them left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import F, Q
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import seals, states
from ledger.agents import allow, lists_of
from ledger.errors import NotFound, NotPossible, PermitEnded, PermitRedeemed, PermitsOff
from ledger.events.brakes import brake_over, refuse_to_begin
from ledger.execution.recording import try_advance
from ledger.models import Agent, Ending, Permit, Transaction, Verdict
from ledger.principals import PERMITS, SWEEPER, Principal, Surface
from ledger.sign_off.rules import active_number, set_of
from ledger.states import Reasons, State
from ledger.tools import permit_tool_of, permits
from ledger.tools.permits import PermitTool
from ledger.transactions import why_not_to_begin
from ledger.transactions.transitions import FRESH, WorkColumns, advance

MOST_PERMITS = 50  # of one transaction
BEARER = "bearer"  # who redeems with nothing but the permit itself


@dataclass(frozen=True, slots=True)
class Issued:
    """A permit, and its text."""

    permit: Permit
    token: str
    audience: str


def issue(transaction_id: UUID, *, by: Principal, via: Surface) -> Issued:
    """A new permit for the agent that proposed it; the one before ends.

    Raises ``NotPossible, NotFound, PermitsOff``.
    """
    tool = _tool_of(_row(transaction_id))
    if not settings.PERMIT_KEYS:
        raise PermitsOff()
    permit = Permit(transaction_id=transaction_id)
    with atomic():
        row = advance(
            transaction_id,
            states.ISSUE_PERMIT,
            by=by,
            via=via,
            only_if=Q(proposed_by=str(by)),
            details={"permit": str(permit.jti), "audience": tool.permit_for},
        )
        _refuse_unless_allowed(row)
        _replace(permit, row, tool)
        return Issued(permit, permits.signed(_claims(permit, row, tool)), tool.permit_for)


def _replace(permit: Permit, row: Transaction, tool: PermitTool) -> None:
    """Keep it as the one permit that counts, until the time to redeem one is over at most."""
    earlier = Permit.objects.filter(transaction=row)
    if earlier.count() >= MOST_PERMITS:
        raise NotPossible(f"It has had {MOST_PERMITS} permits, and none was redeemed.")
    earlier.filter(replaced_at=None).update(replaced_at=Now())
    permit.expires_at = Now() + timedelta(seconds=permits.LONGEST_S)
    permit.save(force_insert=True)
    permit.refresh_from_db()
    assert row.decided_at is not None
    is_over_at = row.decided_at + tool.redeem_within
    if is_over_at <= permit.issued_at:
        raise NotPossible("The time in which a permit of it could be redeemed is over.")
    if is_over_at < permit.expires_at:
        permit.expires_at = is_over_at
        permit.save(update_fields=["expires_at"])


def _claims(permit: Permit, row: Transaction, tool: PermitTool) -> Mapping[str, Any]:
    """Claims of the permit, in the names of RFC 7519, RFC 9396 and transaction tokens."""
    approvals = row.decisions.filter(verdict=Verdict.APPROVE).order_by("at")
    call = {
        "type": "assent_tool_call",
        "tool": row.tool,
        "version": row.tool_version,
        "arguments_digest": f"sha-256:{seals.digest_of(row.arguments)}",
        "limits": tool.manifest.limits,
    }
    return {
        "iss": settings.PUBLIC_URL,
        "aud": tool.permit_for,
        "sub": row.proposed_by,
        "tenant": row.tenant,
        "jti": str(permit.jti),
        "iat": int(permit.issued_at.timestamp()),
        "exp": int(permit.expires_at.timestamp()),
        "txn": str(row.pk),
        "intent_digest": f"sha-256:{row.intent_digest}",
        "operation_key": row.operation_key,
        "authorization_details": [call],
        "approvers": [
            {"sub": vote.principal, "at": int(vote.at.timestamp()), "assurance": vote.via}
            for vote in approvals
        ],
    }


# --- redeeming ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Redeemed:
    """A permit that was redeemed, and its transaction, whose lease says how long to act."""

    permit: Permit
    row: Transaction
    is_replay: bool = False


def redeem(jti: UUID, *, by: str, via: Surface, key: str = "") -> Redeemed:
    """Claim the transaction for whoever acts now. Once; the same again gets the same answer.

    ``by`` is the agent, or ``BEARER``. Repeating it with the same ``key`` gives the same answer
    while the time to act lasts. Raises ``PermitRedeemed, PermitEnded, NotPossible, NotFound``.
    """
    before = find(jti)
    try:
        with atomic():
            return _claim(before, by, via, key)
    except NotPossible as refusal:
        return _same_again_or_refuse(find(jti), by, key, refusal)


def find(jti: UUID) -> Permit:
    """Raises ``NotFound``."""
    permit = Permit.objects.select_related("transaction").filter(pk=jti).first()
    if permit is None:
        raise NotFound("There is no such permit.")
    return permit


def is_redeemable(permit: Permit) -> bool:
    """True if it could be redeemed now."""
    counts = Permit.objects.redeemable().filter(pk=permit.pk, transaction__state=State.APPROVED)
    row = permit.transaction
    is_stopped = brake_over(row.tenant, row.proposed_by, row.tool) is not None
    return counts.exists() and not is_stopped and not _why_not(row)


def _claim(permit: Permit, by: str, via: Surface, key: str) -> Redeemed:
    tool = _tool_of(permit.transaction)
    row = advance(
        permit.transaction_id,
        states.CLAIM,
        by=PERMITS,
        via=via,
        details={"permit": str(permit.pk), "redeemed_by": by},
        work=_lease_for(tool),
    )
    # A statement of its own: it sees what was committed while this one waited for the row.
    is_redeemed = Permit.objects.redeemable().filter(pk=permit.pk)
    if not is_redeemed.update(
        redeemed_at=Now(), redeemed_by=by, redeem_key=key, fencing_token=row.fencing_token
    ):
        raise PermitEnded("It is not the newest permit, or its time is over.")
    _refuse_unless_allowed(row)
    return Redeemed(find(permit.pk), row)


def _lease_for(tool: PermitTool) -> WorkColumns:
    return WorkColumns(
        fencing_token=F("fencing_token") + 1,
        attempts=F("attempts") + 1,
        lease_expires_at=Now() + tool.acts_within,
        next_attempt_at=None,
    )


def _same_again_or_refuse(permit: Permit, by: str, key: str, refusal: NotPossible) -> Redeemed:
    row = permit.transaction
    if permit.redeemed_at is not None:
        if key and (permit.redeem_key, permit.redeemed_by) == (key, by) and _is_acting(permit):
            return Redeemed(permit, row, is_replay=True)
        raise PermitRedeemed(snapshot=row) from refusal
    if row.state != State.APPROVED:
        raise PermitEnded(f"The transaction is {row.get_state_display()}.", snapshot=row)
    raise refusal


def _is_acting(permit: Permit) -> bool:
    """True if the time to act lasts, by the database's clock."""
    return Transaction.objects.filter(acting(permit), pk=permit.transaction_id).exists()


def acting(permit: Permit) -> Q:
    """True of the row while whoever redeemed the permit may act."""
    return Q(
        state=State.COMMITTING,
        fencing_token=permit.fencing_token,
        lease_expires_at__gt=Now(),
    )


def let_go(transaction_id: UUID, redeem_within: timedelta) -> None:
    """Release what was signed off so long ago, and no permit of it was redeemed."""
    reason = Reasons.NO_PERMIT_REDEEMED()
    try_advance(
        transaction_id,
        states.LAPSE_HOLD,
        by=SWEEPER,
        only_if=Q(decided_at__lte=Now() - redeem_within),
        reason=reason,
        work=FRESH,
        ending=Ending.PERMIT_LAPSED,
        ending_reason=reason,
    )


# --- what is checked each time --------------------------------------------------------------


def _refuse_unless_allowed(row: Transaction) -> None:
    """Raises ``NotPossible``; what was written before in the same transaction is rolled back."""
    refuse_to_begin(row)
    if why := _why_not(row):
        raise NotPossible(why, snapshot=row)


def _why_not(row: Transaction) -> str:
    """Check what a worker checks before it begins, and whether the agent may still use the tool."""
    if why := why_not_to_begin(row):
        return why
    same = Transaction.objects.filter(tenant=row.tenant, operation_key=row.operation_key)
    if same.with_late_receipt().exists():
        return "A late receipt of the same operation waits for an operator."
    if set_of(row.terms) != active_number(row.tenant):
        return "Other rules were activated since: it is judged by them first."
    agent = Principal.parse(row.proposed_by)
    is_active = Agent.objects.filter(tenant=row.tenant, slug=agent.slug, is_active=True).exists()
    if not is_active or agent.tenant != row.tenant:
        return "The agent that proposed it is not active."
    if not allow(lists_of(agent, row.tenant), row.tool):
        return "The agent that proposed it may not use the tool any more."
    return ""


def _row(transaction_id: UUID) -> Transaction:
    row = Transaction.objects.filter(pk=transaction_id).first()
    if row is None:
        raise NotFound()
    return row


def _tool_of(row: Transaction) -> PermitTool:
    tool = permit_tool_of(row)
    if tool is None:
        raise NotPossible(
            f"{row.tool} is not carried out by its agent: there is no permit for it.",
            snapshot=row,
        )
    return tool
