"""Approve and allow: a person signs an item, and in advance what is like it, in one step."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from ledger import execution
from ledger.models import Agent, Event, Grant, Tenant
from ledger.states import State
from ledger.transactions import coordinator
from tests.grants.conftest import TEN_TIMES, of

pytestmark = pytest.mark.django_db


@pytest.fixture
def refund(a_transaction):
    def make(amount="50", **arguments):
        order = arguments.pop("order", f"o-{amount}")
        return a_transaction("refund", order=order, amount=amount, **arguments)

    return make


def address(row):
    return reverse("desk:transaction-allow", args=[row.pk])


def page(client, row):
    return client.get(address(row)).content.decode()


def form_of(client, row, **changes):
    """The form as the page fills it in, with these changes."""
    response = client.get(address(row))
    context, form = response.context, response.context["form"]
    fields = {name: value for name, value in form.data.items() if value is not None}
    signed = {"digest": row.intent_digest, "shown": context["proof"]}
    return {**fields, **signed, **changes}


def allow(client, row, **changes):
    return client.post(address(row), form_of(client, row, **changes))


def item(client, row):
    return client.get(reverse("desk:transaction", args=[row.pk])).content.decode()


def test_it_is_approved_and_what_is_like_it_is_signed_in_advance(as_alice, refund, alice):
    row = refund("50", country="DE")

    response = allow(as_alice, row)

    assert response.status_code == 302
    row.refresh_from_db()
    assert row.state == State.APPROVED
    grant = Grant.objects.get()
    assert (grant.given_by, grant.transaction_id, grant.typed) == (str(alice), row.pk, False)
    assert grant.when == {
        "agent": {"is": ["helpdesk"]},
        "tool": {"is": ["refund"]},
        "amount": {"at_most": "50.00 EUR"},
        "arguments.country": {"is": ["DE"]},
        "risk": {"is": ["LOW", "MEDIUM"]},
    }
    assert grant.budgets == [TEN_TIMES, of("500.00 EUR")]
    assert not row.charges.exists()
    assert refund("49", country="DE", order="o-2").state == State.APPROVED
    assert refund("49", country="FR", order="o-3").state == State.PREPARED


def test_what_an_agent_always_gave_the_same_is_fixed_and_the_rest_is_free(as_alice, refund):
    for order in ("o-1", "o-2"):
        refund("50", country="DE", order=order)
    row = refund("50", country="DE")

    form = as_alice.get(address(row)).context["form"]

    assert form.data["fixed"] == ["country"]


def test_the_page_says_what_it_signs_and_what_it_would_have_signed(as_alice, refund, alice):
    covered, _large = refund("40"), refund("60")
    coordinator.reject(
        covered.pk, digest=covered.intent_digest, by=alice, via="web", reason="Twice."
    )
    row = refund("50")

    shown = page(as_alice, row)

    assert "Refund by Helpdesk agent, up to 10 times, at most €50.00 each, €500.00 in all" in shown
    assert "currency" not in shown.split("with any ")[1].split(", until")[0]
    assert "would have signed 1 of 2 other proposals with this tool, €40.00 in all" in shown
    assert "People rejected 1 of these." in shown
    assert reverse("desk:transaction", args=[covered.pk]) in shown


def test_looking_at_it_changes_nothing(as_alice, refund):
    row = refund()
    form = form_of(as_alice, row, times="3", look="1")

    whole = as_alice.post(address(row), form).content.decode()
    live = as_alice.post(address(row), form | {"live": "1"}).content.decode()

    assert "up to 3 times," in whole
    assert "up to 3 times," in live
    assert "<form" not in live
    assert not Grant.objects.exists()
    row.refresh_from_db()
    assert row.state == State.PREPARED


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"digest": "0" * 64}, "Nothing was approved or allowed"),
        ({"times": "0"}, "greater than or equal to 1"),
        ({"in_all": "40"}, "at least as much as each"),
        ({"lasts": "at", "until": "2100-01-01T00:00"}, "within the next 30 days"),
        ({"lasts": "at", "until": ""}, "within the next 30 days"),
    ],
)
def test_if_one_half_is_refused_neither_is_done(as_alice, refund, changes, why):
    row = refund("50")

    response = allow(as_alice, row, **changes)

    assert response.status_code >= 400
    assert why in response.content.decode()
    row.refresh_from_db()
    assert (row.state, Grant.objects.exists()) == (State.PREPARED, False)


def test_what_the_item_folds_is_shown_here_and_only_with_that_proof_approved(as_alice, refund):
    row = refund(country="x" * 2000)

    refused, shown = allow(as_alice, row, shown="1.no"), page(as_alice, row)

    assert (refused.status_code, Grant.objects.exists()) == (409, False)
    assert "x" * 2000 in shown
    assert allow(as_alice, row).status_code == 302


def test_who_comes_late_gives_nothing(as_alice, refund, bob):
    row = refund()
    form = form_of(as_alice, row)
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="Paid.")

    response = as_alice.post(address(row), form)

    assert response.status_code == 409
    assert not Grant.objects.exists()


def test_a_signature_that_was_typed_is_given_in_advance_as_typed(as_alice, refund, activated):
    activated({"when": {"tool": "refund"}, "then": {"verdict": "ask", "strength": "typed"}})
    row = refund()

    refused = allow(as_alice, row, typed="40")
    allow(as_alice, row, typed="50")

    assert "type “€50.00”" in refused.content.decode()
    assert Grant.objects.get().typed


def test_it_says_who_is_asked_beside(as_alice, refund, activated):
    activated({"when": {"tool": "refund"}, "then": {"verdict": "ask", "seats": {"approvers": 2}}})

    assert "one more person is asked each time" in page(as_alice, refund())


def test_of_what_is_approved_a_person_allows_what_is_like_it(as_alice, as_bob, refund, alice):
    row = refund()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    execution.commit(row.pk)

    response = allow(as_bob, row)

    assert response.status_code == 302
    assert refund("49", order="o-2").state == State.APPROVED


def test_who_may_not_sign_it_by_hand_does_not_allow_it(as_alice, as_olga, alice, refund, helpdesk):
    row = refund()
    assert as_olga.get(address(row)).status_code == 403
    assert as_olga.post(address(row), {"times": "1"}).status_code == 403
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    form = form_of(as_alice, row)
    Agent.objects.filter(pk=helpdesk.pk).update(kept_by=str(alice))

    kept = as_alice.get(address(row), follow=True).content.decode()

    assert "You keep the agent that proposed it" in kept
    assert as_alice.post(address(row), form).status_code == 403
    assert not Grant.objects.exists()


def test_the_item_offers_it_where_it_can_be_given(as_alice, as_olga, a_transaction, refund):
    row, final = refund(), a_transaction("launch", rocket="r-1")

    assert address(row) in item(as_alice, row)
    assert address(row) not in item(as_olga, row)
    assert address(final) not in item(as_alice, final)


def test_the_item_says_that_it_was_signed_in_advance(as_alice, as_bob, allowed, refund):
    grant = allowed()
    row = refund("49")

    shown = item(as_bob, row)

    address = f"/standing/?grant={grant.pk}#grant-{grant.pk}"
    assert f'Signed in advance by <bdi><a href="{address}">Alice Moreau' in shown
    assert f'{address}">signed in advance</a>' in shown
    assert "in advance</a>" in shown.partition('class="timeline"')[2]
    history = as_bob.get(reverse("desk:history")).content.decode()
    assert "Alice Moreau (in advance)" in history
    record = as_bob.get(reverse("desk:transaction-record", args=[row.pk])).content.decode()
    assert address in record


def test_the_item_says_that_too_little_of_a_signature_is_left(as_bob, allowed, refund):
    allowed(budgets=[of("60 EUR"), TEN_TIMES])
    refund("40")
    row = refund("45")

    assert "Alice Moreau&#x27;s signature in advance covers it, and too little" in item(as_bob, row)


def test_the_time_until_which_it_lasts_is_the_persons_own(as_alice, refund):
    row = refund()
    until = timezone.localtime() + timedelta(days=2)

    allow(as_alice, row, lasts="at", until=f"{until:%Y-%m-%dT%H:%M}")

    assert abs(Grant.objects.get().ends_at - until) < timedelta(minutes=1, seconds=5)
    assert Event.objects.filter(kind="grant_given").count() == 1


def test_who_undoes_the_approval_takes_back_what_was_allowed_with_it(as_alice, refund):
    Tenant.objects.update(undo_seconds=30)
    row = refund("50")
    allow(as_alice, row)

    as_alice.post(reverse("desk:transaction-undo", args=[row.pk]))

    row.refresh_from_db()
    assert row.state == State.PREPARED
    assert Grant.objects.get().ended_at is not None
