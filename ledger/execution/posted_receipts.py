"""Messages an agent posts after it redeemed its permit: the receipt, or that nothing happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from ledger import seals, states
from ledger.contracts.results import receipt_in, storable, web_address
from ledger.errors import InvalidRequest, NotPossible
from ledger.execution.redemption import acting
from ledger.models import Ending, Permit, Transaction
from ledger.principals import PERMITS, Principal, Surface
from ledger.states import Reasons
from ledger.tools.manifests import RECEIPT
from ledger.transactions.coordinator import check_reason
from ledger.transactions.transitions import FRESH, RELEASED, advance


def take_receipt(
    transaction_id: UUID, receipt: Mapping[str, Any], *, by: Principal, via: Surface
) -> Transaction:
    """COMMITTED with this receipt; after the time to act, it is kept for an operator to judge.

    The same receipt again changes nothing; with other content it is refused. Raises
    ``NotPossible, InvalidRequest``.
    """
    permit = _redeemed(transaction_id)
    seals.refuse_unsafe_text(dict(receipt), "receipt")
    result = storable(dict(receipt))
    name = receipt_in(result, RECEIPT)
    if not name:
        raise InvalidRequest("Without an id nothing counts as a receipt. Nothing was changed.")
    try:
        return advance(
            transaction_id,
            states.COMMIT,
            by=PERMITS,
            via=via,
            only_if=acting(permit),
            details={"receipt": name, "posted_by": str(by)},
            work=RELEASED,
            receipt=name,
            receipt_url=web_address(result.get("receipt_url")),
            result=result,
            error="",
            error_detail="",
            settlement=None,
            ended_at=Now(),
        )
    except NotPossible as refusal:
        row: Transaction = refusal.snapshot
        if name == row.receipt and row.result not in (None, result):
            raise NotPossible(
                "This receipt was posted before, with other content.",
                snapshot=row,
                hint="Nothing was changed. The first answer counts; tell an operator.",
            ) from refusal
        return _keep_late(row, permit, name, by, via)


def _keep_late(
    row: Transaction, permit: Permit, name: str, by: Principal, via: Surface
) -> Transaction:
    if name in {row.receipt, row.late_receipt}:
        return row
    return advance(
        row.pk,
        states.LATE_RECEIPT,
        by=PERMITS,
        via=via,
        reason=Reasons.LATE_FROM_AGENT(),
        only_if=Q(late_receipt="") & ~Q(receipt=name),
        details={"receipt": name, "fencing_token": permit.fencing_token, "posted_by": str(by)},
        late_receipt=name,
    )


def take_refusal(transaction_id: UUID, why: str, *, by: Principal, via: Surface) -> Transaction:
    """Its agent says that nothing happened: FAILED. After the time to act only people know that.

    Raises ``NotPossible, InvalidRequest``.
    """
    permit = _redeemed(transaction_id)
    check_reason(why)
    why = why.strip() or Reasons.NOTHING_HAPPENED()
    try:
        return advance(
            transaction_id,
            states.FAIL,
            by=PERMITS,
            via=via,
            reason=why,
            only_if=acting(permit),
            details={"posted_by": str(by)},
            work=FRESH,
            error="",
            error_detail="",
            settlement=None,
            ending=Ending.FAILED,
            ending_reason=why,
        )
    except NotPossible as refusal:
        row: Transaction = refusal.snapshot
        if (row.ending, row.ending_reason) == (Ending.FAILED, why):
            return row
        raise NotPossible(
            f"The time to act is over; the transaction is {row.get_state_display()}.",
            snapshot=row,
            hint="Nothing was changed. Tell an operator that nothing happened.",
        ) from refusal


def _redeemed(transaction_id: UUID) -> Permit:
    """Raises ``NotPossible``."""
    permit = Permit.objects.filter(transaction_id=transaction_id).exclude(redeemed_at=None).first()
    if permit is None:
        raise NotPossible(
            "No permit of it was redeemed, so nobody may have acted.",
            hint="Nothing was changed. Fetch the permit and redeem it before you act.",
        )
    return permit
