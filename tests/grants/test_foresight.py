"""Agents learn before they propose whether somebody has signed; people, what a grant would sign."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from ledger.models import Budget
from ledger.sign_off import grants
from tests.grants.conftest import TEN_TIMES, of, wanted
from tests.grants.test_budgets import A_HUNDRED_A_DAY, small
from tests.rules.test_api import REFUND, terms

pytestmark = pytest.mark.django_db


def of_refund(client, amount):
    return terms(client, "refund", REFUND, amount=amount, currency="EUR").json()


def test_an_agent_learns_by_which_grant_it_would_pass(as_helpdesk, allowed):
    grant = allowed()

    small, large = (of_refund(as_helpdesk, amount) for amount in ("50", "51"))

    assert (small["verdict"], small["passes"]) == ("ask", True)
    assert [each["id"] for each in small["grants"]] == [grant.pk]
    assert small["grants"][0]["sentence"] == (
        "refund, by helpdesk, of at most 50 EUR: up to 500 EUR in all and 10 times in all"
    )
    assert (large["passes"], large["grants"]) == (False, [])
    assert not Budget.objects.exists()


def test_one_of_two_seats_does_not_pass(as_helpdesk, allowed, activated):
    activated({"when": {"tool": "refund"}, "then": {"verdict": "ask", "seats": {"approvers": 2}}})
    allowed()

    answer = of_refund(as_helpdesk, "10")

    assert (answer["passes"], len(answer["grants"])) == (False, 1)


def test_an_agent_learns_that_a_budget_has_no_room(as_helpdesk, activated, a_transaction):
    activated(small(A_HUNDRED_A_DAY))
    for order in ("o-1", "o-2"):
        a_transaction("refund", order=order, amount="45")

    answers = [of_refund(as_helpdesk, amount) for amount in ("10", "11")]

    assert [answer["verdict"] for answer in answers] == ["pass", "ask"]
    assert "too little of that is left" in answers[1]["sentence"]


def test_a_transaction_says_by_which_grant_it_was_signed(as_helpdesk, allowed):
    grant = allowed()
    made = as_helpdesk.propose("refund", arguments=REFUND | {"amount": "10"}).json()

    body = as_helpdesk.get(f"/transactions/{made['transaction_id']}").json()

    assert [(vote["via"], vote["grant"]) for vote in body["decisions"]] == [("grant", grant.pk)]


def test_people_see_what_it_would_have_signed_last_week(a_transaction, acme):
    for number, amount in enumerate(["10", "60", "40", "45", "5"]):
        a_transaction("refund", order=f"o-{number}", amount=amount)

    past = grants.past_of(wanted(budgets=[of("60 EUR"), TEN_TIMES]), last=timedelta(days=7))

    assert (len(past.covered), past.sums, past.proposed) == (3, {"EUR": Decimal(55)}, 5)
