"""Keys that sign, on the page of one's account and on the page of a person for operators."""

from __future__ import annotations

import pytest

from approvals.models import Membership
from approvals.people import KeyState, enrolled, listed, notice_text, notices_for
from approvals.people.sign_in import delete_passkey, passkeys_of
from ledger.models import ChangeRequest, Tenant
from tests.authenticators import Authenticator
from tests.rules.test_proof import faults_of_both

pytestmark = pytest.mark.django_db


def page(client, address):
    return client.get(address).content.decode()


def test_two_operators_let_a_passkey_sign_and_see_whose_it_is(
    as_alice, as_olga, as_otto, alice_user
):
    Authenticator().add_to(alice_user)
    passkey = passkeys_of(alice_user).get()
    fingerprint = listed(alice_user)[0].key.fingerprint
    there = f"/people/{alice_user.pk}/"
    assert "Signs in only" in page(as_alice, "/account/")
    assert fingerprint in page(as_alice, "/account/")

    as_olga.post(f"{there}keys/let-sign", {"passkey": passkey.pk})
    change = ChangeRequest.objects.get()
    shown = page(as_otto, f"/changes/{change.pk}/")
    assert "asks to let a passkey of" in shown
    assert fingerprint in shown
    assert not enrolled(alice_user)
    assert "Let it sign…" not in page(as_olga, there)
    as_otto.post(f"/changes/{change.pk}/confirm", {"seen": change.sha256})

    assert [each.state for each in listed(alice_user)] == [KeyState.SIGNS]
    told = [notice_text(notice.event, alice_user) for notice in notices_for(alice_user)]
    assert any(fingerprint in text and "Two operators" in text for text in told)
    assert "Signs decisions" in page(as_alice, "/account/")
    log = page(as_olga, "/changes/")
    assert fingerprint in log
    assert "public_key" not in log


def test_a_key_that_waits_says_from_when_it_signs(as_alice, alice_user, has_key):
    Tenant.objects.filter(pk="acme").update(signing_key_hours=24)

    has_key(alice_user)

    assert "Signs decisions from" in page(as_alice, "/account/")


def test_one_operator_ends_a_key_and_it_stays_listed(as_alice, as_olga, alice_user, has_key):
    key = has_key(alice_user)
    there = f"/people/{alice_user.pk}/"
    assert key.credential not in page(as_olga, there)

    answer = as_olga.post(f"{there}keys/end", {"passkey": passkeys_of(alice_user).get().pk})

    assert answer.status_code == 302
    assert "Signs no decisions any more, since" in page(as_olga, there)
    assert "Signs no decisions any more, since" in page(as_alice, "/account/")
    texts = [notice_text(notice.event, alice_user) for notice in notices_for(alice_user)]
    assert any("ended a key with which you sign" in text for text in texts)


def test_operators_of_another_tenant_touch_no_key(as_olga, alice_user, has_key):
    has_key(alice_user)
    Tenant.objects.create(slug="globex", name="Globex")
    Membership.objects.create(user=alice_user, tenant_id="globex", role="approver")
    there = f"/people/{alice_user.pk}/"
    passkey = passkeys_of(alice_user).get()

    ended = as_olga.post(f"{there}keys/end", {"passkey": passkey.pk})
    asked = as_olga.post(f"{there}keys/let-sign", {"passkey": passkey.pk})

    assert (ended.status_code, asked.status_code) == (404, 404)
    assert listed(alice_user)[0].state == KeyState.SIGNS


def test_a_person_lets_another_passkey_sign_with_the_one_that_does(as_alice, alice_user, has_key):
    first, second = has_key(alice_user), Authenticator(b"second")
    second.add_to(alice_user, "Second")
    there = f"/account/passkeys/{passkeys_of(alice_user).last().pk}/sign"
    assert f'data-options="{there}/options"' in page(as_alice, "/account/")

    options = as_alice.post(f"{there}/options").json()
    answer = as_alice.post(there, {"credential": first.use(options)})

    assert answer.json() == {"location": "/account/"}
    assert [each.state for each in listed(alice_user)] == [KeyState.SIGNS, KeyState.SIGNS]
    told = notice_text(notices_for(alice_user).latest("pk").event, alice_user)
    assert told.startswith("You let your passkey ")


def test_what_a_person_let_sign_meanwhile_no_operator_confirms(
    as_alice, as_olga, as_otto, alice_user, has_key
):
    first, second = has_key(alice_user), Authenticator(b"second")
    second.add_to(alice_user, "Second")
    passkey = passkeys_of(alice_user).last()
    as_olga.post(f"/people/{alice_user.pk}/keys/let-sign", {"passkey": passkey.pk})
    change = ChangeRequest.objects.latest("pk")
    options = as_alice.post(f"/account/passkeys/{passkey.pk}/sign/options").json()
    as_alice.post(f"/account/passkeys/{passkey.pk}/sign", {"credential": first.use(options)})

    shown = page(as_otto, f"/changes/{change.pk}/")
    as_otto.post(f"/changes/{change.pk}/confirm", {"seen": change.sha256})

    assert "it cannot be confirmed" in shown
    change.refresh_from_db()
    assert change.state == "waiting"
    assert faults_of_both() == ([], [])


def test_an_answer_that_was_not_asked_for_lets_nothing_sign(as_alice, alice_user, has_key):
    first, second = has_key(alice_user), Authenticator(b"second")
    second.add_to(alice_user, "Second")
    first_pk, second_pk = passkeys_of(alice_user).values_list("pk", flat=True)
    options = as_alice.post(f"/account/passkeys/{second_pk}/sign/options").json()

    elsewhere = as_alice.post(
        f"/account/passkeys/{first_pk}/sign", {"credential": first.use(options)}
    )
    repeated = as_alice.post(
        f"/account/passkeys/{second_pk}/sign", {"credential": first.use(options)}
    )

    assert (elsewhere.status_code, repeated.status_code) == (409, 409)
    assert listed(alice_user)[1].state == KeyState.NONE


def test_a_person_stops_a_key_once_they_said_who_they_are(as_alice, alice_user, has_key, settings):
    has_key(alice_user)
    there = f"/account/passkeys/{passkeys_of(alice_user).get().pk}/sign/stop"
    settings.CONFIRMED_FOR_S = -1
    assert as_alice.post(there).headers["Location"].startswith("/account/confirm/")
    assert listed(alice_user)[0].state == KeyState.SIGNS
    settings.CONFIRMED_FOR_S = 2**40

    as_alice.post(there)

    assert listed(alice_user)[0].state == KeyState.ENDED
    told = notice_text(notices_for(alice_user).latest("pk").event, alice_user)
    assert told == "You ended a key with which you sign decisions."


def test_the_key_of_a_removed_passkey_stays_listed(as_alice, alice_user, has_key):
    has_key(alice_user)

    delete_passkey(alice_user, passkeys_of(alice_user).get().pk)

    shown = page(as_alice, "/account/")
    assert "Removed passkey" in shown
    assert "Signs no decisions any more, since" in shown
