"""Codes after a password, asking again before how somebody signs in can change, and sessions."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from approvals.models import AuthenticatorApp, Notice, RecoveryCodes
from approvals.people.sign_in import second_steps
from ledger.foundation.crypto import encryption
from ledger.models import Event
from tests.conftest import signed_in

pytestmark = pytest.mark.django_db
ACCOUNT = "/account/"


def code_of(secret: str, steps: int = 0) -> str:
    return second_steps.code_at(secret, int(time.time()) // 30 + steps)


def kinds_about(person: User) -> list[str]:
    return [notice.event.kind for notice in Notice.objects.filter(user=person).order_by("pk")]


def password_of(user: User, client: Client | None = None) -> Client:
    client = client or Client()
    client.post("/sign-in/", {"username": user.username, "password": user.username})
    return client


@pytest.fixture
def secret() -> str:
    return second_steps.new_secret()


@pytest.fixture
def codes(alice_user: User, secret: str) -> list[str]:
    """Alice's recovery codes; she has added an app, with a code of half a minute ago."""
    found = second_steps.add_app(alice_user, secret, code_of(secret, -1))
    assert found
    return found


def is_in(client: Client) -> bool:
    return client.get(ACCOUNT).status_code == 200


def test_after_the_password_of_somebody_with_an_app_a_code_is_asked_for(alice_user, secret, codes):
    client = Client()

    answer = client.post(
        "/sign-in/?next=/tools/", {"username": "alice", "password": "alice", "next": "/tools/"}
    )

    assert (answer["Location"], is_in(client)) == ("/sign-in/code/", False)
    answer = client.post("/sign-in/code/", {"code": code_of(secret)})
    assert (answer["Location"], is_in(client)) == ("/tools/", True)


# RFC 6238, appendix B, of which apps show the last six digits.
OF_THE_STANDARD = {
    59: "287082",
    1111111109: "081804",
    1111111111: "050471",
    1234567890: "005924",
    2000000000: "279037",
    20000000000: "353130",
}


@pytest.mark.parametrize(("at", "code"), OF_THE_STANDARD.items())
def test_codes_are_those_of_the_standard(at, code):
    secret = base64.b32encode(b"12345678901234567890").decode()

    assert second_steps.code_at(secret, at // 30) == code


def test_a_code_counts_once(alice_user, secret, codes):
    code = code_of(secret)
    first, second = password_of(alice_user), password_of(alice_user)

    first.post("/sign-in/code/", {"code": code})
    answer = second.post("/sign-in/code/", {"code": code})

    assert (is_in(first), is_in(second)) == (True, False)
    assert "wrong, or was used already" in answer.content.decode()


def test_a_recovery_code_counts_once_and_its_person_is_told(alice_user, codes):
    first, second = password_of(alice_user), password_of(alice_user)

    first.post("/sign-in/code/", {"code": codes[0]})
    second.post("/sign-in/code/", {"code": codes[0]})

    assert (is_in(first), is_in(second)) == (True, False)
    assert kinds_about(alice_user)[-1] == "recovery_code_used"


def test_wrong_codes_make_wait_from_every_address_and_tell_the_person(alice_user, secret, codes):
    client = password_of(alice_user)
    for number in range(5):
        client.post("/sign-in/code/", {"code": "000000"}, REMOTE_ADDR=f"198.51.100.{number}")

    answer = client.post("/sign-in/code/", {"code": code_of(secret)}, REMOTE_ADDR="198.51.100.99")

    assert (answer.status_code, int(answer["Retry-After"]) > 0) == (429, True)
    assert not is_in(client)
    assert kinds_about(alice_user).count("sign_in_blocked") == 1


def test_failed_passwords_tell_the_person_once(alice_user):
    for _ in range(9):
        Client().post("/sign-in/", {"username": "alice", "password": "wrong"})

    assert kinds_about(alice_user) == ["sign_in_blocked"]


def test_a_password_that_was_changed_meanwhile_ends_the_first_step(alice_user, secret, codes):
    client = password_of(alice_user)
    alice_user.set_password("another one entirely")
    alice_user.save()

    answer = client.post("/sign-in/code/", {"code": code_of(secret)})

    assert (answer["Location"], is_in(client)) == ("/sign-in/", False)


def test_nobody_comes_to_the_second_step_without_the_first(alice_user, secret, codes):
    client = Client()

    answer = client.post("/sign-in/code/", {"code": code_of(secret)})

    assert (answer["Location"], is_in(client)) == ("/sign-in/", False)


# --- at rest ------------------------------------------------------------------------------------


def stored() -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT secret || ' ' || codes "
            "FROM approvals_authenticatorapp JOIN approvals_recoverycodes USING (user_id)"
        )
        return str(cursor.fetchone()[0])


def test_secrets_are_encrypted_at_rest_and_rotated(alice_user, secret, codes, settings, capsys):
    before = stored()
    assert secret not in before
    assert not any(code in before for code in codes)

    settings.ENCRYPTION_KEYS = ["ab" * 32, *settings.ENCRYPTION_KEYS]
    call_command("rotate_secrets")
    settings.ENCRYPTION_KEYS = settings.ENCRYPTION_KEYS[:1]

    printed = capsys.readouterr().out
    assert "approvals.AuthenticatorApp.secret: 1 encrypted anew." in printed
    assert "approvals.RecoveryCodes.codes: 1 encrypted anew." in printed
    assert second_steps.check_code(alice_user, code_of(secret))
    assert second_steps.check_code(alice_user, codes[3])


# --- asking again -------------------------------------------------------------------------------

GUARDED: list[tuple[str, dict[str, Any]]] = [
    ("account/email", {"email": "mallory@example.com"}),
    ("account/app/", {"code": "000000"}),
    ("account/app/remove", {}),
    ("account/codes/new", {}),
    ("account/passkeys/1/remove", {}),
    ("account/company/disconnect", {}),
]


@pytest.mark.parametrize(("path", "said"), GUARDED)
def test_a_session_that_somebody_found_open_changes_no_way_in(path, said, alice_user, codes):
    left_open = signed_in(alice_user)  # long ago, so far as the session says
    before = Event.objects.count()

    answer = left_open.post(f"/{path}", said)

    assert answer["Location"].startswith(reverse("desk:account-confirm"))
    assert Event.objects.count() == before


def test_no_passkey_is_added_without_asking_again(as_alice):
    for path in ("options", "add"):
        answer = as_alice.post(f"/account/passkeys/{path}", {"credential": "{}"})
        assert (answer.status_code, answer.json()["location"][:17]) == (403, "/account/confirm/")


def test_the_password_opens_the_way_for_five_minutes(alice_user, as_alice, settings):
    as_alice.post("/account/confirm/", {"password": "alice", "next": ACCOUNT})
    as_alice.post("/account/email", {"email": "alice@example.com"})

    settings.CONFIRMED_FOR_S = -1
    as_alice.post("/account/email", {"email": "mallory@example.com"})

    alice_user.refresh_from_db()
    assert alice_user.email == "alice@example.com"
    assert kinds_about(alice_user) == ["email_changed"]


def test_who_has_a_second_step_is_asked_for_that_and_not_for_the_password(
    alice_user, as_alice, secret, codes
):
    as_alice.post("/account/confirm/", {"password": "alice"})
    refused = as_alice.post("/account/app/remove")
    as_alice.post("/account/confirm/", {"code": code_of(secret)})
    as_alice.post("/account/app/remove")

    assert refused["Location"].startswith("/account/confirm/")
    assert not AuthenticatorApp.objects.filter(user=alice_user).exists()
    assert not RecoveryCodes.objects.filter(user=alice_user).exists(), "and no codes without it"
    assert kinds_about(alice_user)[-1] == "authenticator_removed"


def test_a_wrong_password_confirms_nothing(as_alice):
    answer = as_alice.post("/account/confirm/", {"password": "wrong"})

    assert answer.status_code == 422
    assert as_alice.post("/account/codes/new")["Location"].startswith("/account/confirm/")


def test_an_app_is_added_only_when_it_shows_a_right_code(alice_user):
    client = password_of(alice_user)
    client.get("/account/app/")
    secret = encryption.decrypt(client.session["new_app_secret"], "session.new_app_secret")

    wrong = client.post("/account/app/", {"code": "000000"})
    right = client.post("/account/app/", {"code": code_of(secret)}, follow=True)

    assert wrong.status_code == 422
    assert len(right.context["codes"]) == 10
    assert second_steps.are_wanted(alice_user)
    assert kinds_about(alice_user) == ["authenticator_added"]
    assert client.get("/account/codes/")["Location"] == ACCOUNT, "codes are shown once"


# --- sessions -----------------------------------------------------------------------------------


def test_a_person_sees_their_sessions_and_ends_the_others(alice_user):
    here, there, elsewhere = (password_of(alice_user) for _ in range(3))
    sessions = here.get(ACCOUNT).context["sessions"]
    of_there = next(s for s in sessions if s.session_id == there.session.session_key)

    here.post(reverse("desk:account-end-session", args=[of_there.pk]))
    states = [is_in(client) for client in (here, there, elsewhere)]
    here.post(reverse("desk:account-end-others"))

    assert len(sessions) == 3
    assert states == [True, False, True]
    assert (is_in(here), is_in(elsewhere)) == (True, False)


def test_nobody_ends_the_session_of_somebody_else(alice_user, bob_user):
    alice, bob = password_of(alice_user), password_of(bob_user)
    of_alice = alice.get(ACCOUNT).context["sessions"][0]

    answer = bob.post(reverse("desk:account-end-session", args=[of_alice.pk]))

    assert (answer.status_code, is_in(alice)) == (404, True)


def test_preferences_are_kept_and_nonsense_is_not(as_alice, alice_user):
    chosen = {"language": "de", "time_zone": "Europe/Zurich", "formats": "de-CH", "theme": "dark"}

    as_alice.post("/account/preferences", {**chosen, "opens_next": "on"})
    answer = as_alice.post("/account/preferences", {**chosen, "time_zone": "Mars/Olympus"})

    alice_user.refresh_from_db()
    kept = alice_user.preferences
    assert {name: getattr(kept, name) for name in chosen} == chosen
    assert (kept.opens_next, answer.status_code) == (True, 422)
    assert 'data-chosen-theme="dark"' in as_alice.get("/tools/").content.decode()


# --- the page -----------------------------------------------------------------------------------


def test_after_an_error_the_username_stays_and_the_password_has_the_focus(alice_user):
    page = Client().post("/sign-in/", {"username": "alice", "password": "no"}).content.decode()

    assert "Wrong username or password." in page
    assert 'value="alice"' in page
    assert page.index("autofocus") > page.index('type="password"')


@pytest.mark.parametrize("is_demo", [True, False])
def test_only_the_demo_offers_its_people(is_demo, settings, alice_user):
    settings.IS_DEMO = is_demo

    page = Client().get("/sign-in/").content.decode()

    assert ('data-fill-in="alice"' in page) == is_demo


def test_the_admin_shows_no_authenticators_and_no_sessions(as_olga, olga_user):
    olga_user.is_staff = olga_user.is_superuser = True
    olga_user.save()

    for model in ("authenticatorapp", "recoverycodes", "passkey", "usersession"):
        assert as_olga.get(f"/admin/approvals/{model}/").status_code == 404
