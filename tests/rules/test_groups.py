"""Groups: whose signature a rule asks for; each member from one day to another."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from ledger import execution
from ledger.errors import NotAllowed, NotPossible
from ledger.events import four_eyes
from ledger.models import Event, GroupMember
from ledger.principals import Principal
from ledger.proof.audit import verification
from ledger.sign_off import groups
from ledger.states import State
from ledger.transactions import coordinator

pytestmark = pytest.mark.django_db
TWO_OF_FINANCE = {
    "when": {"tool": "refund"},
    "then": {"verdict": "ask", "seats": {"finance": 2}},
}


@pytest.fixture
def finance(acme, olga):
    return groups.make("acme", "finance", by=olga, via="web")


@pytest.fixture
def joined(olga, otto):
    def join(group, person: Principal, *, ends_in: timedelta | None = None, for_=None):
        now = timezone.now()
        waiting = groups.add(
            group,
            person,
            starts_at=now,
            ends_at=now + ends_in if ends_in else None,
            in_place_of=for_,
            by=olga,
            via="web",
        )
        four_eyes.confirm(waiting, seen=waiting.sha256, by=otto, via="web")
        return GroupMember.objects.get(group=group, person=str(person), removed_at=None)

    return join


def approve(row, by):
    return coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")


def refund(a_transaction):
    return a_transaction("refund", order="o1", amount="20")


def test_two_of_a_group_are_two_people_of_it(
    activated, finance, joined, a_transaction, alice, bob, dora
):
    activated(TWO_OF_FINANCE)
    joined(finance, alice)
    joined(finance, dora)
    row = refund(a_transaction)

    assert approve(row, alice).state == State.PREPARED
    with pytest.raises(NotAllowed, match="It waits for finance, and you are in none"):
        approve(row, bob)
    assert not row.decisions.filter(principal=str(bob)).exists()


def test_both_sign_and_it_is_carried_out(activated, finance, joined, a_transaction, alice, bob):
    activated(TWO_OF_FINANCE)
    joined(finance, alice)
    joined(finance, bob, for_=Principal("user", "99", "Carla Weiss"))
    row = refund(a_transaction)

    approve(row, alice)
    assert approve(row, bob).state == State.APPROVED
    execution.commit(row.pk)

    vote = Event.objects.get(subject=row.pk, kind="approved")
    assert '"in_place_of":{"finance":"user:99"}' in vote.details
    row.refresh_from_db()
    assert row.state == State.COMMITTED
    verification.verify()


def test_who_has_left_fills_no_seat_and_a_vote_from_before_stays(
    activated, finance, joined, a_transaction, alice, bob, olga
):
    activated(TWO_OF_FINANCE)
    of_alice, of_bob = joined(finance, alice), joined(finance, bob)
    row = refund(a_transaction)
    approve(row, alice)

    groups.remove(of_alice, by=olga, via="web")
    assert approve(row, bob).state == State.APPROVED

    groups.remove(of_bob, by=olga, via="web")
    later = a_transaction("refund", order="o2", amount="20")
    with pytest.raises(NotAllowed, match="It waits for finance"):
        approve(later, bob)
    verification.verify()


def test_a_membership_ends_by_itself(activated, finance, joined, a_transaction, alice):
    activated(TWO_OF_FINANCE)
    member = joined(finance, alice, ends_in=timedelta(days=1))
    GroupMember.objects.filter(pk=member.pk).update(ends_at=timezone.now())

    with pytest.raises(NotAllowed, match="It waits for finance"):
        approve(refund(a_transaction), alice)


def test_nobody_confirms_their_own_joining(finance, olga, otto):
    waiting = groups.add(
        finance, otto, starts_at=timezone.now(), ends_at=None, in_place_of=None, by=olga, via="web"
    )

    with pytest.raises(NotAllowed):
        four_eyes.confirm(waiting, seen=waiting.sha256, by=otto, via="web")
    with pytest.raises(NotAllowed):
        four_eyes.confirm(waiting, seen=waiting.sha256, by=olga, via="web")


def test_nobody_joins_twice(finance, joined, alice, olga):
    joined(finance, alice)

    with pytest.raises(NotPossible, match="Alice Moreau is in it already"):
        groups.add(
            finance,
            alice,
            starts_at=timezone.now(),
            ends_at=None,
            in_place_of=None,
            by=olga,
            via="web",
        )
