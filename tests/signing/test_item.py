"""The page of what is signed with a passkey: a touch in place of a click, or why not."""

from __future__ import annotations

import pytest
from django.utils import timezone

from approvals.models import About
from approvals.notifications import words_of
from approvals.notifications.subjects import Item
from approvals.people import end_key, principal_of
from approvals.people.sign_in import passkeys_of
from ledger.models import Tenant
from ledger.principals import Surface
from tests.authenticators import Authenticator
from tests.signing.conftest import SIGNED, approve, sign

pytestmark = pytest.mark.django_db
BUTTON = "Sign with your passkey"


def page(client, row):
    return client.get(f"/transactions/{row.pk}/").content.decode()


def test_who_has_a_key_signs_with_one_touch(as_alice, alice_user, activated, refund, has_key):
    activated(SIGNED)
    has_key(alice_user)
    row = refund()

    shown = page(as_alice, row)

    assert f'data-sign="/transactions/{row.pk}/sign" data-approve' in shown
    assert BUTTON in shown
    assert "To be signed with a passkey." in shown
    assert '<dialog id="approve-' not in shown


def test_who_has_no_key_is_told_what_it_takes(as_alice, alice_user, activated, refund):
    activated(SIGNED)
    row = refund()

    without = page(as_alice, row)
    Authenticator().add_to(alice_user)
    with_passkey = page(as_alice, row)

    assert "Add one; two operators let it sign." in without
    assert "Two operators have to let yours sign first." in with_passkey
    for shown in (without, with_passkey):
        assert "data-approve" not in shown
        assert 'href="/account/#passkeys"' in shown


def test_whose_key_has_ended_is_told_to_add_another(
    as_alice, alice_user, activated, refund, has_key
):
    activated(SIGNED)
    has_key(alice_user)
    passkey = passkeys_of(alice_user).get()
    end_key(alice_user, passkey.pk, by=principal_of(alice_user), via=Surface.WEB)

    shown = page(as_alice, refund())

    assert "add another; two operators let it sign." in shown
    assert "data-approve" not in shown


def test_who_waits_for_a_key_is_told_until_when(as_alice, alice_user, activated, refund, has_key):
    Tenant.objects.filter(pk="acme").update(signing_key_hours=1)
    activated(SIGNED)
    has_key(alice_user)

    shown = page(as_alice, refund())

    assert "Yours signs from " in shown
    assert "data-approve" not in shown


def test_a_notification_says_that_its_page_is_for_signing(activated, refund):
    unsigned = refund()
    activated(SIGNED)

    told = {
        row: words_of(Item(About.DECISION, row), timezone.now(), hides_details=True).body
        for row in (unsigned, refund(order="o2"))
    }

    assert [body.endswith(" left · Open to sign") for body in told.values()] == [False, True]


def test_a_key_can_stand_for_typing(as_alice, alice_user, activated, refund, has_key):
    activated({"when": {"tool": "refund"}, "then": {"verdict": "ask", "strength": "typed"}})
    row = refund()
    typed_only = page(as_alice, row)
    key = has_key(alice_user)

    shown = page(as_alice, row)

    assert f"{BUTTON} instead" in shown
    assert 'name="typed"' in shown
    assert BUTTON not in typed_only
    assert sign(as_alice, row, key).status_code == 200


def test_a_vote_says_that_a_passkey_signed_it(as_alice, alice_user, activated, refund, has_key):
    activated(SIGNED)
    key, row = has_key(alice_user), refund()
    assert approve(as_alice, row).status_code == 403

    answer = sign(as_alice, row, key)

    assert answer.content.decode().count("with a passkey") == 2
    record = as_alice.get(f"/transactions/{row.pk}/record/").content.decode()
    assert "with a passkey" in record


@pytest.mark.parametrize("is_signed", [True, False])
def test_what_is_signed_is_not_offered_together_with_others(as_alice, activated, refund, is_signed):
    if is_signed:
        activated(SIGNED)
    refund(order="o1")
    refund(order="o2")

    assert ("Decide 2 of" in page_of_list(as_alice)) is not is_signed


def page_of_list(client):
    return client.get("/").content.decode()
