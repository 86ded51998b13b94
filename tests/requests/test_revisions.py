"""A person corrects what waits: it is planned again, shown to everybody, and decided anew."""

from __future__ import annotations

import pytest

from ledger import execution
from ledger.errors import (
    DeniedByRule,
    InvalidArguments,
    InvalidRequest,
    NotAllowed,
    NotPossible,
    OwnTransaction,
    PlanRefused,
    Revised,
)
from ledger.models import Agent, Decision, Revision, Transaction
from ledger.principals import agent
from ledger.proof.audit import verification
from ledger.states import Ending, State
from ledger.transactions import coordinator
from ledger.transactions.coordinator import NotEditable
from tests.conftest import propose
from tests.requests.conftest import approve

pytestmark = pytest.mark.django_db


def test_the_corrected_amount_is_what_is_carried_out(refund, edited, alice, the_world):
    row = edited(refund, amount="48.20", reason="One digit too many")

    assert (row.state, row.revision) == (State.PREPARED, 2)
    assert row.action_summary == "Refund 48.20 EUR for o1"
    assert row.arguments["amount"] == "48.20"
    assert row.payload["amount"] == "482.00"  # as the agent wanted it

    approve(row, alice)
    execution.commit(row.pk)
    row.refresh_from_db()
    assert row.state == State.COMMITTED
    assert the_world.effects.total() == 1
    verification.verify()


def test_what_was_signed_before_the_change_does_not_count(helpdesk, edited, alice, bob):
    row = propose("scuttle", rocket="r1")
    with pytest.raises(NotEditable):  # its only argument identifies it
        edited(row, rocket="r2")
    row = propose("pay_two", reference="p1", amount="482.00")
    approve(row, bob)
    row.refresh_from_db()
    revised = edited(row, amount="48.20")
    assert not revised.decisions.exists()
    assert Decision.with_withdrawn.get(transaction=row).is_withdrawn
    verification.verify()


def test_where_two_sign_two_others_do(helpdesk, edited, alice, bob):
    row = edited(propose("pay_two", reference="p1", amount="482.00"), amount="48.20")
    with pytest.raises(NotAllowed, match="have changed it"):
        approve(row, alice)
    assert approve(row, bob).state == State.PREPARED
    verification.verify()


def test_a_trivial_change_by_somebody_else_does_not_let_the_first_one_sign(
    helpdesk, edited, alice, bob, dora
):
    row = edited(propose("pay_two", reference="p1", amount="482.00"), amount="48.20")
    row = edited(row, bob, amount="48.21")
    for by in (alice, bob):
        with pytest.raises(NotAllowed, match="have changed it"):
            approve(row, by)
    assert approve(row, dora).state == State.PREPARED


def test_a_vote_on_the_former_intent_is_shown_what_changed(refund, edited, bob):
    edited(refund, amount="48.20")
    with pytest.raises(Revised) as refusal:
        approve(refund, bob)
    changed = {each["path"]: (each["from"], each["to"]) for each in refusal.value.extra["changed"]}
    assert changed["arguments.amount"] == ("482.00", "48.20")
    assert changed["financial_impact"][1] == {"amount": "48.20", "currency": "EUR"}


def test_the_same_correction_again_is_the_same(refund, edited):
    first = edited(refund, amount="48.20")
    again = edited(refund, amount="48.20")
    assert again.revision == first.revision == 2


def test_another_correction_on_the_former_intent_is_refused(refund, edited, bob):
    edited(refund, amount="48.20")
    with pytest.raises(Revised):
        edited(refund, bob, amount="4.82")


def test_a_second_correction_goes_on_from_the_first(refund, edited, bob):
    row = edited(edited(refund, amount="48.20"), bob, amount="48.00")
    assert row.revision == 3
    assert [each.content["arguments"]["amount"] for each in row.revisions.order_by("number")] == [
        "482.00",
        "48.20",
    ]
    verification.verify()


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"order": "o2"}, NotEditable),
        ({"colour": "red"}, NotEditable),
        ({"amount": "many"}, InvalidArguments),
        ({"amount": "482.00"}, InvalidRequest),
        ({"country": "DE‮"}, InvalidRequest),
    ],
    ids=["identifies it", "no argument", "not valid", "nothing new", "unsafe to show"],
)
def test_what_cannot_be_changed_leaves_it_as_it_is(refund, edited, wanted, error):
    with pytest.raises(error):
        edited(refund, **wanted)
    refund.refresh_from_db()
    assert refund.revision == 1


def test_only_people_who_may_decide_change_it(refund, edited, helpdesk, supervisor, alice_user):
    for by in (helpdesk.principal, agent("acme", "supervisor")):
        with pytest.raises((NotPossible, OwnTransaction, NotAllowed)):
            edited(refund, by, amount="48.20")
    Agent.objects.filter(pk=helpdesk.pk).update(kept_by=f"user:{alice_user.pk}")
    with pytest.raises(NotAllowed, match="keep the agent"):
        edited(refund, amount="48.20")
    assert not Revision.objects.exists()


def test_what_its_agent_carries_out_itself_is_not_changed(refund, edited):
    Transaction.objects.filter(pk=refund.pk).update(tool_version="handed-over")
    refund.refresh_from_db()
    assert "itself" in coordinator.why_not_editable(refund)


def test_a_tool_that_holds_something_needs_a_way_to_plan_again(helpdesk, edited, the_world):
    row = propose("pay", reference="p1", amount="482.00")
    with pytest.raises(NotEditable, match="holds something"):
        edited(row, amount="48.20")
    assert the_world.plans == 1


def test_the_hold_is_exchanged_without_a_gap(reserved, edited, alice, the_world):
    row = edited(reserved, nights=2)
    assert sorted(the_world.reserved.values()) == ["7 1", "7 2"]  # both, until workers release one

    released = Transaction.objects.get(ending=Ending.ABANDONED)
    execution.roll_back(released.pk)
    assert the_world.reserved == {row.held["reservation"]: "7 2"}

    approve(row, alice)
    execution.commit(row.pk)
    row.refresh_from_db()
    assert row.state == State.COMMITTED
    verification.verify()


def test_the_hold_of_who_was_too_late_is_released(reserved, edited, bob, the_world):
    the_world.planning = lambda: _once(the_world, lambda: edited(reserved, bob, nights=3))
    with pytest.raises(Revised):
        edited(reserved, nights=2)
    for row in Transaction.objects.filter(ending=Ending.ABANDONED):
        execution.roll_back(row.pk)
    assert [*the_world.reserved.values()] == ["7 3"]
    verification.verify()


def _once(world, work):
    world.planning = None
    work()


def test_a_plan_that_is_refused_changes_nothing(reserved, edited, the_world):
    the_world.is_closed = True
    with pytest.raises(PlanRefused):
        edited(reserved, nights=2)
    reserved.refresh_from_db()
    assert (reserved.state, reserved.revision) == (State.PREPARED, 1)
    assert [*the_world.reserved.values()] == ["7 1"]


def test_the_rules_judge_what_it_is_now(activated, refund, edited):
    activated(
        {
            "when": {"amount": {"at_least": "1000 EUR"}},
            "then": {"verdict": "ask", "seats": {"approvers": 2}},
        },
        {"when": {"amount": {"at_least": "9000 EUR"}}, "then": "deny"},
    )
    row = edited(refund, amount="1200.00")
    assert row.quorum == 2
    with pytest.raises(DeniedByRule):
        edited(row, amount="9000.00")
    cheaper = edited(row, amount="12.00")
    assert cheaper.quorum == 2  # a change asks for no less than before
    verification.verify()


def test_a_budget_is_not_charged_by_a_change(activated, helpdesk, edited):
    activated(
        {
            "when": {"tool": "refund", "amount": {"below": "50 EUR"}},
            "then": {"verdict": "pass", "budgets": [{"most": "500 EUR"}]},
        }
    )
    row = edited(propose("refund", order="o1", amount="482.00"), amount="48.20")
    assert (row.state, row.required_approver) == (State.PREPARED, "HUMAN")
    verification.verify()
