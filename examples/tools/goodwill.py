"""A tool that a supervising agent may decide: small refunds as goodwill.

People decide what the supervisor passes on to them; see examples/supervisor.py.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from babel.numbers import format_currency
from pydantic import Field

from examples.tools.provider import execute, provider_may_refuse, read, segment, send
from ledger.contracts import Context, NothingHappened, Plan, transactional

PaymentId = Annotated[str, Field(min_length=1, max_length=120)]
Currency = Annotated[str, Field(pattern=r"^([A-Z]{3})?$")]
Amount = Annotated[Decimal, Field(gt=0, max_digits=14, decimal_places=3)]


@transactional(
    owner_service="payments",
    # Once for a payment, whatever the reason: goodwill is not paid twice.
    operation_key="goodwill:{tenant}:{payment_id}",
    receipt="refund_id",
    risk_level="MEDIUM",
    required_approver="SUPERVISOR",
    consequence_level="COMPENSABLE",
    # Long enough for people, to whom a supervisor may pass it on.
    ttl=timedelta(hours=4),
    timeout=timedelta(seconds=10),
    retry_safe=True,
    undo="The refund can be reversed: the customer is charged the same amount again.",
)
def goodwill_refund(
    payment_id: PaymentId, amount: Amount, context: Context, currency: Currency = ""
) -> dict[str, Any]:
    """Pay back a part of a payment as goodwill. The currency is that of the payment."""
    body = {
        "payment_id": payment_id,
        "amount": f"{amount:f}",
        "currency": currency,
        "reason": "Goodwill",
    }
    path, key = "/payments/refunds", context.operation_key
    return _refunded(execute("POST", path, context, key=key, body=body))


@goodwill_refund.plan
def _plan(payment_id: str, amount: Decimal, currency: str, context: Context) -> Plan:
    with provider_may_refuse():
        payment = read(f"/payments/{segment(payment_id)}", context.timeout)
    if currency not in {"", payment["currency"]}:
        raise NothingHappened(f"{payment_id} was paid in {payment['currency']}.")
    currency = payment["currency"]
    if amount > Decimal(payment["remaining"]):
        raise NothingHappened(f"Only {payment['remaining']} {currency} of it are left.")
    warnings = []
    if Decimal(payment["refunded"]):
        warnings.append(f"{payment['refunded']} {currency} of this payment were refunded before.")
    price = format_currency(amount, currency, locale="en_US")
    return Plan(
        f"Goodwill of {price} to {payment['customer']} for order {payment['order']}",
        warnings=warnings,
        amount=amount,
        currency=currency,
        arguments={"payment_id": payment_id, "amount": amount, "currency": currency},
    )


@goodwill_refund.compensate
def _reverse(receipt: str, context: Context) -> str:
    """Reverse the refund. Repeating it is safe: a refund has at most one reversal."""
    path = f"/payments/refunds/{segment(receipt)}/reversal"
    return str(send("POST", path, context.timeout)["reversal"])


@goodwill_refund.find_receipt
def _find(payment_id: str, context: Context) -> dict[str, Any] | None:
    """Look the refund up by its key. Not found proves nothing: the request may still arrive."""
    for refund in read("/payments/refunds", context.timeout, key=context.operation_key)["refunds"]:
        if refund["payment_id"] == payment_id:
            return _refunded(refund)
    return None


def _refunded(refund: dict[str, Any]) -> dict[str, Any]:
    return {"refund_id": refund["id"], "receipt_url": refund["url"]}
