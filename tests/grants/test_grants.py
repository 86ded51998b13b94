"""Grants: what people signed in advance is signed off at once, and what is over it is asked."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from approvals.models import Membership, Role
from approvals.people import accounts, principal_of
from ledger import execution
from ledger.api import render_token
from ledger.errors import InvalidRequest, NotAllowed, NotPossible
from ledger.events import brakes, four_eyes
from ledger.events.brakes import Scope
from ledger.models import Agent, Budget, Event, Grant
from ledger.principals import system
from ledger.proof.audit import verification
from ledger.sign_off import grants, groups
from ledger.states import State
from ledger.transactions import coordinator
from ledger.transactions.prepare.proposals import checked
from tests.grants.conftest import HELPDESK, TEN_TIMES, of, wanted

pytestmark = pytest.mark.django_db


@pytest.fixture
def refund(a_transaction):
    def make(amount, **arguments):
        order = arguments.pop("order", f"o-{amount}")
        return a_transaction("refund", order=order, amount=amount, **arguments)

    return make


def test_what_a_grant_covers_is_signed_by_who_gave_it(allowed, refund, alice):
    grant = allowed()

    row = refund("49.99")

    assert row.state == State.APPROVED
    [decision] = row.decisions.all()
    assert (decision.principal, decision.via) == (str(alice), "grant")
    approved = Event.objects.get(subject=row.pk, kind="approved")
    assert f'"grant":{grant.pk}' in approved.details
    execution.commit(row.pk)
    row.refresh_from_db()
    assert row.state == State.COMMITTED
    verification.verify()


@pytest.mark.parametrize(
    ("changes", "proposal"),
    [
        ({}, {"amount": "50.01"}),
        ({}, {"amount": "10", "currency": "USD"}),
        ({"agent": "agent:acme/another"}, {"amount": "10"}),
        ({"tool": "pay"}, {"amount": "10"}),
        (
            {"when": {"amount": {"at_most": "50 EUR"}, "arguments.country": {"is": ["DE"]}}},
            {"amount": "10", "country": "FR"},
        ),
    ],
    ids=["too much", "another currency", "another agent", "another tool", "another argument"],
)
def test_what_it_does_not_cover_waits(allowed, refund, changes, proposal):
    allowed(**changes)

    assert refund(**proposal).state == State.PREPARED


def test_its_total_and_its_number_hold(allowed, refund):
    allowed(budgets=[of("100 EUR"), of("3")])

    rows = [refund(amount) for amount in ("49", "48", "4", "1", "2")]

    waits, signed = State.PREPARED, State.APPROVED
    assert [row.state for row in rows] == [signed, signed, waits, signed, waits]
    assert sorted(Budget.objects.values_list("used", flat=True)) == [Decimal(3), Decimal(98)]
    verification.verify()


def test_a_grant_that_was_ended_signs_nothing(allowed, refund, bob):
    grant = allowed()
    grants.end(grant.pk, by=bob, via="web")

    assert refund("10").state == State.PREPARED
    assert grants.end(grant.pk, by=bob, via="web").ended_by == str(bob)
    verification.verify()


def test_it_signs_one_seat_and_the_other_is_asked(allowed, refund, activated, alice, bob):
    activated({"when": {"tool": "refund"}, "then": {"verdict": "ask", "seats": {"approvers": 2}}})
    allowed()

    row = refund("10")

    assert (row.state, row.quorum) == (State.PREPARED, 2)
    [vote] = row.decisions.all()
    assert vote.principal == str(alice)
    allowed(by=bob)
    assert refund("11").state == State.APPROVED
    verification.verify()


@pytest.mark.parametrize(
    "then",
    [
        {"verdict": "ask", "note": True},
        {"verdict": "ask", "strength": "typed"},
        {"verdict": "ask", "seats": {"finance": 1}},
    ],
    ids=["a note", "typed", "a group"],
)
def test_what_its_signer_could_not_sign_like_that_is_asked(allowed, refund, activated, olga, then):
    groups.make("acme", "finance", by=olga, via="web")
    activated({"when": {"tool": "refund"}, "then": then})
    allowed()

    assert refund("10").state == State.PREPARED
    assert not Budget.objects.exists()


def test_it_signs_nothing_that_is_stopped(allowed, refund, olga):
    allowed()
    brakes.put(Scope("acme", HELPDESK), "Looking.", by=olga, via="web", keeps=True)

    assert refund("10").state == State.PREPARED


def test_a_warning_that_nobody_was_shown_is_asked(allowed, a_payment):
    large = {"when": {"amount": {"at_most": "2000 EUR"}}, "budgets": [of("9000 EUR"), TEN_TIMES]}
    allowed(tool="pay", **large)
    assert a_payment(amount="1000").state == State.APPROVED
    assert a_payment(amount="1001").state == State.PREPARED
    allowed(tool="pay", warnings=["Large amount."], **large)
    assert a_payment(amount="1001").state == State.APPROVED


@pytest.mark.parametrize("tool", ["launch", "scuttle"])
def test_what_cannot_be_undone_or_is_critical_is_never_covered(allowed, a_transaction, tool):
    allowed(tool=tool, when={}, budgets=[TEN_TIMES])

    assert a_transaction(tool, rocket="r-1").state == State.PREPARED


@pytest.mark.parametrize(
    "changes",
    [
        {"lasts": timedelta(days=31)},
        {"lasts": timedelta()},
        {"budgets": [of("500 EUR")]},
        {"budgets": [TEN_TIMES]},
        {"when": {}},
        {"tool": ""},
        {"when": {"amount": {"at_most": "many"}}},
    ],
)
def test_a_grant_without_an_end_a_total_or_a_number_is_refused(alice, acme, changes):
    with pytest.raises(InvalidRequest):
        grants.give(wanted(**changes), by=alice, via="web")


def test_only_people_give_grants(acme, helpdesk):
    for by in (helpdesk.principal, system("policy", "Policy")):
        with pytest.raises(NotAllowed):
            grants.give(wanted(), by=by, via="web")


def test_a_batch_leaves_out_what_a_grant_may_sign(allowed, acme, helpdesk):
    def in_a_batch(item):
        request = checked(
            coordinator.Proposal("order", {"item": item}),
            by=helpdesk.principal,
            tenant="acme",
            key=item,
            via="api",
            render=render_token,
        )
        return coordinator.prepare_all([request], timezone.now())

    assert in_a_batch("a chair") != [None]
    grant = allowed(tool="order", when={}, budgets=[TEN_TIMES])
    assert in_a_batch("a desk") == [None]
    grants.end(grant.pk, by=system("tests", "Tests"), via="web")
    assert in_a_batch("a desk") != [None]


def test_an_agent_has_so_many_grants_and_no_more(allowed, monkeypatch):
    monkeypatch.setattr("ledger.sign_off.grants.grants.MOST_LIVE", 2)
    allowed()
    allowed(agent="agent:acme/another")
    first = allowed()

    with pytest.raises(NotPossible):
        allowed()
    grants.end(first.pk, by=system("tests", "Tests"), via="web")
    allowed()


# --- people who come and go ----------------------------------------------------------------------


def test_a_person_who_loses_the_role_takes_the_signatures_along(
    allowed, refund, alice_user, olga_user
):
    grant = allowed()

    accounts.take_role(alice_user, "acme", Role.APPROVER, by=principal_of(olga_user), via="web")

    grant.refresh_from_db()
    assert grant.ended_at is not None
    assert refund("10").state == State.PREPARED


def test_who_may_not_decide_any_more_signs_nothing(allowed, refund, alice_user):
    allowed()
    Membership.objects.filter(user=alice_user).delete()

    assert refund("10").state == State.PREPARED
    assert not Budget.objects.exists()


def test_a_keeper_of_the_agent_signs_nothing_for_it(allowed, refund, helpdesk, alice):
    Agent.objects.filter(pk=helpdesk.pk).update(kept_by=str(alice))
    allowed()

    assert refund("10").state == State.PREPARED


def test_what_is_over_is_ended_with_an_event(allowed):
    grant = allowed()
    Grant.objects.filter(pk=grant.pk).update(ends_at=timezone.now())

    grants.end_expired()
    grants.end_expired()

    assert Event.objects.filter(kind="grant_ended").count() == 1


# --- break-glass --------------------------------------------------------------------------------

IN_AN_EMERGENCY = {"tool": "", "when": {}, "budgets": [TEN_TIMES], "why": "The bank is down."}


@pytest.fixture
def broken(acme, olga, otto):
    """Two operators break the glass."""
    request = grants.ask_break_glass(wanted(**IN_AN_EMERGENCY), by=olga, via="web")
    assert not Grant.objects.exists()
    four_eyes.confirm(request, seen=request.sha256, by=otto, via="web")
    return Grant.objects.get()


def test_two_operators_sign_what_a_group_would_have_to(broken, refund, activated, olga, otto):
    groups.make("acme", "finance", by=olga, via="web")
    asked = {"verdict": "ask", "seats": {"finance": 2}, "note": True}
    activated({"when": {"tool": "refund"}, "then": asked})

    row = refund("900")

    assert row.state == State.APPROVED
    assert {vote.principal for vote in row.decisions.all()} == {str(olga), str(otto)}
    assert {vote.reason for vote in row.decisions.all()} == {"The bank is down."}
    assert Budget.objects.get().used == 1
    verification.verify()


def test_break_glass_signs_nothing_that_is_denied_stopped_or_irreversible(
    broken, a_transaction, as_helpdesk, activated
):
    activated({"when": {"tool": "refund"}, "then": "deny"})

    refused = as_helpdesk.propose("refund", arguments={"order": "o-1", "amount": "5"})

    assert refused.json()["code"] == "denied_by_rule"
    assert a_transaction("launch", rocket="r-1").state == State.PREPARED


@pytest.mark.parametrize("changes", [{"why": " "}, {"lasts": timedelta(hours=9)}])
def test_break_glass_says_why_and_ends_within_eight_hours(acme, olga, changes):
    with pytest.raises(InvalidRequest):
        grants.ask_break_glass(wanted(**IN_AN_EMERGENCY | changes), by=olga, via="web")


def test_one_operator_does_not_break_the_glass_alone(acme, olga):
    request = grants.ask_break_glass(wanted(**IN_AN_EMERGENCY), by=olga, via="web")

    with pytest.raises(NotAllowed):
        four_eyes.confirm(request, seen=request.sha256, by=olga, via="web")
    assert not Grant.objects.exists()
