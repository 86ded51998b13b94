"""The item says who has to sign and why, and lets those sign whom the rules ask."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from approvals.desk import decisions, policies, viewers
from approvals.http.middleware import roles_of
from approvals.people import principal_of
from approvals.presentation import full_display
from ledger.errors import InvalidRequest, NotAllowed
from ledger.models import Decision, Event, GroupMember, Tenant, Transaction
from ledger.principals import system
from ledger.proof.audit import verification
from ledger.sign_off import groups
from ledger.states import State
from ledger.workers import sweeper
from tests.rules.test_pages import text_of

pytestmark = pytest.mark.django_db
ONE_OF_FINANCE = {
    "when": {"tool": "refund"},
    "then": {"verdict": "ask", "seats": {"finance": 1}},
}


def asks(**then):
    return {"when": {"tool": "refund"}, "then": {"verdict": "ask", **then}}


@pytest.fixture
def finance(acme: Tenant, olga, bob):
    """A group with Bob in it."""
    by = {"by": system("tests", "Tests"), "via": "command"}
    group = groups.make("acme", "finance", **by)
    since = timezone.now() - timedelta(days=1)
    groups.add(group, bob, starts_at=since, ends_at=None, in_place_of=None, **by)
    return group


@pytest.fixture
def refund(a_transaction):
    return lambda **arguments: a_transaction(
        "refund", **{"order": "o1", "amount": "20"} | arguments
    )


def approve(person, row, **said):
    """As the page sends it."""
    user = User.objects.get(pk=person.session["_auth_user_id"])
    data = {"digest": row.intent_digest, "shown": full_display.proof_of(row, user), **said}
    return person.post(f"/transactions/{row.pk}/approve", data, headers={"HX-Request": "true"})


def counts(user) -> int:
    roles = roles_of(user)
    viewer = viewers.Viewer(str(principal_of(user)), roles, frozenset(roles))
    return Transaction.objects.filter(viewers.can_decide(viewer)).count()


def test_only_a_member_of_the_group_is_offered_to_approve(
    as_alice, as_bob, alice_user, bob_user, activated, finance, refund
):
    activated(ONE_OF_FINANCE)
    row = refund()

    page = text_of(as_alice.get(f"/transactions/{row.pk}/"))
    refused = approve(as_alice, row)
    own = text_of(as_bob.get(f"/transactions/{row.pk}/"))
    done = approve(as_bob, row)

    assert "To be signed by 1 of finance, because of the rule: refund." in page
    assert "one of finance" in page
    assert "Next: Bob Tanaka" in page
    assert "It waits for finance, and you are not in it. You can reject it." in page
    assert "Waiting for Bob Tanaka" in page
    assert (counts(alice_user), counts(bob_user)) == (0, 0)
    assert refused.status_code == 403
    assert "you are in none of these groups" in text_of(refused)
    assert "Waiting for you" in own
    assert done.status_code == 200
    row.refresh_from_db()
    assert row.state == State.APPROVED
    assert "Bob Tanaka of finance" in text_of(as_alice.get(f"/transactions/{row.pk}/"))
    verification.verify()


def test_two_seats_are_two_people_and_each_fills_one(
    as_alice, as_bob, alice_user, bob_user, activated, finance, refund
):
    activated(asks(seats={"finance": 1, "approvers": 2}))
    row = refund()
    assert (counts(alice_user), counts(bob_user)) == (1, 1)

    first = text_of(approve(as_alice, row))
    second = text_of(as_bob.get(f"/transactions/{row.pk}/"))
    approve(as_bob, row)

    assert "To be signed by 1 of finance and a person" in first
    assert "Alice Moreau , just now" in second
    assert "one of finance" in second
    row.refresh_from_db()
    assert row.state == State.APPROVED


def test_a_group_of_nobody_says_so(as_alice, activated, acme, olga, refund):
    groups.make("acme", "finance", by=olga, via="web")
    activated(ONE_OF_FINANCE)

    page = text_of(as_alice.get(f"/transactions/{refund().pk}/"))

    assert "Nobody who could sign is in these groups; an operator can add somebody." in page
    assert "Waiting for finance" in page


def test_a_second_group_of_nobody_says_so(as_alice, activated, acme, olga, finance, refund):
    groups.make("acme", "legal", by=olga, via="web")
    activated(asks(seats={"finance": 1, "legal": 1}))
    page = as_alice.get(f"/transactions/{refund().pk}/").content.decode()

    assert "Nobody is in legal; an operator can add somebody." in page


def test_the_list_and_the_page_let_the_same_people_decide(
    alice_user, bob_user, activated, finance, a_transaction, a_payment
):
    activated(
        ONE_OF_FINANCE,
        {"when": {"tool": "scuttle"}, "then": {"verdict": "ask", "seats": {"finance": 1}}},
    )
    a_transaction("refund", order="o1", amount="20")
    a_transaction("scuttle", rocket="r1")
    a_payment()
    Transaction.objects.filter(pk=a_payment().pk).update(
        terms={"set": 1, "rules": [], "contract": {}, "floor": {}, "deny": True}
    )

    for user, number in ((alice_user, 2), (bob_user, 3)):
        roles, principal, now = roles_of(user), str(principal_of(user)), timezone.now()
        rows = Transaction.objects.all()
        in_python = [row for row in rows if policies.may_decide(row, principal, roles, now)]
        assert len(in_python) == counts(user) == number


@pytest.mark.parametrize("typed", ["", "21"])
def test_what_the_rules_want_typed_is_typed(as_alice, activated, refund, typed):
    activated(asks(strength="typed"))
    row = refund()

    page = as_alice.get(f"/transactions/{row.pk}/?whole=1").content.decode()
    refused = approve(as_alice, row, typed=typed)
    done = approve(as_alice, row, typed="20 EUR")

    assert 'name="typed"' in page
    assert "This cannot be undone" not in page
    assert refused.status_code == 422
    assert "The rules ask for it: type" in text_of(refused)
    assert done.status_code == 200
    assert '"typed":true' in Event.objects.get(transaction=row, kind="approved").details
    verification.verify()


def test_a_note_is_asked_for_and_kept(as_alice, activated, refund):
    activated(asks(note=True))
    row = refund()

    page = as_alice.get(f"/transactions/{row.pk}/?whole=1").content.decode()
    refused = approve(as_alice, row, reason="  ")
    done = approve(as_alice, row, reason="Seen the\r\nphotos.")

    assert '<textarea name="reason"' in page.partition("reject-")[0] or "Why do you approve" in page
    assert refused.status_code == 422
    assert "The rules ask for a note" in text_of(refused)
    assert done.status_code == 200
    assert row.decisions.get().reason == "Seen the\nphotos."


def test_the_desk_alone_takes_what_the_rules_keep_there(alice_user, activated, refund):
    activated(asks(desk_only=True))
    row = refund()

    assert policies.only_on_the_desk(row)
    with pytest.raises(NotAllowed, match="on the desk only"):
        decisions.approve(alice_user, row.pk, digest=row.intent_digest, via="slack")


def test_slack_asks_to_type_or_opens_the_desk_for_a_note(alice_user, activated, refund):
    activated(asks(strength="typed"))
    row = refund()
    with pytest.raises(InvalidRequest, match="The rules ask for it"):
        decisions.approve(alice_user, row.pk, digest=row.intent_digest, via="slack")
    decisions.approve(alice_user, row.pk, digest=row.intent_digest, via="slack", typed="20")
    row.refresh_from_db()
    assert row.state == State.APPROVED

    activated_again = refund(order="o2")
    Transaction.objects.filter(pk=activated_again.pk).update(terms=row.terms | {"note": True})
    activated_again.refresh_from_db()
    assert policies.asks_for_note(activated_again)


def test_whoever_left_the_group_signs_no_more(as_bob, bob_user, olga, activated, finance, refund):
    activated(ONE_OF_FINANCE)
    row = refund()
    groups.remove(GroupMember.objects.get(), by=olga, via="web")

    assert approve(as_bob, row).status_code == 403
    assert counts(bob_user) == 0


def test_whose_vote_fits_no_more_is_asked_again(as_alice, activated, refund):
    activated(asks(seats={"approvers": 2}))
    row = refund()
    approve(as_alice, row)
    assert "Waiting for you" not in as_alice.get(f"/transactions/{row.pk}/").content.decode()

    activated(asks(seats={"approvers": 2}, note=True))
    sweeper.renew_terms()
    assert "Waiting for you" in as_alice.get(f"/transactions/{row.pk}/").content.decode()
    approve(as_alice, Transaction.objects.get(pk=row.pk), reason="Looked again.")

    given = [each.reason for each in Decision.with_withdrawn.filter(transaction=row).order_by("at")]
    assert given == ["", "Looked again."]
