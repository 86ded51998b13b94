"""Three tools that need a person's approval, and two that only read.

Copy this file to write your own. A tool has four parts:

- ``plan`` finds out what would happen and describes it in a sentence that a manager can decide on;
- the function itself does it, and returns the receipt that proves it;
- a way back: ``rollback`` releases what planning holds, ``compensate`` undoes the effect;
- ``find_receipt`` looks up the outcome at the provider, when it is not known.

The ledger does everything else: waiting, decisions, time limits, retries, the audit log.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import httpx
from babel.numbers import format_currency
from pydantic import Field

from examples.tools import goodwill  # noqa: F401  (declares a tool that a supervisor decides)
from examples.tools.provider import Refused, execute, provider_may_refuse, read, segment, send
from ledger.contracts import Context, NothingHappened, Plan, readonly, transactional
from ledger.contracts.evidence import Difference

Name = Annotated[str, Field(min_length=1, max_length=120)]
Amount = Annotated[Decimal, Field(gt=0, max_digits=14, decimal_places=3)]
Currency = Annotated[str, Field(pattern=r"^([A-Z]{3})?$")]
Customer = Annotated[str, Field(max_length=120)]
Reason = Annotated[str, Field(min_length=1, max_length=200)]
# Of high risk from here on; in any other currency every refund is.
LARGE_REFUND = {"EUR": 100, "USD": 100, "GBP": 90, "CHF": 100, "JPY": 15_000}


def money(amount: Decimal | str, currency: str) -> str:
    """An amount as people write it: ``€48.20``."""
    return format_currency(Decimal(amount), currency, locale="en_US")


# --- refund_customer: can be compensated; the provider has idempotency keys -----------------------


@transactional(
    owner_service="payments",
    # What makes two requests the same refund. Without the amount: correcting it must not pay twice.
    operation_key="refund:{tenant}:{payment_id}:{reason}",
    receipt="refund_id",
    # Of a small one. The plan says when it is more.
    risk_level="MEDIUM",
    required_approver="HUMAN",
    consequence_level="COMPENSABLE",
    # A tenant's rules may let small ones pass.
    floor="NONE",
    timeout=timedelta(seconds=10),
    # The provider promises it: requests with the same Idempotency-Key make one refund.
    retry_safe=True,
    undo="The refund can be reversed: the customer is charged the same amount again.",
    compensation="Charge {customer} {money} again.",
    # Approvers are told how often this customer got a refund lately.
    subject="customer",
)
def refund_customer(
    payment_id: Annotated[Name, Field(examples=["pay_2042"])],
    amount: Annotated[Amount, Field(examples=["5.00"])],
    reason: Annotated[Reason, Field(examples=["damaged"])],
    context: Context,
    currency: Currency = "",
    customer: Customer = "",
) -> dict[str, Any]:
    """Pay back all or part of a payment to the customer who made it.

    Currency and customer are those of the payment and may be omitted.
    """
    refund = execute(
        "POST",
        "/payments/refunds",
        context,
        key=context.operation_key,
        body={
            "payment_id": payment_id,
            "amount": f"{amount:f}",
            "currency": currency,
            "reason": reason,
        },
    )
    return _refunded(refund)


@refund_customer.plan
def _plan_refund(
    payment_id: str, amount: Decimal, reason: str, currency: str, customer: str, context: Context
) -> Plan:
    with provider_may_refuse():
        payment = read(f"/payments/{segment(payment_id)}", context.timeout)
    paid_in, remaining = payment["currency"], Decimal(payment["remaining"])
    if currency not in {"", paid_in}:
        raise NothingHappened(f"{payment_id} was paid in {paid_in}, not in {currency}.")
    if customer not in {"", payment["customer"]}:
        raise NothingHappened(f"{payment_id} was not paid by {customer}.")
    if amount > remaining:
        raise NothingHappened(
            f"Only {money(remaining, paid_in)} of {payment_id} can still be refunded."
        )
    warnings = []
    if refunded := Decimal(payment["refunded"]):
        warnings.append(
            f"{money(refunded, paid_in)} of this payment of "
            f"{money(payment['amount'], paid_in)} was refunded before."
        )
    return Plan(
        f"Refund {money(amount, paid_in)} to {payment['customer']} for order {payment['order']}",
        warnings=warnings,
        amount=amount,
        currency=paid_in,
        risk_level="HIGH" if amount >= LARGE_REFUND.get(paid_in, 0) else "MEDIUM",
        # With all filled in: the approver sees these arguments, and they are carried out.
        arguments={
            "payment_id": payment_id,
            "amount": amount,
            "reason": reason,
            "currency": paid_in,
            "customer": payment["customer"],
        },
    )


@refund_customer.compensate
def _reverse_refund(receipt: str, context: Context) -> str:
    """Reverse the refund. Repeating it is safe: a refund has at most one reversal."""
    path = f"/payments/refunds/{segment(receipt)}/reversal"
    reversed_refund = send("POST", path, context.timeout)
    return str(reversed_refund["reversal"])


@refund_customer.find_receipt
def _find_refund(payment_id: str, amount: Decimal, context: Context) -> dict[str, Any] | None:
    """Look the refund up by its key.

    Not found proves nothing, because the request may still arrive: hence ``None``, not
    ``NothingHappened``. The tool is retry-safe, so the ledger then runs it again with the same key.
    """
    for refund in read("/payments/refunds", context.timeout, key=context.operation_key)["refunds"]:
        if refund["payment_id"] == payment_id and Decimal(refund["amount"]) == amount:
            return _refunded(refund)
    return None


def _refunded(refund: dict[str, Any]) -> dict[str, Any]:
    return {
        "refund_id": refund["id"],
        "receipt_url": refund["url"],
        "amount": refund["amount"],
        "currency": refund["currency"],
    }


# --- book_flight: holds a seat while people decide ------------------------------------------------

LONGEST_WAIT = timedelta(minutes=30)
# Longer than the longest wait for a decision, so that an approved booking can be carried out. The
# hold expires by itself: no seat stays blocked, even if every process of Assent dies.
HOLD = LONGEST_WAIT + timedelta(minutes=5)


@transactional(
    owner_service="travel",
    operation_key="flight:{tenant}:{flight_id}:{passenger}",
    receipt="booking_ref",
    risk_level="MEDIUM",
    required_approver="HUMAN",
    consequence_level="REVERSIBLE",
    ttl=timedelta(minutes=15),
    max_ttl=LONGEST_WAIT,
    timeout=timedelta(seconds=10),
    retry_safe=True,
    undo="The booking can be canceled; the airline returns the whole fare.",
    subject="passenger",
)
def book_flight(
    flight_id: Name,
    passenger: Name,
    max_price: Amount,
    context: Context,
    expected_price: Amount | None = None,
) -> dict[str, Any]:
    """Book one seat. Prices are in the currency of the flight."""
    hold_id = context.held["hold_id"]
    booking = execute(
        "POST",
        "/airline/bookings",
        context,
        key=context.operation_key,
        body={"hold_id": hold_id},
    )
    return _booked(booking)


@book_flight.plan
def _plan_flight(
    flight_id: str,
    passenger: str,
    max_price: Decimal,
    expected_price: Decimal | None,
    context: Context,
) -> Plan:
    # The key contains the transaction, not the operation: if a manager rejects and the agent
    # proposes again, the second proposal needs its own hold.
    with provider_may_refuse():
        hold = send(
            "POST",
            "/airline/holds",
            context.timeout,
            key=f"hold:{context.transaction_id}",
            body={
                "flight_id": flight_id,
                "passenger": passenger,
                "seconds": int(HOLD.total_seconds()),
            },
        )
    flight, currency = hold["flight"], hold["price"]["currency"]
    price = Decimal(hold["price"]["amount"])
    if price > max_price:
        with suppress(httpx.HTTPError):  # the hold expires by itself anyway
            _release(hold["hold_id"], context)
        raise NothingHappened(
            f"The fare is {money(price, currency)}, more than the {money(max_price, currency)} "
            "that was allowed."
        )
    return Plan(
        f"Book {flight['number']} {flight['origin']} → {flight['destination']} on "
        f"{_day(flight['date'])} for {passenger} at {money(price, currency)}",
        warnings=_about_price(price, expected_price, currency),
        amount=price,
        currency=currency,
        held={"hold_id": hold["hold_id"]},
        hold_expires_at=datetime.fromisoformat(hold["expires_at"]),
    )


@book_flight.rollback
def _release_seat(context: Context) -> None:
    """Release the hold. Succeeds also if there is none or it has expired."""
    if hold_id := context.held.get("hold_id"):
        _release(hold_id, context)


@book_flight.compensate
def _cancel_booking(receipt: str, context: Context) -> str:
    booking = send("DELETE", f"/airline/bookings/{segment(receipt)}", context.timeout)
    return str(booking["cancellation"])


@book_flight.find_receipt
def _find_booking(flight_id: str, passenger: str, context: Context) -> dict[str, Any] | None:
    query = {"key": context.operation_key}
    for booking in read("/airline/bookings", context.timeout, **query)["bookings"]:
        if (booking["flight_id"], booking["passenger"]) == (flight_id, passenger):
            return _booked(booking)
    return None


def _booked(booking: dict[str, Any]) -> dict[str, Any]:
    return {
        "booking_ref": booking["ref"],
        "receipt_url": booking["url"],
        "amount": booking["price"]["amount"],
        "currency": booking["price"]["currency"],
    }


def _release(hold_id: str, context: Context) -> None:
    send("DELETE", f"/airline/holds/{segment(hold_id)}", context.timeout)


def _about_price(price: Decimal, expected: Decimal | None, currency: str) -> list[str]:
    if expected is None or price == expected:
        return []
    moved = "risen" if price > expected else "fallen"
    return [
        f"The fare has {moved} from {money(expected, currency)}, which the agent expected, "
        f"to {money(price, currency)}."
    ]


def _day(text: str) -> str:
    day = date.fromisoformat(text)
    return f"{day.day} {day:%B %Y}"


# --- terminate_cloud_instance: cannot be undone; the provider has no idempotency keys -------------


@transactional(
    owner_service="platform",
    operation_key="terminate:{tenant}:{instance_id}",
    receipt="termination_id",
    risk_level="CRITICAL",
    required_approver="HUMAN",
    quorum=2,
    consequence_level="IRREVERSIBLE",
    timeout=timedelta(seconds=10),
    # Every call takes effect, so it must never be repeated while the outcome is unknown.
    retry_safe=False,
    undo="Nothing brings its disks back; a new instance starts empty.",
    subject="instance_id",
)
def terminate_cloud_instance(instance_id: Name, reason: Reason, context: Context) -> dict[str, Any]:
    """Terminate an instance and delete its disks permanently."""
    path = f"/cloud/instances/{segment(instance_id)}"
    _require_running(path, context)
    # The cloud stores our reference with the termination. It prevents nothing, but tells our own
    # termination from somebody else's afterwards.
    reference = str(context.transaction_id)
    body = {"reason": reason, "reference": reference}
    instance = execute("POST", f"{path}/termination", context, body=body)
    return _terminated(instance["termination"])


@terminate_cloud_instance.plan
def _plan_termination(instance_id: str, context: Context) -> Plan:
    with provider_may_refuse():
        instance = read(f"/cloud/instances/{segment(instance_id)}", context.timeout)
    if instance["state"] == "terminated":
        raise NothingHappened(f"{instance_id} is already terminated.")
    warnings = ["It cannot be undone: its disks are deleted with it."]
    if instance["stage"] == "prod":
        warnings.append("It is a production instance.")
    if instance["connections"]:
        warnings.append(f"It has {instance['connections']} open connections right now.")
    return Plan(
        f"Terminate {instance['name']} ({instance_id}, {instance['size']}, {instance['region']}) "
        "and delete its disks",
        warnings=warnings,
        # What people look at beside the summary; the digest that they sign covers it.
        evidence=[
            Difference(
                f"Inventory of {instance['region']}",
                _inventory(instance, state="running", disks="attached"),
                _inventory(instance | {"connections": 0}, state="terminated", disks="deleted"),
            )
        ],
    )


def _inventory(instance: dict[str, Any], *, state: str, disks: str) -> str:
    """The entry of an instance, line by line."""
    return "\n".join(
        (
            f"{instance['name']}:",
            f"  id: {instance['id']}",
            f"  size: {instance['size']}",
            f"  stage: {instance['stage']}",
            f"  state: {state}",
            f"  disks: {disks}",
            f"  open connections: {instance['connections']}",
        )
    )


@terminate_cloud_instance.find_receipt
def _find_termination(instance_id: str, context: Context) -> dict[str, Any] | None:
    """Our termination, if the cloud has it; otherwise the outcome stays unknown.

    A running instance proves nothing: the request may still arrive, from a paused worker or
    through a slow network. And an instance that somebody else terminated may be terminated by us
    as well, a moment later. So a person has to look.
    """
    instance = read(f"/cloud/instances/{segment(instance_id)}", context.timeout)
    for termination in instance["terminations"]:
        if termination["reference"] == str(context.transaction_id):
            return _terminated(termination)
    return None


def _require_running(path: str, context: Context) -> None:
    """Nothing was requested so far, so a failure here proves that nothing happened."""
    try:
        instance = read(path, context.timeout * 0.2)
    except (Refused, httpx.HTTPError) as failure:
        raise NothingHappened(f"The cloud could not be asked about it: {failure}") from failure
    if instance["state"] == "terminated":
        raise NothingHappened("Somebody else has terminated it in the meantime.")


def _terminated(termination: dict[str, Any]) -> dict[str, Any]:
    return {
        "termination_id": termination["receipt"],
        "receipt_url": termination["url"],
        "terminated_at": termination["at"],
    }


# --- tools that only read: no contract, no sign-off; their use is recorded ------------------------

READ_TIMEOUT = timedelta(seconds=5)


@readonly(owner_service="travel", timeout=READ_TIMEOUT)
def find_flights(origin: Name, destination: Name, on: date) -> dict[str, Any]:
    """Flights from one city to another on one day, with fares and seats left."""
    return read(
        "/airline/flights",
        READ_TIMEOUT,
        origin=origin,
        destination=destination,
        date=on.isoformat(),
    )


@readonly(owner_service="payments", timeout=READ_TIMEOUT)
def find_payment(payment_id: Name) -> dict[str, Any]:
    """Who paid how much for which order, and how much of it can still be refunded."""
    return read(f"/payments/{segment(payment_id)}", READ_TIMEOUT)
