"""Attacks on the ways in: links that live too long, hidden sessions, roles taken alone."""

from __future__ import annotations

import io
import json
import logging
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core import mail
from django.db import connection
from django.test import Client
from django.utils import timezone

from approvals.models import CompanyIdentity, LinkPurpose, Membership, UserSession
from approvals.people import accounts, reset_letters
from approvals.people.sign_in import account_access, links, second_steps
from approvals.web.sign_in import company_and_links
from ledger.events import account_changes
from ledger.models import ChangeRequest, Delivery
from ledger.principals import Surface
from tests.approvals.test_second_steps import code_of
from tests.conftest import signed_in

pytestmark = pytest.mark.django_db
CHOSEN = {"new_password1": "long and unusual", "new_password2": "long and unusual"}


def confirm(client: Client, **how: Any) -> Any:
    """Confirm the change that waits."""
    change = ChangeRequest.objects.get()
    return client.post(f"/changes/{change.pk}/confirm", {"seen": change.sha256}, **how)


def path_of(address: str) -> str:
    return address.removeprefix("http://localhost:8000")


def is_in(client: Client) -> bool:
    return client.get("/account/").status_code == 200


@pytest.fixture
def with_mail(settings: Any) -> None:
    settings.EMAIL_URL = "smtp://mail.example"
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"


@pytest.fixture
def alice_with_address(alice_user: User) -> User:
    alice_user.email = "alice@example.com"
    alice_user.save()
    return alice_user


def ask_letter(username: str = "alice") -> None:
    Client().post("/sign-in/forgotten/", {"username": username})


def deliver() -> None:
    for delivery in Delivery.objects.filter(channel=reset_letters.CHANNEL):
        reset_letters.ResetLetters().send(delivery)


# --- letters ------------------------------------------------------------------------------------


def test_a_letter_brings_nobody_in_whose_ways_in_two_operators_ended(alice_with_address, with_mail):
    by = account_changes.command_principal()
    accounts.set_flag(alice_with_address, "is_staff", False, by=by, via=Surface.COMMAND)
    ask_letter()
    from approvals.people.sign_in import account_access

    account_access.end_ways_in(alice_with_address)
    recovery = links.new_link(LinkPurpose.RECOVER, alice_with_address)
    deliver()
    ask_letter()
    deliver()

    assert mail.outbox == []
    assert Client().get(path_of(recovery)).status_code == 200


def test_a_stranger_ends_nobodys_invitation(acme, with_mail):
    nina = accounts.invite(
        "nina",
        email="nina@example.com",
        by=account_changes.command_principal(),
        via=Surface.COMMAND,
    )
    invitation = links.new_link(LinkPurpose.INVITE, nina)
    ask_letter("nina")
    deliver()

    assert Client().get(path_of(invitation)).status_code == 200


def test_who_comes_in_with_the_company_alone_gets_no_password_by_letter(
    alice_with_address, with_mail
):
    alice_with_address.set_unusable_password()
    alice_with_address.save()
    CompanyIdentity.objects.create(
        user=alice_with_address, issuer="https://idp.example", subject="alice-1"
    )
    ask_letter()
    deliver()

    assert mail.outbox == []


def test_a_new_password_ends_the_links_before_it(alice_user):
    letter = links.new_link(LinkPurpose.RESET, alice_user)
    client = signed_in(alice_user)
    client.post("/password/", {"old_password": "alice", **CHOSEN})
    alice_user.refresh_from_db()
    assert alice_user.check_password("long and unusual")

    assert Client().get(path_of(letter)).status_code == 410


def test_a_new_address_ends_the_letters_to_the_old_one(alice_with_address):
    letter = links.new_link(LinkPurpose.RESET, alice_with_address)
    client = Client()
    client.post("/sign-in/", {"username": "alice", "password": "alice"})
    client.post("/account/email", {"email": "new@example.com"})
    alice_with_address.refresh_from_db()
    assert alice_with_address.email == "new@example.com"

    assert Client().get(path_of(letter)).status_code == 410


def test_a_closed_account_that_is_opened_again_has_no_old_links_and_sessions(alice_user):
    client = Client(REMOTE_ADDR="198.51.100.7")
    client.post("/sign-in/", {"username": "alice", "password": "alice"})
    letter = links.new_link(LinkPurpose.RESET, alice_user)
    by = {"by": account_changes.command_principal(), "via": Surface.COMMAND}
    accounts.set_flag(alice_user, "is_active", False, **by)
    accounts.set_flag(alice_user, "is_active", True, **by)

    assert not is_in(client)
    assert Client().get(path_of(letter)).status_code == 410


def test_who_reads_the_old_address_is_told_that_another_one_counts(alice_with_address, with_mail):
    client = Client()
    client.post("/sign-in/", {"username": "alice", "password": "alice"})
    client.post(wants(client, "thief@example.com"))
    mail.outbox.clear()
    deliver()

    [letter] = [each for each in mail.outbox if each.to != ["thief@example.com"]]
    assert letter.to == ["alice@example.com"]
    assert "another e-mail address" in letter.body
    assert "thief" not in letter.body
    assert "/join/" not in letter.body


@pytest.mark.parametrize(
    ("name", "status"), [("a\0b", 400), ("x" * 5000, 200), ("\u202ealice", 200)]
)
def test_no_name_breaks_the_page_for_forgotten_passwords(name, status, acme, with_mail):
    answer = Client(raise_request_exception=False).post("/sign-in/forgotten/", {"username": name})

    assert answer.status_code == status


# --- sessions -----------------------------------------------------------------------------------


def test_a_session_opened_over_another_persons_is_listed_and_ends_with_the_rest(
    alice_user, bob_user
):
    thief = Client(REMOTE_ADDR="198.51.100.7")
    thief.post("/sign-in/", {"username": "bob", "password": "bob"})
    letter = links.new_link(LinkPurpose.RESET, alice_user)
    thief.post(path_of(letter), CHOSEN)
    assert is_in(thief)

    assert UserSession.objects.filter(user=alice_user).count() == 1
    alice = Client()
    alice.post("/sign-in/", {"username": "alice", "password": "long and unusual"})
    alice.post("/account/sessions/end")
    assert not is_in(thief)


def stored_sessions() -> str:
    return json.dumps([row.get_decoded() for row in Session.objects.all()])


def test_a_session_row_has_no_secret_that_can_be_read(alice_user):
    client = Client()
    client.post("/sign-in/", {"username": "alice", "password": "alice"})
    page = client.get("/account/app/").content.decode()
    secret = re.search(r"<code[^>]*>([A-Z2-7 ]{30,})<", page)[1].replace(" ", "")
    assert secret not in stored_sessions()

    client.post("/account/app/", {"code": code_of(secret)})
    seen = stored_sessions()
    codes = client.get("/account/codes/").context["codes"]
    assert len(codes) == 10
    assert not [code for code in codes if code in seen]


# --- guessing -----------------------------------------------------------------------------------


def test_whoever_has_a_session_cannot_guess_the_password_behind_it(alice_user):
    thief = signed_in(alice_user)
    for _ in range(12):
        thief.post("/password/", {"old_password": "guess", **CHOSEN})
    answer = thief.post("/password/", {"old_password": "alice", **CHOSEN})

    alice_user.refresh_from_db()
    assert (answer.status_code, alice_user.check_password("alice")) == (429, True)


# --- four eyes ----------------------------------------------------------------------------------


def close(person: User) -> None:
    accounts.set_flag(
        person, "is_active", False, by=account_changes.command_principal(), via=Surface.COMMAND
    )


def test_an_operator_whose_account_two_have_closed_is_not_let_back_by_one(as_olga, otto_user):
    close(otto_user)

    as_olga.post(f"/people/{otto_user.pk}/active", {"active": "1"})

    otto_user.refresh_from_db()
    assert not otto_user.is_active


def test_nobody_opens_alone_an_approvers_account_that_they_can_enter(as_olga, olga_user, acme):
    as_olga.post(
        "/people/invite", {"username": "nina", "tenant": "acme", "role": "viewer", "name": "Nina K"}
    )
    nina = User.objects.get(username="nina")
    Membership.objects.create(user=nina, tenant=acme, role="approver")
    close(nina)

    as_olga.post(f"/people/{nina.pk}/active", {"active": "1"})

    nina.refresh_from_db()
    assert not nina.is_active


def test_no_operator_alone_gets_a_link_into_an_account_that_decides(as_olga, otto_user, acme):
    nina = accounts.invite("nina", by=account_changes.command_principal(), via=Surface.COMMAND)
    Membership.objects.create(user=nina, tenant=acme, role="approver")

    answer = as_olga.post(f"/people/{nina.pk}/link")

    assert "/join/" not in answer.content.decode()


def test_a_reset_that_was_asked_before_somebody_came_to_another_tenant_opens_nothing_there(
    as_olga, as_otto, alice_user, globex
):
    as_olga.post(f"/people/{alice_user.pk}/reset")
    Membership.objects.create(user=alice_user, tenant=globex, role="approver")
    waiting = ChangeRequest.objects.get()

    answer = as_otto.post(f"/changes/{waiting.pk}/confirm", {"seen": waiting.sha256})

    assert "/join/" not in answer.content.decode()
    alice_user.refresh_from_db()
    assert alice_user.has_usable_password()


@pytest.mark.parametrize("name", ["\uff41lice", "Alice", "ALICE"])
def test_a_name_that_was_somebodys_is_refused_in_every_spelling(name, as_olga, alice_user):
    alice_user.username = "alicia"
    alice_user.save()

    answer = as_olga.post("/people/invite", {"username": name, "tenant": "acme", "role": "viewer"})

    assert answer.status_code == 422


NAMES = [
    ("alice", "Moreau"),
    ("Alice\u200b", " Moreau"),
    ("\u0410lice", "Moreau"),
    ("\u202eecila", ""),
]


@pytest.mark.parametrize(("first", "last"), NAMES)
def test_nobody_takes_the_name_of_somebody_else_in_the_tenant(
    first, last, as_bob, bob_user, alice_user
):
    answer = as_bob.post("/account/profile", {"first_name": first, "last_name": last})

    bob_user.refresh_from_db()
    assert (answer.status_code, bob_user.first_name) == (422, "Bob")


@pytest.mark.parametrize(
    ("first", "last"), [("Алиса", "Морозова"), ("Zoë", "Ångström"), ("明", "王")]
)
def test_people_may_have_names_of_any_alphabet(first, last, as_bob, bob_user):
    as_bob.post("/account/profile", {"first_name": first, "last_name": last})

    bob_user.refresh_from_db()
    assert bob_user.first_name == first


# --- passkeys' answers --------------------------------------------------------------------------

BROKEN = [
    "[]",
    "1",
    '"x"',
    "null",
    "{}",
    '{"id": 5}',
    '{"response": 5}',
    '{"id": "AA", "rawId": "AA", "type": "public-key", "response": {"clientDataJSON": "AA", '
    '"authenticatorData": "AA", "signature": "AA", "userHandle": "MQ"}}',
    '{"id": "AA", "rawId": "AA", "type": "public-key", "response": {"clientDataJSON": "e30", '
    '"authenticatorData": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "signature": "AA", '
    '"userHandle": "MQ"}}',
    '{"id": "AA", "rawId": "AA", "type": "public-key", "response": {"clientDataJSON": "e30", '
    '"attestationObject": "oA"}}',
    '{"id": "AA", "rawId": "AA", "type": "public-key", "response": {"clientDataJSON": "W10", '
    '"attestationObject": "AA"}}',
]


@pytest.mark.parametrize("answer", BROKEN)
def test_no_answer_of_a_browser_breaks_anything(answer, alice_user):
    client = Client(raise_request_exception=False)
    client.post("/sign-in/passkey/options")
    statuses = [client.post("/sign-in/passkey", {"credential": answer}).status_code]
    link = path_of(links.new_link(LinkPurpose.INVITE, alice_user))
    client.post(f"{link}passkey/options")
    statuses.append(client.post(f"{link}passkey", {"credential": answer}).status_code)
    client.post("/sign-in/", {"username": "alice", "password": "alice"})
    client.post("/account/passkeys/options")
    statuses.append(client.post("/account/passkeys/add", {"credential": answer}).status_code)

    assert set(statuses) <= {409, 422}


# --- logs, and two requests at the same time ----------------------------------------------------


def test_no_open_link_is_in_the_log(alice_user, capsys):
    token = path_of(links.new_link(LinkPurpose.INVITE, alice_user)).split("/")[2]
    weak = {"new_password1": "12345678", "new_password2": "12345678"}
    lines = io.StringIO()
    console = next(each for each in logging.getLogger().handlers if each.get_name() == "console")
    before = console.setStream(lines)

    Client().post(f"/join/{token}/", weak)
    Client().get(f"/join/{token}/passkey")
    Client().post(f"/first/{token}/more")
    # Refusals are not logged; a fault of ours at such an address is.
    logging.getLogger("django.request").error("Internal Server Error: %s", f"/join/{token}/")
    console.setStream(before)

    assert "/join/" in lines.getvalue()
    assert token not in lines.getvalue()


@pytest.mark.django_db(transaction=True)
def test_letters_that_are_asked_for_at_the_same_time_are_one(alice_with_address, with_mail):
    together = threading.Barrier(6)

    def ask(_: int) -> None:
        together.wait()
        reset_letters.ask_for_letter("alice")
        connection.close()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(ask, range(6)))

    assert Delivery.objects.filter(channel=reset_letters.CHANNEL).count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_link_that_is_used_twice_at_the_same_time_sets_one_password(alice_user):
    link = path_of(links.new_link(LinkPurpose.INVITE, alice_user))
    together = threading.Barrier(4)

    def choose(number: int) -> int:
        together.wait()
        password = f"long and unusual {number}"
        answer = Client().post(link, {"new_password1": password, "new_password2": password})
        connection.close()
        return answer.status_code

    with ThreadPoolExecutor(4) as threads:
        statuses = sorted(threads.map(choose, range(4)))

    assert statuses[0] == 302
    assert set(statuses[1:]) <= {409, 410}


@pytest.mark.django_db(transaction=True)
def test_a_code_that_is_sent_twice_at_the_same_time_counts_once(alice_user):
    secret = second_steps.new_secret()
    second_steps.add_app(alice_user, secret, code_of(secret, -1))
    together, code = threading.Barrier(5), code_of(secret)

    def check(_: int) -> bool:
        together.wait()
        counted = second_steps.check_code(alice_user, code)
        connection.close()
        return counted

    with ThreadPoolExecutor(5) as threads:
        assert sorted(threads.map(check, range(5))) == [False] * 4 + [True]


def test_whether_there_is_an_account_cannot_be_timed_by_asking_for_letters(
    alice_with_address, with_mail
):
    def seconds(name: str) -> float:
        begun = time.perf_counter()
        ask_letter(name)
        return time.perf_counter() - begun

    seconds("nobody")
    unknown = min(seconds(f"nobody-{number}") for number in range(5))
    known = seconds("alice")
    assert unknown >= company_and_links.ANSWERED_AFTER_S
    assert known < 2 * unknown


# --- the first link, and what strangers leave behind --------------------------------------------


def invited_by(client: Client, role: str = "approver") -> tuple[User, str]:
    wanted = {"username": "nina", "name": "Nina Wolf", "tenant": "acme", "role": role}
    page = client.post("/people/invite", wanted).content.decode()
    return User.objects.get(username="nina"), link_of(page)


def link_of(page: str) -> str:
    return re.search(r'value="http://[^/"]+(/join/[^"]+)"', page)[1]


@pytest.mark.parametrize("role", ["approver", "operator"])
def test_the_inviters_link_ends_when_the_role_that_decides_is_confirmed(role, as_olga, as_otto):
    _nina, first = invited_by(as_olga, role)

    answer = confirm(as_otto)

    second = link_of(answer.content.decode())
    assert Client().post(first, CHOSEN).status_code == 410
    assert Client().post(second, CHOSEN).status_code == 302


def test_the_second_operator_is_told_who_could_have_come_in(as_olga, as_otto):
    _nina, first = invited_by(as_olga)
    inside = Client()
    inside.post(first, CHOSEN)
    told = "come in already, by a link that Olga"

    before = as_otto.get(f"/changes/{ChangeRequest.objects.get().pk}/").content.decode()
    answer = confirm(as_otto, follow=True)

    assert told in before
    assert told in answer.content.decode()
    assert "/join/" not in answer.content.decode()
    assert is_in(inside)


def test_a_role_that_one_operator_gives_alone_ends_the_link_and_makes_none(as_olga, as_otto):
    nina, first = invited_by(as_olga, "viewer")

    answer = as_otto.post(
        f"/people/{nina.pk}/role/give", {"role": "acme approver"}, follow=True
    ).content.decode()

    assert Membership.objects.filter(user=nina, role="approver").exists()
    assert "it takes two operators" in answer
    assert "/join/" not in answer
    assert Client().get(first).status_code == 410


def test_nobody_gets_a_link_into_an_account_that_another_tenant_has_too(as_olga, as_otto, globex):
    nina, first = invited_by(as_olga)
    Membership.objects.create(user=nina, tenant=globex, role="approver")

    answer = confirm(as_otto, follow=True)

    assert "/join/" not in answer.content.decode()
    assert Client().get(first).status_code == 410


def test_what_a_stranger_began_is_kept_for_a_quarter_of_an_hour(alice_user):
    client = Client()
    client.post("/sign-in/passkey/options")
    begun = client.session.get_expiry_age()
    client.post("/sign-in/", {"username": "alice", "password": "alice"})

    assert begun <= 900
    assert client.session.get_expiry_age() > 3600


def test_expired_sessions_are_deleted_with_their_lines_in_the_list(alice_user, monkeypatch):
    monkeypatch.setattr(account_access, "BATCH", 2)
    clients = [Client() for _ in range(4)]
    for client in clients:
        client.post("/sign-in/", {"username": "alice", "password": "alice"})
    expired = [client.session.session_key for client in clients[:3]]
    Session.objects.filter(pk__in=expired).update(expire_date=timezone.now() - timedelta(days=1))

    counts = []
    for _ in range(3):
        account_access.forget_expired()
        counts.append((Session.objects.count(), UserSession.objects.count()))

    assert counts == [(2, 2), (1, 1), (1, 1)]
    assert is_in(clients[3])


# --- another address of one's own -----------------------------------------------------------------


def wants(client: Client, address: str) -> str:
    """Ask for another address; returns the path of the link in the letter to it."""
    client.post("/account/email", {"email": address})
    mail.outbox.clear()
    deliver()
    [letter] = [each for each in mail.outbox if each.to == [address]]
    return re.search(r"http://[^/]+(/account/email/\S+)", letter.body)[1]


@pytest.fixture
def alice_in(alice_with_address, with_mail) -> Client:
    client = Client()
    client.post("/sign-in/", {"username": "alice", "password": "alice"})
    return client


def address_of_alice() -> str:
    return User.objects.get(username="alice").email


def test_another_address_counts_once_its_reader_has_confirmed_it(alice_in):
    before = address_of_alice()
    path = wants(alice_in, "new@example.com")

    page = alice_in.get(path).content.decode()
    assert "new@example.com" in page
    assert address_of_alice() == before  # opening it changes nothing

    alice_in.post(path)
    mail.outbox.clear()
    deliver()

    assert address_of_alice() == "new@example.com"
    assert [before] in [letter.to for letter in mail.outbox]  # who reads the old one is told


def test_the_link_to_another_address_works_once_and_for_its_person_alone(alice_in, bob_user):
    path = wants(alice_in, "new@example.com")

    assert signed_in(bob_user).post(path).status_code == 409
    assert Client().get(path).status_code == 302
    assert alice_in.get(f"{path[:-3]}x/").status_code == 409
    assert alice_in.post(path).status_code == 302
    assert alice_in.post(path).status_code == 409
    assert address_of_alice() == "new@example.com"


def test_a_later_wish_ends_the_link_of_the_earlier_one(alice_in):
    earlier = wants(alice_in, "first@example.com")
    alice_in.post("/account/email", {"email": "second@example.com"})

    assert alice_in.post(earlier).status_code == 409
    assert address_of_alice() == "alice@example.com"


def test_the_link_to_another_address_lapses(alice_in, monkeypatch):
    path = wants(alice_in, "new@example.com")
    monkeypatch.setattr(reset_letters, "ADDRESS_VALID", timedelta(seconds=-1))

    assert alice_in.post(path).status_code == 409
    assert address_of_alice() == "alice@example.com"


def test_nobody_has_letters_sent_to_many_addresses(alice_in):
    for number in range(7):
        alice_in.post("/account/email", {"email": f"stranger-{number}@example.com"})
    deliver()

    assert len(mail.outbox) == 5
    assert address_of_alice() == "alice@example.com"
