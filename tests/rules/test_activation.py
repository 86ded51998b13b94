"""Rule sets: what loosens takes two operators, what tightens holds at once, also for what waits."""

from __future__ import annotations

import pytest
from django.utils import timezone

from ledger import execution
from ledger.errors import InvalidRequest, NotAllowed, NotPossible
from ledger.events import four_eyes
from ledger.models import RuleSet, RuleSetState, Tenant
from ledger.principals import system
from ledger.proof.audit import verification
from ledger.sign_off import groups, rules
from ledger.sign_off.rules import loosened, read, sets
from ledger.states import State
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.rules.conftest import LARGE_TAKE_TWO, SMALL_PASS
from tests.rules.test_proof import faults_of_both

pytestmark = pytest.mark.django_db


def active_rules() -> list:
    return [(row.number, row.rules) for row in RuleSet.objects.filter(state=RuleSetState.ACTIVE)]


def test_what_loosens_waits_for_a_second_operator(acme, olga, otto):
    draft = sets.edit("acme", [SMALL_PASS], seen="", by=olga)

    waiting = rules.activate("acme", seen=draft.sha256, by=olga, via="web")

    assert (waiting.loosens, active_rules()) == (["+1"], [])
    with pytest.raises(NotAllowed):
        four_eyes.confirm(waiting, seen=waiting.sha256, by=olga, via="web")
    four_eyes.confirm(waiting, seen=waiting.sha256, by=otto, via="web")
    assert [number for number, _ in active_rules()] == [1]
    assert Tenant.objects.get(pk="acme").rule_set == 1


def test_what_tightens_holds_at_once(acme, olga):
    draft = sets.edit("acme", [LARGE_TAKE_TWO], seen="", by=olga)

    assert rules.activate("acme", seen=draft.sha256, by=olga, via="web") is None
    assert [number for number, _ in active_rules()] == [1]


def test_a_draft_that_was_edited_since_cannot_be_confirmed(acme, olga, otto):
    draft = sets.edit("acme", [SMALL_PASS], seen="", by=olga)
    waiting = rules.activate("acme", seen=draft.sha256, by=olga, via="web")
    sets.edit("acme", [LARGE_TAKE_TWO], seen=draft.sha256, by=olga)

    with pytest.raises(Exception, match="No such change waits"):
        four_eyes.confirm(waiting, seen=waiting.sha256, by=otto, via="web")
    assert active_rules() == []


def test_of_two_edits_of_one_draft_the_second_is_told(acme, olga, otto):
    sets.edit("acme", [SMALL_PASS], seen="", by=olga)

    with pytest.raises(NotPossible, match="changed the rules meanwhile"):
        sets.edit("acme", [LARGE_TAKE_TWO], seen="", by=otto)


def test_an_earlier_set_is_put_back_in_one_step(activated, acme, olga):
    activated(LARGE_TAKE_TWO)
    activated(LARGE_TAKE_TWO, {"when": {"agent": "helpdesk"}, "then": "deny"})

    waiting = rules.put_back("acme", 1, by=olga, via="web")
    assert waiting.loosens == ["-2"]
    [(number, _)] = active_rules()
    assert number == 2

    activated_again = rules.in_work("acme")
    assert activated_again.rules == RuleSet.objects.get(number=1).rules


def test_a_tighter_set_holds_for_what_waits_and_its_votes_still_count(
    activated, a_transaction, alice, bob
):
    row = a_transaction("refund", order="o1", amount="2000")
    activated(LARGE_TAKE_TWO)

    sweeper.renew_terms()
    once = coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    twice = coordinator.approve(row.pk, digest=row.intent_digest, by=bob, via="web")

    assert (once.state, once.quorum, twice.state) == (State.PREPARED, 2, State.APPROVED)
    verification.verify()


def test_activation_between_the_vote_and_the_claim_asks_again(
    activated, a_transaction, alice, bob, the_world
):
    row = a_transaction("refund", order="o1", amount="2000")
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    activated(LARGE_TAKE_TWO)

    assert execution.claim(row.pk) is None
    sweeper.renew_terms()
    row.refresh_from_db()
    assert (row.state, row.decided_at, row.quorum) == (State.PREPARED, None, 2)
    coordinator.approve(row.pk, digest=row.intent_digest, by=bob, via="web")
    execution.commit(row.pk)

    row.refresh_from_db()
    assert row.state == State.COMMITTED
    verification.verify()


def test_what_passed_by_a_rule_waits_for_people_once_the_rule_is_gone(
    activated, a_transaction, alice
):
    activated(SMALL_PASS)
    row = a_transaction("refund", order="o1", amount="5")
    assert row.state == State.APPROVED
    activated()

    assert execution.claim(row.pk) is None
    sweeper.renew_terms()
    row.refresh_from_db()
    assert (row.state, row.required_approver) == (State.PREPARED, "HUMAN")
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    verification.verify()


def test_dropping_a_condition_of_a_rule_that_widens_loosens():
    """What was not known did not widen; without the condition everything does."""
    then = {"verdict": "ask", "seats": {"finance": 1}}
    then["widen"] = {"after_minutes": 1, "to": "approvers"}
    before = [{"when": {"tool": "refund", "amount": {"at_least": "5 EUR"}}, "then": then}]
    after = [{"when": {"tool": "refund"}, "then": then}]

    assert loosened(read(1, before).rules, read(2, after).rules) == ["-1"]


def test_whose_vote_fits_no_more_votes_again(activated, a_transaction, alice, bob):
    activated(LARGE_TAKE_TWO)
    row = a_transaction("refund", order="o1", amount="1500")
    vote = {"digest": row.intent_digest, "via": "web"}
    coordinator.approve(row.pk, by=alice, **vote)
    note = {"when": {"tool": "refund"}, "then": {"verdict": "ask", "note": True}}
    activated(LARGE_TAKE_TWO, note)

    with pytest.raises(InvalidRequest, match="say why you approve it"):
        coordinator.approve(row.pk, by=alice, **vote)
    for by in (bob, alice):
        coordinator.approve(row.pk, by=by, reason="so", **vote)

    row.refresh_from_db()
    assert row.state == State.APPROVED
    assert row.decisions.count() == 2
    assert faults_of_both() == ([], [])


def test_whoever_signed_before_their_group_was_asked_has_signed_for_it(
    activated, acme, olga, a_transaction, alice, bob
):
    by = {"by": system("tests", "Tests"), "via": "command"}
    finance = groups.make("acme", "finance", **by)
    groups.add(finance, alice, starts_at=timezone.now(), ends_at=None, in_place_of=None, **by)
    activated(LARGE_TAKE_TWO)
    row = a_transaction("refund", order="o1", amount="1500")
    vote = {"digest": row.intent_digest, "via": "web"}
    coordinator.approve(row.pk, by=alice, **vote)
    ask = {"when": {"tool": "refund"}, "then": {"verdict": "ask", "seats": {"finance": 1}}}
    activated(LARGE_TAKE_TWO, ask)

    assert coordinator.approve(row.pk, by=bob, **vote).state == State.APPROVED
    assert faults_of_both() == ([], [])


def test_a_vote_that_counts_is_not_given_twice(activated, a_transaction, alice):
    activated(LARGE_TAKE_TWO)
    row = a_transaction("refund", order="o1", amount="1500")
    vote = {"digest": row.intent_digest, "by": alice, "via": "web"}
    for _ in range(2):
        assert coordinator.approve(row.pk, **vote).state == State.PREPARED

    assert [each.kind for each in row.events.order_by("seq")] == ["prepared", "approval_recorded"]
    with pytest.raises(NotPossible, match="The time to undo it is over"):
        coordinator.withdraw_approval(row.pk, by=alice, via="web")
