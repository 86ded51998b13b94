"""The example tools against the sandbox, without the ledger: what they do, and what they claim."""

from __future__ import annotations

import socket
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import httpx
import pytest

from examples.tools import tools as example
from examples.tools.provider import Refused
from ledger.contracts import Context, NothingHappened, Plan, Tool
from ledger.errors import InvalidArguments, PlanRefused
from ledger.tools.checks import unsafe

DAY = datetime.now(UTC).date() + timedelta(days=30)
FLIGHT = f"QX412-{DAY}"
REFUND = {"payment_id": "pay_1042", "amount": "48.20", "reason": "damaged"}
TERMINATION = {"instance_id": "i-4207", "reason": "idle"}
TRIP = {"flight_id": FLIGHT, "passenger": "Ana Ruiz", "max_price": "900"}

refund_tool, flight_tool, cloud_tool = (
    example.refund_customer,
    example.book_flight,
    example.terminate_cloud_instance,
)


class Use:
    """One use of one tool, as the ledger would make it."""

    def __init__(self, tool: Tool[Any, Any], timeout_s: float = 3, **arguments: Any) -> None:
        self.tool = tool
        self.arguments = tool.validate(arguments)
        key = tool.operation_key_for("acme", tool.meaning_of(self.arguments))
        self.said: dict[str, Any] = {
            "transaction_id": uuid4(),
            "tenant": "acme",
            "operation_key": key,
            "timeout": timedelta(seconds=timeout_s),
        }

    def plan(self) -> Plan:
        plan = self.tool.make_plan(self.arguments, Context(**self.said))
        if plan.arguments is not None:
            self.arguments = self.tool.validate(dict(plan.arguments))
        self.said["held"] = plan.held or {}
        return plan

    def run(self, role: str, **said: Any) -> Any:
        return self.tool.run(role, self.arguments, Context(**{**self.said, **said}))

    def execute(self, **said: Any) -> Any:
        return self.run("execute", **said)


@pytest.fixture
def a_refund(sandbox: Any) -> Use:
    return planned(refund_tool, **REFUND)


def planned(tool: Tool[Any, Any], **arguments: Any) -> Use:
    use = Use(tool, **arguments)
    use.plan()
    return use


def fault(http: httpx.Client, path: str, mode: str, **more: Any) -> None:
    http.post("/faults", json={"path": path, "mode": mode, **more}).raise_for_status()


def kinds(http: httpx.Client) -> dict[str, int]:
    return dict(http.get("/effects").json()["by_kind"])


def live_holds(http: httpx.Client) -> int:
    return int(http.get("/effects").json()["live_holds"])


@pytest.fixture
def nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("ASSENT_SANDBOX_URL", f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("tool", [refund_tool, flight_tool, cloud_tool], ids=lambda tool: tool.name)
def test_the_contracts_are_safe(tool):
    assert list(unsafe(tool)) == []


# --- refund_customer --------------------------------------------------------------------------


def test_a_refund_is_planned_in_a_sentence(sandbox):
    use = Use(refund_tool, **REFUND)

    plan = use.plan()

    assert plan == Plan(
        "Refund €48.20 to Ana Ruiz for order 1042",
        warnings=[],
        amount=Decimal("48.20"),
        currency="EUR",
        arguments={
            **REFUND,
            "amount": Decimal("48.20"),
            "currency": "EUR",
            "customer": "Ana Ruiz",
        },
        risk_level="MEDIUM",
    )
    assert use.said["operation_key"] == "refund:acme:pay_1042:damaged"


@pytest.mark.parametrize(
    ("amount", "currency", "risk"),
    [
        ("99.99", "EUR", "MEDIUM"),
        ("100", "EUR", "HIGH"),
        ("3615", "JPY", "MEDIUM"),
        ("20000", "JPY", "HIGH"),
    ],
)
def test_a_large_refund_is_of_high_risk_in_the_money_that_it_is_paid_in(
    http, amount, currency, risk
):
    payment = {"customer": "Ana Ruiz", "amount": "90000", "currency": currency}
    http.put("/payments/pay_mine", json=payment).raise_for_status()
    use = Use(refund_tool, **{**REFUND, "payment_id": "pay_mine", "amount": Decimal(amount)})

    assert use.plan().risk_level == risk


def test_a_refund_brings_its_receipt_and_can_be_reversed(http, a_refund):
    result = a_refund.execute()

    assert result["amount"] == "48.20"
    assert result["refund_id"] in httpx.get(result["receipt_url"], timeout=5).text
    reversal = a_refund.run("compensate", receipt=result["refund_id"])
    assert reversal.startswith("rev_")
    assert a_refund.run("compensate", receipt=result["refund_id"]) == reversal
    assert kinds(http) == {"refund": 1, "reversal": 1}


def test_running_a_refund_twice_has_one_effect(http, a_refund):
    assert a_refund.execute() == a_refund.execute(attempt=2)
    assert kinds(http) == {"refund": 1}


@pytest.mark.parametrize("mode", ["drop_after_work", "error_500_after"])
def test_a_lost_answer_is_unknown_and_its_receipt_is_found(http, a_refund, mode):
    fault(http, "/payments/refunds", mode)

    with pytest.raises(httpx.HTTPError):
        a_refund.execute()

    assert a_refund.run("find_receipt")["refund_id"].startswith("re_")
    assert a_refund.run("find_receipt") == a_refund.execute(attempt=2)
    assert kinds(http) == {"refund": 1}


def test_a_late_answer_is_unknown_before_the_ledger_loses_patience(http):
    use = planned(refund_tool, timeout_s=0.5, **REFUND)
    fault(http, "/payments/refunds", "delay", seconds=1)

    before = datetime.now(UTC)
    with pytest.raises(httpx.ReadTimeout):
        use.execute()

    assert datetime.now(UTC) - before < timedelta(seconds=0.5)


def test_a_refund_that_is_not_found_is_not_disproved(http, a_refund):
    fault(http, "/payments/refunds", "drop_before_work")
    with pytest.raises(httpx.RemoteProtocolError):
        a_refund.execute()

    assert a_refund.run("find_receipt") is None


def test_a_refund_of_another_amount_is_not_ours(http, a_refund):
    a_refund.execute()

    other = planned(refund_tool, **{**REFUND, "amount": "10"})

    assert other.run("find_receipt") is None
    with pytest.raises(NothingHappened, match="used for another request"):
        other.execute()


def test_a_refused_refund_surely_did_not_happen(a_refund):
    planned(refund_tool, **{**REFUND, "amount": "470", "reason": "other"}).execute()

    with pytest.raises(NothingHappened, match=r"Only 10\.00 EUR"):
        a_refund.execute()


def test_a_refusal_says_nothing_about_an_earlier_attempt(a_refund):
    planned(refund_tool, **{**REFUND, "amount": "470", "reason": "other"}).execute()

    with pytest.raises(Refused, match=r"Only 10\.00 EUR"):
        a_refund.execute(attempt=2)


def test_an_unreachable_provider_surely_did_nothing_the_first_time(a_refund, nobody_there):
    with pytest.raises(NothingHappened, match="nothing was sent"):
        a_refund.execute()
    with pytest.raises(httpx.ConnectError):
        a_refund.execute(attempt=2)


def test_a_way_back_that_is_not_reached_is_tried_again(a_refund, nobody_there):
    for role in ("compensate", "find_receipt"):
        with pytest.raises(httpx.ConnectError):
            a_refund.run(role, receipt="re_1")


def test_a_no_to_find_receipt_proves_nothing(a_refund):
    """The ledger would take ``NothingHappened`` as proof and free the operation key."""
    a_refund.said["operation_key"] = ""
    a_refund.arguments = a_refund.arguments.model_copy(update={"payment_id": "x"})
    flight = Use(cloud_tool, **{**TERMINATION, "instance_id": "gone"})

    assert a_refund.run("find_receipt") is None
    with pytest.raises(Refused):
        flight.run("find_receipt")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"payment_id": "pay_x"}, "no payment pay_x"),
        ({"amount": "480.01"}, r"Only €480\.00"),
        ({"currency": "USD"}, "paid in EUR"),
        ({"payment_id": "../cloud/instances/i-4207"}, "no payment"),
    ],
)
def test_a_refund_that_cannot_be_is_refused_in_words(http, changes, words):
    with pytest.raises(PlanRefused, match=words):
        planned(refund_tool, **{**REFUND, **changes})


def test_an_earlier_refund_is_warned_of(a_refund):
    a_refund.execute()

    plan = Use(refund_tool, **{**REFUND, "reason": "late"}).plan()

    assert plan.warnings == ["€48.20 of this payment of €480.00 was refunded before."]


@pytest.mark.parametrize("amount", ["0", "-5", "NaN", "1.2345", "much"])
def test_amounts_that_are_none_are_refused(amount):
    with pytest.raises(InvalidArguments):
        refund_tool.validate({**REFUND, "amount": amount})


# --- book_flight ------------------------------------------------------------------------------


def test_a_flight_is_held_and_then_booked_at_the_held_price(http):
    http.put(f"/airline/flights/{FLIGHT}/price", json={"amount": "212"}).raise_for_status()
    use = Use(flight_tool, **TRIP, expected_price="189")

    plan = use.plan()

    day = f"{DAY.day} {DAY:%B %Y}"
    assert plan.summary == f"Book QX412 Paris → Lisbon on {day} for Ana Ruiz at €212.00"
    assert (plan.amount, plan.currency) == (Decimal("212.00"), "EUR")
    assert plan.warnings == [
        "The fare has risen from €189.00, which the agent expected, to €212.00."
    ]
    assert plan.hold_expires_at is not None
    assert plan.hold_expires_at - datetime.now(UTC) > flight_tool.contract.max_ttl
    assert live_holds(http) == 1

    http.put(f"/airline/flights/{FLIGHT}/price", json={"amount": "500"}).raise_for_status()
    result = use.execute()
    assert (result["amount"], result["currency"]) == ("212.00", "EUR")
    assert use.run("find_receipt") == result
    assert use.run("compensate", receipt=result["booking_ref"]).startswith("cx_")
    assert kinds(http) == {"booking": 1, "cancellation": 1}


def test_a_fare_as_expected_is_not_worth_a_warning(http):
    fare = http.get(f"/airline/flights/{FLIGHT}").json()["price"]["amount"]
    assert Use(flight_tool, **TRIP, expected_price=fare).plan().warnings == []
    assert Use(flight_tool, **TRIP).plan().warnings == []


def test_a_flight_that_is_too_dear_is_refused_and_not_held(http):
    with pytest.raises(PlanRefused, match="more than the"):
        planned(flight_tool, **{**TRIP, "max_price": "20"})
    assert live_holds(http) == 0


def test_a_seat_is_let_go_of_again_and_again(http):
    use = planned(flight_tool, **TRIP)

    use.run("rollback")
    use.run("rollback")
    use.run("rollback", held={})

    assert live_holds(http) == 0
    assert kinds(http) == {}


def test_asking_again_after_a_no_takes_a_new_hold(http):
    first = planned(flight_tool, **TRIP)
    first.run("rollback")

    second = planned(flight_tool, **TRIP)

    assert second.said["held"] != first.said["held"]
    assert second.execute()["booking_ref"].startswith("bk_")


def test_a_lapsed_hold_is_a_known_failure_at_any_attempt(http):
    use = planned(flight_tool, **TRIP)
    use.run("rollback")

    for attempt in (1, 2):
        with pytest.raises(NothingHappened, match="no longer exists"):
            use.execute(attempt=attempt)
    assert kinds(http) == {}


def test_a_booking_in_doubt_is_found_and_not_made_twice(http):
    use = planned(flight_tool, **TRIP)
    fault(http, "/airline/bookings", "drop_after_work")
    with pytest.raises(httpx.RemoteProtocolError):
        use.execute()

    assert use.run("find_receipt") == use.execute(attempt=2)
    assert kinds(http) == {"booking": 1}


def test_an_airline_that_is_away_is_no_refusal_of_the_plan(http, nobody_there):
    """A refusal is kept for ever; this may be tried again with the same key."""
    with pytest.raises(httpx.ConnectError):
        planned(flight_tool, **TRIP)


# --- terminate_cloud_instance -----------------------------------------------------------------


def test_a_termination_is_planned_with_what_it_costs(sandbox):
    plan = Use(cloud_tool, **TERMINATION).plan()

    assert plan.summary == (
        "Terminate batch-reports-09 (i-4207, 4 vCPU, 16 GB, Paris) and delete its disks"
    )
    assert plan.warnings == [
        "It cannot be undone: its disks are deleted with it.",
        "It has 2 open connections right now.",
    ]
    assert (cloud_tool.contract.quorum, cloud_tool.contract.retry_safe) == (2, False)


def test_a_termination_in_doubt_is_found_by_our_reference_only(http):
    use, stranger = planned(cloud_tool, **TERMINATION), planned(cloud_tool, **TERMINATION)
    fault(http, "/cloud/instances/*/termination", "drop_after_work")
    with pytest.raises(httpx.RemoteProtocolError):
        use.execute()

    assert use.run("find_receipt")["termination_id"].startswith("term_")
    assert stranger.run("find_receipt") is None
    assert kinds(http) == {"termination": 1}


def test_an_instance_that_still_runs_proves_nothing(http):
    use = planned(cloud_tool, **TERMINATION)
    fault(http, "/cloud/instances/*/termination", "drop_before_work")
    with pytest.raises(httpx.RemoteProtocolError):
        use.execute()

    assert use.run("find_receipt") is None


def test_what_somebody_else_has_terminated_is_not_terminated_again(http):
    use = planned(cloud_tool, **TERMINATION)
    http.post("/cloud/instances/i-4207/termination", json={"reason": "by hand"})

    with pytest.raises(NothingHappened, match="Somebody else"):
        use.execute()
    with pytest.raises(PlanRefused, match="already terminated"):
        planned(cloud_tool, **TERMINATION)
    assert kinds(http) == {"termination": 1}


def test_a_cloud_that_cannot_be_looked_at_was_asked_for_nothing(http):
    use = planned(cloud_tool, **TERMINATION)
    fault(http, "/cloud/instances/i-4207", "error_500_before", method="GET")

    with pytest.raises(NothingHappened, match="could not be asked"):
        use.execute()
    assert kinds(http) == {}


# --- looking ----------------------------------------------------------------------------------


def test_looking_needs_no_transaction(sandbox):
    found = example.find_flights("Paris", "Lisbon", date.fromisoformat(str(DAY)))

    assert [flight["flight_id"] for flight in found["flights"]] == [FLIGHT, f"QX418-{DAY}"]
    assert example.find_payment("pay_1042")["customer"] == "Ana Ruiz"
