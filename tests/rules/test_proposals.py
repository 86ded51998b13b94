"""Proposals are judged by the rules that are active: they pass, wait for people, or are denied."""

from __future__ import annotations

import pytest

from ledger import execution
from ledger.errors import DeniedByRule
from ledger.models import RuleSet, Tenant, Transaction
from ledger.proof.audit import verification
from ledger.states import State
from ledger.transactions import coordinator
from tests.rules.conftest import LARGE_TAKE_TWO, NO_LAUNCH, SMALL_PASS

pytestmark = pytest.mark.django_db


def refunded(a_transaction, amount: str, **arguments: str) -> Transaction:
    return a_transaction("refund", order=f"o-{amount}", amount=amount, **arguments)


def test_a_small_refund_passes_and_says_by_which_rule(activated, a_transaction, the_world):
    activated(SMALL_PASS)

    row = refunded(a_transaction, "49.99")

    assert (row.state, row.required_approver) == (State.APPROVED, "NONE")
    [decision] = row.decisions.all()
    assert (decision.principal, decision.reason) == (
        "system:policy",
        "By rule 1 of set 1 nobody has to sign.",
    )
    execution.commit(row.pk)
    row.refresh_from_db()
    assert row.state == State.COMMITTED
    verification.verify()


@pytest.mark.parametrize(
    ("amount", "currency"), [("50", "EUR"), ("12", "USD")], ids=["the limit", "another currency"]
)
def test_what_no_rule_lets_pass_waits_by_its_contract(activated, a_transaction, amount, currency):
    activated(SMALL_PASS)

    row = refunded(a_transaction, amount, currency=currency)

    assert (row.state, row.required_approver, row.quorum) == (State.PREPARED, "HUMAN", 1)
    assert row.terms["rules"] == []
    verification.verify()


def test_a_contract_without_a_floor_is_never_let_pass(activated, a_payment):
    activated({"when": {"amount": {"below": "50 EUR"}}, "then": "pass"})

    assert a_payment(amount="1.00").state == State.PREPARED


def test_the_strictest_of_all_rules_wins(activated, a_transaction, alice, bob):
    activated(SMALL_PASS, {"when": {"arguments.country": "DE"}, "then": "ask"}, LARGE_TAKE_TWO)

    small_at_home = refunded(a_transaction, "10", country="DE")
    large = refunded(a_transaction, "1000", country="FR")

    assert (small_at_home.state, small_at_home.quorum) == (State.PREPARED, 1)
    assert (large.quorum, large.terms["seats"]) == (2, {"approvers": 2})
    once = coordinator.approve(large.pk, digest=large.intent_digest, by=alice, via="web")
    assert once.state == State.PREPARED
    twice = coordinator.approve(large.pk, digest=large.intent_digest, by=bob, via="web")
    assert twice.state == State.APPROVED
    verification.verify()


def test_what_is_denied_is_not_planned_and_stays_denied(activated, as_helpdesk, the_world):
    activated(NO_LAUNCH | {"when": {"tool": "pay"}})

    first = as_helpdesk.propose("pay", key="k1", arguments={"reference": "a", "amount": "5"})
    again = as_helpdesk.propose("pay", key="k1", arguments={"reference": "a", "amount": "5"})

    assert first.status_code == again.status_code == 422
    assert first.json()["code"] == again.json()["code"] == "denied_by_rule"
    assert first.json()["detail"] == "Rule 1 of set 1 denies it."
    assert the_world.plans == 0
    assert Transaction.objects.get().state == State.REFUSED
    verification.verify()


def test_what_only_the_plan_shows_to_be_denied_is_released(activated, a_payment, the_world):
    activated({"when": {"amount": {"at_least": "500 EUR"}}, "then": "deny"})

    with pytest.raises(DeniedByRule, match="Rule 1 of set 1 denies it"):
        a_payment(amount="500")
    row = Transaction.objects.get()
    assert row.state == State.ROLLING_BACK
    execution.roll_back(row.pk)

    assert (the_world.plans, the_world.holds) == (1, set())
    assert a_payment(amount="499").state == State.PREPARED


def test_rules_that_are_activated_while_a_tool_plans_count(activated, a_transaction, the_world):
    the_world.planning = lambda: activated(LARGE_TAKE_TWO) and setattr(the_world, "planning", None)

    row = refunded(a_transaction, "2000")

    assert (row.terms["set"], row.quorum) == (1, 2)
    verification.verify()


def test_the_fast_path_judges_as_the_other_one_does(activated, as_helpdesk):
    activated({"when": {"tool": "scuttle"}, "then": {"verdict": "ask", "seats": {"approvers": 3}}})

    answer = as_helpdesk.propose("scuttle", arguments={"rocket": "r1"})

    assert answer.status_code == 201
    row = Transaction.objects.get()
    assert (row.quorum, row.terms["rules"]) == (3, [1])
    verification.verify()


def test_the_row_of_a_set_is_not_believed_only_its_event(activated, a_transaction):
    activated({"when": {"tool": "refund", "amount": {"below": "50 EUR"}}, "then": "pass"})
    RuleSet.objects.update(rules=[{"when": {"tool": {"is": ["refund"]}}, "then": "pass"}])

    assert refunded(a_transaction, "900").state == State.PREPARED


def test_rules_that_cannot_be_read_let_nothing_pass(activated, a_transaction, caplog):
    activated(SMALL_PASS)
    Tenant.objects.filter(pk="acme").update(rule_set=7)

    row = refunded(a_transaction, "2")

    assert (row.state, row.terms["unreadable"]) == (State.PREPARED, True)
    assert "RULES UNREADABLE" in caplog.text
