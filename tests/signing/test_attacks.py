"""Each way in which somebody could try to pass off an approval that the person did not sign."""

from __future__ import annotations

import json

import pytest
from fido2.webauthn import AuthenticatorData

from approvals.people import end_key, principal_of, that_sign
from approvals.people.sign_in import delete_passkey, passkeys_of
from ledger.errors import NotAllowed
from ledger.models import Tenant
from ledger.states import State
from ledger.transactions import coordinator
from tests.approvals.test_organisation_page import ADDRESS, form_of
from tests.authenticators import PRESENT, Authenticator
from tests.rules.test_pages import text_of
from tests.signing.conftest import SIGNED, approve, asked_to_sign, let_sign, sign

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(activated, refund):
    """A refund that has to be signed."""
    activated(SIGNED)
    return refund


def is_refused(answer, row, why):
    row.refresh_from_db()
    assert row.state == State.PREPARED
    assert row.decisions.count() == 0
    assert answer.status_code in {403, 409, 422}
    assert why in text_of(answer)
    return True


def test_what_is_signed_is_not_approved_with_a_click_nor_by_typing(as_alice, asked):
    row = asked()

    assert is_refused(approve(as_alice, row), row, "It has to be signed with a passkey.")
    assert is_refused(
        approve(as_alice, row, typed="20"), row, "It has to be signed with a passkey."
    )


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"origin": "http://localhost:8001"}, "made at another address"),
        ({"origin": "https://evil.example"}, "made at another address"),
        ({"host": "evil.example"}, "made for another installation"),
        ({"flags": PRESENT}, "verified its person"),
        ({"flags": AuthenticatorData.FLAG.UV}, "verified its person"),
        ({"kind": "webauthn.create"}, "for something else than signing"),
    ],
)
def test_what_the_device_signed_elsewhere_or_for_nobody_does_not_count(
    changed, why, as_alice, alice_user, asked, has_key
):
    key, row = has_key(alice_user), asked()

    assert is_refused(sign(as_alice, row, key, **changed), row, why)


def test_a_signature_of_another_item_does_not_count(as_alice, alice_user, asked, has_key):
    key, row, other = has_key(alice_user), asked(), asked(order="o2", amount="2000")
    options = asked_to_sign(as_alice, row).json()
    signed = {"credential": key.use(options), "nonce": options["nonce"]}

    assert is_refused(approve(as_alice, other, **signed), other, "or something else was.")

    fresh = asked_to_sign(as_alice, other).json()["nonce"]
    answer = approve(as_alice, other, credential=key.use(options), nonce=fresh)
    assert is_refused(answer, other, "its assertion is of something else")


def test_a_signature_counts_once(as_alice, alice_user, asked, has_key, acme):
    Tenant.objects.filter(pk=acme.pk).update(undo_seconds=60)
    key, row = has_key(alice_user), asked()
    options = asked_to_sign(as_alice, row).json()
    signed = {"credential": key.use(options), "nonce": options["nonce"]}
    assert approve(as_alice, row, **signed).status_code == 200
    as_alice.post(f"/transactions/{row.pk}/undo")

    again = approve(as_alice, row, **signed)
    assert is_refused(again, row, "The counter of this passkey went back")
    anew = {"credential": key.use(options), "nonce": options["nonce"]}
    assert is_refused(approve(as_alice, row, **anew), row, "counted before")


def test_the_same_answer_sent_twice_is_one_approval(as_alice, alice_user, asked, has_key):
    key, row = has_key(alice_user), asked()
    options = asked_to_sign(as_alice, row).json()
    signed = {"credential": key.use(options), "nonce": options["nonce"]}

    answers = [approve(as_alice, row, **signed).status_code for _ in range(2)]

    row.refresh_from_db()
    assert (answers, row.state, row.decisions.count()) == ([200, 200], State.APPROVED, 1)


def test_a_nonce_that_was_not_issued_to_the_person_does_not_count(
    as_alice, as_bob, alice_user, bob_user, asked, has_key
):
    key, row = has_key(alice_user), asked()
    has_key(bob_user)
    of_bob = asked_to_sign(as_bob, row).json()

    answer = approve(as_alice, row, credential=key.use(of_bob), nonce=of_bob["nonce"])
    assert is_refused(answer, row, "or something else was.")


def test_the_key_of_somebody_else_does_not_count(as_alice, alice_user, bob_user, asked, has_key):
    has_key(alice_user)
    of_bob, row = has_key(bob_user), asked()

    assert is_refused(sign(as_alice, row, of_bob), row, "This passkey is not yours")


def test_a_passkey_that_only_signs_in_does_not_count(as_alice, alice_user, asked, has_key):
    key, row = has_key(alice_user), asked()
    another = Authenticator(b"another")
    another.add_to(alice_user)

    assert is_refused(sign(as_alice, row, another), row, "no key with which its maker could sign")
    assert sign(as_alice, row, key).status_code == 200


def test_a_key_does_not_sign_before_its_waiting_time_is_over(
    as_alice, alice_user, olga_user, otto_user, asked, acme
):
    Tenant.objects.filter(pk=acme.pk).update(signing_key_hours=24)
    key, row = Authenticator(), asked()
    key.add_to(alice_user)
    let_sign(alice_user, key, olga_user, otto_user)

    answer = asked_to_sign(as_alice, row)

    assert answer.status_code == 403
    assert "Yours signs from" in json.loads(answer.content)["problem"]


@pytest.mark.parametrize("how", ["the key is ended", "the passkey is removed"])
def test_a_key_that_has_ended_signs_nothing_more(how, as_alice, alice_user, asked, has_key):
    key, row = has_key(alice_user), asked()
    options = asked_to_sign(as_alice, row).json()

    passkey = passkeys_of(alice_user).get()
    if how == "the key is ended":
        end_key(alice_user, passkey.pk, by=principal_of(alice_user), via="web")
    else:
        delete_passkey(alice_user, passkey.pk)

    answer = approve(as_alice, row, credential=key.use(options), nonce=options["nonce"])
    why = "no key with which" if how == "the key is ended" else "is not yours, or was removed"
    assert is_refused(answer, row, why)
    assert asked_to_sign(as_alice, row).status_code == 403


def test_nothing_but_the_desk_approves_what_is_signed(asked, alice):
    row = asked()

    with pytest.raises(NotAllowed, match="signed with a passkey"):
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web", typed=True)


def test_what_was_changed_is_signed_anew(as_alice, as_bob, alice_user, bob, asked, has_key, edited):
    key, row = has_key(alice_user), asked()
    options = asked_to_sign(as_alice, row).json()

    revised = edited(row, by=bob, amount="19")

    answer = approve(as_alice, revised, credential=key.use(options), nonce=options["nonce"])
    assert is_refused(answer, revised, "or something else was.")
    assert sign(as_alice, revised, key).status_code == 200


def test_one_operator_does_not_shorten_the_waiting_time_for_a_key_at_hand(
    as_olga, alice_user, olga_user, otto_user, acme
):
    Tenant.objects.filter(pk=acme.pk).update(signing_key_hours=24)
    key = Authenticator()
    key.add_to(alice_user)

    as_olga.post(ADDRESS, form_of(as_olga, signing_key_hours="0"))
    let_sign(alice_user, key, olga_user, otto_user)

    assert Tenant.objects.get(pk=acme.pk).signing_key_hours == 0
    assert that_sign(alice_user) == []
