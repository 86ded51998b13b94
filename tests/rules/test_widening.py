"""Others sign once nobody of the group has for so long: a seat is widened by time alone."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from approvals.desk import policies
from approvals.http.middleware import roles_of
from ledger import execution
from ledger.errors import NotAllowed
from ledger.events import brakes
from ledger.events.brakes import Scope
from ledger.models import Event, Group, Transaction
from ledger.principals import system
from ledger.proof.log import checkpoints
from ledger.sign_off import groups, rules
from ledger.sign_off.rules import Base, Facts, RulesRefused, Terms, read, sentences
from ledger.states import State
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.brakes.test_clocks import stood
from tests.forgery import forge, reseal, reseal_row
from tests.rules.test_items import counts
from tests.rules.test_proof import faults_of_both

pytestmark = pytest.mark.django_db


def of_finance(to: str = "approvers", seats: int = 1):
    return {
        "when": {"tool": "refund"},
        "then": {
            "verdict": "ask",
            "seats": {"finance": seats},
            "widen": {"after_minutes": 120, "to": to},
        },
    }


@pytest.fixture
def member(acme):
    """Put somebody into a group, which is made if it is not there."""

    def join(name, person):
        by = {"by": system("tests", "Tests"), "via": "command"}
        group = Group.objects.filter(tenant="acme", name=name).first()
        group = group or groups.make("acme", name, **by)
        since = timezone.now() - timedelta(days=1)
        groups.add(group, person, starts_at=since, ends_at=None, in_place_of=None, **by)

    return join


@pytest.fixture
def refund(a_transaction):
    return lambda order="o1", **arguments: a_transaction(
        "refund", order=order, amount="20", **arguments
    )


def waits_since(row: Transaction, minutes: int) -> None:
    """Let it have been prepared so long ago, by rules that were active then."""
    back = f"interval '{minutes} minutes'"
    forge(f"UPDATE ledger_event SET at = at - {back} WHERE subject = %s AND seq = 1", row.pk)
    forge(f"UPDATE ledger_transaction SET created_at = created_at - {back} WHERE id = %s", row.pk)
    reseal_row(row.pk)
    activation = Event.objects.get(kind="rules_activated")
    forge(f"UPDATE ledger_event SET at = at - {back} WHERE subject = %s", activation.subject)
    reseal(activation.subject)


def approve(row, by):
    return coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")


def test_after_the_time_any_manager_signs_in_place_of_the_group(
    activated, member, refund, alice, bob
):
    activated(of_finance())
    member("finance", bob)
    row = refund()

    waits_since(row, 119)
    with pytest.raises(NotAllowed, match="It waits for finance"):
        approve(row, alice)
    waits_since(row, 1)
    assert approve(row, alice).state == State.APPROVED

    execution.commit(row.pk)
    row.refresh_from_db()
    assert row.state == State.COMMITTED
    checkpoints.make()
    assert faults_of_both() == ([], [])


def test_another_group_signs_and_nobody_else(activated, member, refund, alice, bob):
    member("finance", bob)
    member("legal", alice)
    activated(of_finance(to="legal"))
    row = refund()

    waits_since(row, 121)
    row.refresh_from_db()

    assert rules.terms_from(row.terms).widen == {"finance": {"legal": 7200}}
    assert approve(row, alice).state == State.APPROVED
    checkpoints.make()
    assert faults_of_both() == ([], [])


def test_two_seats_are_two_people_also_when_widened(activated, member, refund, alice, bob):
    activated(of_finance(seats=2))
    member("finance", bob)
    row = refund()
    approve(row, bob)
    row.refresh_from_db()
    assert row.open_seats == ["finance"]

    with pytest.raises(NotAllowed):
        approve(row, alice)
    forge("UPDATE ledger_event SET at = at - interval '3 hours' WHERE subject = %s", row.pk)
    reseal(row.pk)

    assert approve(row, alice).state == State.APPROVED


def test_a_vote_that_came_too_early_is_noticed_by_both(activated, member, refund, alice, bob):
    activated(of_finance())
    member("finance", bob)
    row = refund()
    waits_since(row, 121)
    approve(row, alice)
    execution.commit(row.pk)

    forge(
        "UPDATE ledger_event SET at = at + interval '10 minutes' WHERE subject = %s AND seq = 1",
        row.pk,
    )
    reseal(row.pk)

    ours, theirs = faults_of_both()
    assert any(str(row.pk) in fault or "enough" in fault for fault in ours), ours
    assert any("not enough approvals" in fault for fault in theirs), theirs


def test_a_seat_that_was_left_open_in_the_row_alone_is_noticed(activated, member, refund, bob):
    activated(of_finance())
    member("finance", bob)
    row = refund()

    forge("UPDATE ledger_transaction SET open_seats = '{}' WHERE id = %s", row.pk)

    ours, _theirs = faults_of_both()
    assert f"transaction {row.pk}: open_seats is not what its votes left." in ours


def test_time_under_a_brake_does_not_count(activated, member, refund, alice, bob, olga):
    activated(of_finance())
    member("finance", bob)
    row = refund()
    brake = brakes.put(Scope("acme"), "a look", by=olga, via="web").brake
    brakes.lift(brake.pk, by=olga, via="web")
    waits_since(row, 150)
    forge("UPDATE ledger_brake SET at = at - interval '60 minutes' WHERE id = %s", brake.pk)
    sweeper.set_clocks_going()

    with pytest.raises(NotAllowed, match="It waits for finance"):
        approve(row, alice)
    assert counts(User.objects.get(username="alice")) == 0


def test_the_list_and_the_page_know_whose_seat_is_open(
    activated, member, refund, alice_user, bob_user, bob, alice
):
    activated(of_finance(seats=2))
    member("finance", bob)
    member("finance", alice)
    row = refund()

    def may(user) -> tuple[int, bool]:
        fresh, roles = Transaction.objects.get(pk=row.pk), roles_of(user)
        allowed = policies.may_decide(fresh, f"user:{user.pk}", roles, timezone.now())
        return counts(user), bool(allowed)

    assert may(alice_user) == (1, True)
    approve(row, bob)
    assert may(bob_user) == (0, False)
    assert may(alice_user) == (1, True)


def test_a_manager_finds_it_among_theirs_once_it_is_widened(
    activated, member, refund, alice_user, bob
):
    activated(of_finance())
    member("finance", bob)
    row = refund()

    assert counts(alice_user) == 0
    waits_since(row, 121)
    fresh = Transaction.objects.get(pk=row.pk)

    assert counts(alice_user) == 1
    principal = f"user:{alice_user.pk}"
    assert policies.may_decide(fresh, principal, roles_of(alice_user), timezone.now())


def test_a_rule_that_keeps_the_seat_for_its_group_wins():
    strict = {"when": {}, "then": {"verdict": "ask", "seats": {"finance": 1}}}
    facts = Facts("refund", "a", "LOW", "COMPENSABLE", {})
    base = Base(Terms(seats={"approvers": 1}), Terms())

    assert read(1, [of_finance()]).judge(facts, base).terms.widen == {
        "finance": {"approvers": 7200}
    }
    assert read(1, [of_finance(), strict]).judge(facts, base).terms.widen == {}


def test_what_is_not_known_does_not_widen():
    large = of_finance() | {"when": {"tool": "refund", "amount": {"at_least": "50 EUR"}}}
    base = Base(Terms(seats={"approvers": 1}), Terms())
    unknown = Facts("refund", "a", "LOW", "COMPENSABLE", {})
    known = Facts("refund", "a", "LOW", "COMPENSABLE", {}, amount=Decimal(60), currency="EUR")

    assert read(1, [large]).judge(unknown, base).terms.seats["finance"] == 1
    assert read(1, [large]).judge(unknown, base).terms.widen == {}
    assert read(1, [large]).judge(known, base).terms.widen


@pytest.mark.parametrize(
    ("then", "why"),
    [
        ({"seats": {"approvers": 2}}, "only where a group signs first"),
        ({"seats": {"finance": 1}, "to": "finance"}, "another group"),
        ({"seats": {"finance": 1}, "to": "supervisors"}, "another group"),
    ],
)
def test_a_widening_that_would_not_mean_what_it_says_is_refused(then, why):
    widen = {"after_minutes": 5, "to": then.pop("to", "approvers")}
    with pytest.raises(RulesRefused, match=why):
        read(1, [{"then": {"verdict": "ask", **then, "widen": widen}}])


def test_the_sentence_says_who_signs_later():
    [rule] = read(1, [of_finance()]).rules

    assert str(sentences.sentence_of(rule)) == (
        "refund: signed by 1 of finance, or after 2 hours any manager"
    )


def test_time_under_a_brake_does_not_count_before_the_sweeper_was_there(
    activated, member, refund, alice, bob, olga
):
    activated(of_finance())
    member("finance", bob)
    row = refund()
    brake = brakes.put(Scope("acme"), "why", by=olga, via="web").brake
    brakes.lift(brake.pk, by=olga, via="web")
    waits_since(row, 130)
    stood(brake, 7200, 1)  # so it has waited for ten minutes of 120

    with pytest.raises(NotAllowed, match="It waits for finance"):
        approve(row, alice)
    votes = {row.pk: {"digest": row.intent_digest, "by": alice, "via": "web"}}
    assert coordinator.approve_all(votes) == []
