"""Tools as an author would write them, over the world of the tests."""

from __future__ import annotations

import threading
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator

from ledger.contracts import Context, NothingHappened, Plan, Retry, readonly, transactional
from tests.toolbox.world import world


@transactional(
    owner_service="payments",
    operation_key="pay:{tenant}:{reference}",
    receipt="receipt_id",
    risk_level="HIGH",
    required_approver="HUMAN",
    consequence_level="COMPENSABLE",
    retry_safe=True,
    retry=Retry(attempts=3, first=timedelta(0), longest=timedelta(0)),
    timeout=timedelta(seconds=1),
    undo="Reversed in full within 30 days.",
    compensation="Take {money} back for {reference}.",
    subject="reference",
)
def pay(reference: str, amount: Decimal, context: Context, currency: str = "EUR") -> Any:
    """Pay somebody back."""
    return world.perform(context.operation_key)


@pay.plan
def _plan_pay(reference: str, amount: Decimal, currency: str, context: Context) -> Plan:
    world.plans += 1
    if world.planning:
        world.planning()
    if reference == "unknown":
        raise NothingHappened("There is no such payment.")
    return Plan(
        f"Pay {amount} {currency} for {reference}",
        warnings=["Large amount."] if amount > 1000 else [],
        amount=amount,
        currency=currency,
        held={"hold": world.hold(context.operation_key)},
        hold_expires_at=world.hold_expires_at,
    )


@pay.rollback
def _release(context: Context) -> None:
    world.release(context.operation_key)


@pay.compensate
def _undo(context: Context) -> str:
    return world.undo(context.operation_key)


@pay.find_receipt
def _find(operation_key: str) -> dict[str, str] | None:
    receipt = world.receipts.get(operation_key)
    return {"receipt_id": receipt} if receipt else None


def _standing(rocket: str) -> str:
    if rocket == "explodes":
        raise RuntimeError("A tool's own code fails.")
    return rocket


@transactional(
    owner_service="rockets",
    operation_key="launch:{tenant}:{rocket}",
    receipt="receipt_id",
    risk_level="CRITICAL",
    timeout=timedelta(seconds=1),
)
def launch(rocket: Annotated[str, AfterValidator(_standing)], context: Context) -> Any:
    """Irreversible, not retry-safe, and nobody can ask what became of it."""
    return world.perform(context.operation_key, honours_key=False)


@transactional(
    owner_service="rockets",
    operation_key="scuttle:{tenant}:{rocket}",
    receipt="receipt_id",
    risk_level="CRITICAL",
    quorum=2,
)
def scuttle(rocket: str, context: Context) -> Any:
    """Takes two approvers."""
    return world.perform(context.operation_key)


@transactional(
    owner_service="payments",
    operation_key="refund:{tenant}:{order}",
    receipt="receipt_id",
    risk_level="MEDIUM",
    required_approver="HUMAN",
    consequence_level="COMPENSABLE",
    floor="NONE",
    retry_safe=True,
)
def refund(
    order: str, amount: Decimal, context: Context, currency: str = "EUR", country: str = ""
) -> Any:
    """Pay an order back; the rules of a tenant may let it pass."""
    return world.perform(context.operation_key)


@refund.plan
def _plan_refund(
    order: str, amount: Decimal, currency: str, country: str, context: Context
) -> Plan:
    world.plans += 1
    if world.planning:
        world.planning()
    return Plan(f"Refund {amount} {currency} for {order}", amount=amount, currency=currency)


@refund.compensate
def _charge_again(context: Context) -> str:
    return world.undo(context.operation_key)


@transactional(
    owner_service="payments",
    operation_key="pay_two:{tenant}:{reference}",
    receipt="receipt_id",
    risk_level="HIGH",
    quorum=2,
)
def pay_two(reference: str, amount: Decimal, context: Context) -> Any:
    """Takes two approvers, who may correct the amount."""
    return world.perform(context.operation_key)


@transactional(
    owner_service="hotels",
    operation_key="reserve:{tenant}:{guest}",
    receipt="receipt_id",
    risk_level="MEDIUM",
    required_approver="HUMAN",
    consequence_level="REVERSIBLE",
    retry_safe=True,
    editable=["nights"],
    plan_max_age=timedelta(minutes=5),
    touches=["room:{room}"],
)
def reserve(guest: str, room: str, context: Context, nights: int = 1) -> Any:
    """Holds a room, and can be planned again beside that."""
    assert context.held["reservation"] in world.reserved, "carried out what is not held"
    return world.perform(context.operation_key)


@reserve.plan
def _plan_reserve(guest: str, room: str, nights: int, context: Context) -> Plan:
    world.plans += 1
    if world.planning:
        world.planning()
    if world.is_closed:
        raise NothingHappened("The hotel is closed.")
    return Plan(
        f"Room {room} for {guest}, {nights} nights",
        amount=Decimal(world.price * nights),
        currency="EUR",
        held={"reservation": world.reserve(f"{room} {nights}")},
    )


@reserve.replan
def _plan_reserve_again(guest: str, room: str, nights: int, context: Context) -> Plan:
    assert context.held["reservation"] in world.reserved, "planned again what is not held any more"
    return _plan_reserve(guest, room, nights, context)


@reserve.rollback
def _give_back(context: Context) -> None:
    world.reserved.pop(context.held.get("reservation", ""), None)


@transactional(
    owner_service="hotels",
    operation_key="greet:{tenant}:{guest}",
    receipt="receipt_id",
    risk_level="MEDIUM",
    required_approver="HUMAN",
    consequence_level="COMPENSABLE",
    retry_safe=True,
)
def greet(guest: str, context: Context, words: str = "Welcome") -> Any:
    """Asks, before it is carried out, whether it is still valid."""
    return world.perform(context.operation_key)


@greet.compensate
def _apologise(context: Context) -> str:
    return world.undo(context.operation_key)


@greet.still_valid
def _is_still_there(guest: str) -> bool:
    return world.is_valid()


@transactional(
    owner_service="desk",
    operation_key="note:{tenant}:{text}",
    receipt="receipt_id",
    risk_level="LOW",
    required_approver="NONE",
    consequence_level="COMPENSABLE",
)
def write_note(text: str, context: Context) -> Any:
    """Harmless: passes without an approver."""
    return world.perform(context.operation_key)


@write_note.compensate
def _erase(context: Context) -> str:
    return world.undo(context.operation_key)


@transactional(
    owner_service="desk",
    operation_key="order:{tenant}:{item}",
    receipt="receipt_id",
    risk_level="MEDIUM",
    required_approver="SUPERVISOR",
)
def order(item: str, context: Context) -> Any:
    """A supervising agent may decide on it."""
    return world.perform(context.operation_key)


@transactional(
    owner_service="desk",
    operation_key="furnish:{tenant}:{room}",
    receipt="receipt_id",
    risk_level="HIGH",
    required_approver="SUPERVISOR",
    quorum=2,
)
def furnish(room: str, context: Context) -> Any:
    """Two voters, who may be supervising agents."""
    return world.perform(context.operation_key)


@readonly(owner_service="desk", timeout=timedelta(milliseconds=50))
def dawdle() -> None:
    """Does not answer in its time."""
    threading.Event().wait(1)


@readonly(owner_service="desk")
def look_up(word: str) -> dict[str, str]:
    """Only looks."""
    if word == "broken":
        raise RuntimeError("the book is gone")
    return {"meaning": word.upper()}
