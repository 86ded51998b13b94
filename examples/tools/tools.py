"""Three tools that need a person's yes, and one that only looks.

Copy this file to begin with your own. A tool has four duties:

- ``plan`` finds out what would happen and says it in a sentence that a manager can decide on;
- the function itself does it, and returns the receipt that proves it;
- a way back: ``rollback`` for what planning holds, ``compensate`` for what took hold;
- ``find_receipt`` asks the world, when nobody knows whether the function got through.

Everything else (waiting, votes, time, retries, the record) is the ledger's.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import httpx
from babel.numbers import format_currency
from pydantic import Field

from examples.tools.provider import Refused, act, ask, look, provider_may_refuse, segment
from ledger.contracts import Context, NothingHappened, Plan, readonly, transactional

Name = Annotated[str, Field(min_length=1, max_length=120)]
Amount = Annotated[Decimal, Field(gt=0, max_digits=14, decimal_places=3)]
Currency = Annotated[str, Field(pattern=r"^([A-Z]{3})?$")]
Why = Annotated[str, Field(min_length=1, max_length=200)]


def money(amount: Decimal | str, currency: str) -> str:
    return format_currency(Decimal(amount), currency, locale="en_US")


# --- refund_customer: it can be made up for, and the provider honours an idempotency key ----------


@transactional(
    owner_service="payments",
    # What makes two requests the same refund: not the amount, or else correcting it pays twice.
    operation_key="refund:{tenant}:{payment_id}:{reason}",
    receipt="refund_id",
    risk_level="HIGH",
    required_approver="HUMAN",
    consequence_level="COMPENSABLE",
    timeout=timedelta(seconds=10),
    # True because the provider has promised it: same Idempotency-Key, one refund.
    retry_safe=True,
    undo="The refund can be reversed: the customer is charged the same amount again.",
)
def refund_customer(
    payment_id: Name, amount: Amount, reason: Why, context: Context, currency: Currency = ""
) -> dict[str, Any]:
    """Pay back all or part of a payment to the customer who made it.

    The currency is that of the payment and may be left out.
    """
    refund = act(
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
    payment_id: str, amount: Decimal, reason: str, currency: str, context: Context
) -> Plan:
    with provider_may_refuse():
        payment = look(f"/payments/{segment(payment_id)}", context.timeout)
    paid_in, remaining = payment["currency"], Decimal(payment["remaining"])
    if currency not in {"", paid_in}:
        raise NothingHappened(f"{payment_id} was paid in {paid_in}, not in {currency}.")
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
        # The approver is shown what planning filled in, and exactly this is carried out.
        arguments={
            "payment_id": payment_id,
            "amount": amount,
            "reason": reason,
            "currency": paid_in,
        },
    )


@refund_customer.compensate
def _reverse_refund(receipt: str, context: Context) -> str:
    """A refund has one reversal, however often this runs."""
    path = f"/payments/refunds/{segment(receipt)}/reversal"
    answer = ask("POST", path, context.timeout)
    return str(answer["reversal"])


@refund_customer.find_receipt
def _find_refund(payment_id: str, amount: Decimal, context: Context) -> dict[str, Any] | None:
    """Not found is no proof: the request may still be on its way. So ``None``, and not a no.

    The tool is retry-safe, so the ledger then runs it again with the same operation key.
    """
    for refund in look("/payments/refunds", context.timeout, key=context.operation_key)["refunds"]:
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


# --- book_flight: it holds a seat while people decide ---------------------------------------------

LONGEST_WAIT = timedelta(minutes=30)
# Outlives the longest wait for a decision, so that what is signed off can be carried out. It
# lapses by itself: whatever becomes of us, no seat stays blocked.
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
    booking = act(
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
    # The key is that of this transaction, not of the operation: when a manager says no and the
    # agent asks again later, that takes a hold of its own.
    with provider_may_refuse():
        hold = ask(
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
        with suppress(httpx.HTTPError):  # it lapses by itself anyway
            _let_go(hold["hold_id"], context)
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
    """Letting go of what was never held, or has lapsed, succeeds."""
    if hold_id := context.held.get("hold_id"):
        _let_go(hold_id, context)


@book_flight.compensate
def _cancel_booking(receipt: str, context: Context) -> str:
    booking = ask("DELETE", f"/airline/bookings/{segment(receipt)}", context.timeout)
    return str(booking["cancellation"])


@book_flight.find_receipt
def _find_booking(flight_id: str, passenger: str, context: Context) -> dict[str, Any] | None:
    query = {"key": context.operation_key}
    for booking in look("/airline/bookings", context.timeout, **query)["bookings"]:
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


def _let_go(hold_id: str, context: Context) -> None:
    ask("DELETE", f"/airline/holds/{segment(hold_id)}", context.timeout)


def _about_price(price: Decimal, expected: Decimal | None, currency: str) -> list[str]:
    if expected is None or price == expected:
        return []
    moved = "risen" if price > expected else "fallen"
    return [
        f"The fare has {moved} from {money(expected, currency)}, which the agent expected, "
        f"to {money(price, currency)}."
    ]


def _day(written: str) -> str:
    day = date.fromisoformat(written)
    return f"{day.day} {day:%B %Y}"


# --- terminate_cloud_instance: no way back, and the provider honours no key -----------------------


@transactional(
    owner_service="platform",
    operation_key="terminate:{tenant}:{instance_id}",
    receipt="termination_id",
    risk_level="CRITICAL",
    required_approver="HUMAN",
    quorum=2,
    consequence_level="IRREVERSIBLE",
    timeout=timedelta(seconds=10),
    # The cloud acts on each call, so it must never be called again on a mere suspicion.
    retry_safe=False,
    undo="It cannot be undone: the disks are deleted with the instance.",
)
def terminate_cloud_instance(instance_id: Name, reason: Why, context: Context) -> dict[str, Any]:
    """Terminate an instance and delete its disks, for ever."""
    path = f"/cloud/instances/{segment(instance_id)}"
    _make_sure_it_runs(path, context)
    # The cloud keeps our reference with the termination. It prevents nothing, but by it we can
    # tell our own termination from somebody else's afterwards.
    reference = str(context.transaction_id)
    body = {"reason": reason, "reference": reference}
    instance = act("POST", f"{path}/termination", context, body=body)
    return _terminated(instance["termination"])


@terminate_cloud_instance.plan
def _plan_termination(instance_id: str, context: Context) -> Plan:
    with provider_may_refuse():
        instance = look(f"/cloud/instances/{segment(instance_id)}", context.timeout)
    if instance["state"] == "terminated":
        raise NothingHappened(f"{instance_id} is terminated already.")
    warnings = ["It cannot be undone: its disks are deleted with it."]
    if instance["stage"] == "prod":
        warnings.append("It is a production instance.")
    if instance["connections"]:
        warnings.append(f"It has {instance['connections']} open connections right now.")
    return Plan(
        f"Terminate {instance['name']} ({instance_id}, {instance['size']}, {instance['region']}) "
        "and delete its disks",
        warnings=warnings,
    )


@terminate_cloud_instance.find_receipt
def _find_termination(instance_id: str, context: Context) -> dict[str, Any] | None:
    """Our termination, if the cloud has it. Otherwise nobody can tell, and a person has to say.

    An instance that still runs proves nothing: the request may yet arrive, from a worker that is
    only paused or from a network that is only slow. And one that somebody else has terminated
    may be terminated by us as well, a moment later.
    """
    instance = look(f"/cloud/instances/{segment(instance_id)}", context.timeout)
    for termination in instance["terminations"]:
        if termination["reference"] == str(context.transaction_id):
            return _terminated(termination)
    return None


def _make_sure_it_runs(path: str, context: Context) -> None:
    """Until here nothing was asked of the cloud, so not getting an answer is no doubt either."""
    try:
        instance = look(path, context.timeout * 0.2)
    except (Refused, httpx.HTTPError) as failure:
        raise NothingHappened(f"The cloud could not be asked about it: {failure}") from failure
    if instance["state"] == "terminated":
        raise NothingHappened("Somebody else has terminated it meanwhile.")


def _terminated(termination: dict[str, Any]) -> dict[str, Any]:
    return {
        "termination_id": termination["receipt"],
        "receipt_url": termination["url"],
        "terminated_at": termination["at"],
    }


# --- tools that only look: no contract, no sign-off, but recorded ---------------------------------

LOOKING_TIME = timedelta(seconds=5)


@readonly(owner_service="travel", timeout=LOOKING_TIME)
def find_flights(origin: Name, destination: Name, on: date) -> dict[str, Any]:
    """Flights from one city to another on one day, with fares and seats left."""
    return look(
        "/airline/flights",
        LOOKING_TIME,
        origin=origin,
        destination=destination,
        date=on.isoformat(),
    )


@readonly(owner_service="payments", timeout=LOOKING_TIME)
def find_payment(payment_id: Name) -> dict[str, Any]:
    """Who paid how much for which order, and how much of it can still be refunded."""
    return look(f"/payments/{segment(payment_id)}", LOOKING_TIME)
