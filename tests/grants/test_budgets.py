"""Totals: a rule lets pass so much in a day, a month or in all, and what is over it is asked."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ledger import execution
from ledger.models import Budget, Charge, Tenant
from ledger.proof.audit import verification
from ledger.sign_off.rules import RulesRefused, loosened, read, sentences
from ledger.states import Outcome, State
from ledger.transactions import coordinator
from tests.rules.conftest import SMALL_PASS

pytestmark = pytest.mark.django_db


def small(*budgets: dict[str, str], below: str = "50 EUR"):
    return {
        "when": {"tool": "refund", "amount": {"below": below}},
        "then": {"verdict": "pass", "budgets": [*budgets]},
    }


A_HUNDRED_A_DAY = {"most": "100 EUR", "per": "day"}


@pytest.fixture
def refund(a_transaction):
    def make(amount, **arguments):
        return a_transaction("refund", order=f"o-{Charge.objects.count()}-{amount}", amount=amount)

    return make


def test_what_is_within_the_budget_passes_and_the_next_is_asked(activated, refund):
    activated(small(A_HUNDRED_A_DAY))

    rows = [refund(amount) for amount in ("49", "48", "4", "3")]

    states = [State.APPROVED, State.APPROVED, State.PREPARED, State.APPROVED]
    assert [row.state for row in rows] == states
    assert Budget.objects.get().used == Decimal(100)
    assert rows[2].terms["full"] == [1]
    verification.verify()


def test_what_is_full_says_so_to_whoever_is_asked(activated, refund):
    activated(small(A_HUNDRED_A_DAY))
    [*_, asked] = [refund(amount) for amount in ("49", "49", "4")]

    assert str(sentences.why("acme", asked.terms)) == (
        "To be signed by a person: the rule “refund, below 50 EUR” lets pass 100 EUR a day, and "
        "too little of that is left."
    )


def test_a_number_of_proposals_is_a_budget_as_well(activated, refund):
    activated(small({"most": "2", "per": "total"}))

    assert [refund(each).state for each in ("1", "2", "3")] == [
        State.APPROVED,
        State.APPROVED,
        State.PREPARED,
    ]


def test_the_day_begins_in_the_zone_of_the_organisation(activated, refund):
    Tenant.objects.filter(pk="acme").update(time_zone="Pacific/Kiritimati")
    activated(small(A_HUNDRED_A_DAY))

    row = refund("10")

    [charge] = row.terms["charges"]
    assert charge["zone"] == "Pacific/Kiritimati"
    assert Budget.objects.get().period == charge["period"]
    verification.verify()


def test_what_is_not_done_gives_its_part_back(activated, refund, olga):
    activated(small(A_HUNDRED_A_DAY))
    row = refund("40")
    coordinator.resolve(row.pk, outcome=Outcome.WITHDRAW, by=olga, via="web", reason="A mistake.")
    execution.roll_back(row.pk)

    row.refresh_from_db()
    assert (row.state, Budget.objects.get().used) == (State.ABORTED, 0)
    assert Charge.objects.get().released_at is not None
    verification.verify()


def test_what_is_in_doubt_keeps_its_part_until_it_is_known_that_nothing_happened(
    activated, refund, the_world, olga
):
    def fail():
        raise ConnectionError("cut")

    activated(small(A_HUNDRED_A_DAY))
    row = refund("40")
    the_world.before = [fail]
    execution.commit(row.pk)

    row.refresh_from_db()
    assert (row.state, Budget.objects.get().used) == (State.IN_DOUBT, 40)
    told = {"by": olga, "via": "web", "reason": "Looked it up."}
    coordinator.resolve(row.pk, outcome=Outcome.NOTHING_HAPPENED, **told)
    execution.roll_back(row.pk)
    assert Budget.objects.get().used == 0
    verification.verify()


def test_all_budgets_of_the_rules_that_match_have_to_have_room(activated, refund):
    activated(small({"most": "45 EUR", "per": "month"}, below="20 EUR"), small(A_HUNDRED_A_DAY))

    rows = [refund(amount) for amount in ("19", "49", "18", "17")]

    states = [State.APPROVED, State.APPROVED, State.APPROVED, State.PREPARED]
    assert [row.state for row in rows] == states
    assert [row.terms["full"] for row in rows[3:]] == [[2]]
    used = {budget.period.count("-"): budget.used for budget in Budget.objects.all()}
    assert used == {1: 37, 2: 86}


def test_a_rule_keeps_what_it_has_used_when_only_its_limit_changes(activated, refund):
    activated(small(A_HUNDRED_A_DAY))
    refund("49")
    activated(small({"most": "60 EUR", "per": "day"}))

    assert [refund(each).state for each in ("20", "11")] == [State.PREPARED, State.APPROVED]


def test_an_amount_in_another_currency_does_not_pass(activated, a_transaction):
    activated(
        {"when": {"tool": "refund"}, "then": {"verdict": "pass", "budgets": [A_HUNDRED_A_DAY]}}
    )

    row = a_transaction("refund", order="o-1", amount="1", currency="USD")

    assert (row.state, row.terms["rules"]) == (State.PREPARED, [])


@pytest.mark.parametrize(
    "then",
    [
        {"verdict": "ask", "budgets": [A_HUNDRED_A_DAY]},
        {"verdict": "pass", "budgets": [{"most": "0 EUR"}]},
        {"verdict": "pass", "budgets": [{"most": "1.5"}]},
        {"verdict": "pass", "budgets": [{"most": "5 EURO"}]},
        {"verdict": "pass", "budgets": [A_HUNDRED_A_DAY, A_HUNDRED_A_DAY]},
    ],
)
def test_budgets_that_mean_nothing_are_refused(then):
    with pytest.raises(RulesRefused):
        read(1, [{"when": {"tool": "refund"}, "then": then}])


def test_two_rules_of_the_same_conditions_have_no_two_budgets():
    with pytest.raises(RulesRefused, match="make it one rule"):
        read(1, [small(A_HUNDRED_A_DAY), small({"most": "5", "per": "day"})])


@pytest.mark.parametrize(
    ("after", "is_looser"),
    [
        (small({"most": "90 EUR", "per": "day"}), False),
        (small(A_HUNDRED_A_DAY, {"most": "3", "per": "day"}), False),
        (small({"most": "101 EUR", "per": "day"}), True),
        (small({"most": "90 EUR", "per": "month"}), True),
        (SMALL_PASS, True),
        (small(A_HUNDRED_A_DAY, below="40 EUR"), True),  # a budget of its own, beside what is used
    ],
)
def test_a_budget_that_is_raised_or_taken_away_loosens(after, is_looser):
    before = read(1, [small(A_HUNDRED_A_DAY)]).rules

    assert bool(loosened(before, read(2, [after]).rules)) is is_looser
