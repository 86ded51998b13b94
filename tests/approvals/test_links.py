"""One-time links: invitations, a forgotten password, an account that two operators reset."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import takewhile

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from django.test import Client

from approvals.models import LinkPurpose, Membership, SignInLink
from approvals.people import notices, reset_letters
from approvals.people.sign_in import links
from ledger.models import Delivery, Event

pytestmark = pytest.mark.django_db
CHOSEN = {"new_password1": "long and unusual", "new_password2": "long and unusual"}


def invite(capsys, name="nina", **options) -> str:
    """The path of the link that the command prints."""
    call_command("invite", name, tenant="acme", role="approver", **options)
    found = re.search(r"http://[^/]+(/join/\S+)", capsys.readouterr().out)
    return found[1] if found else ""


@pytest.fixture
def link(acme, capsys) -> str:
    return invite(capsys, email="nina@example.com")


def test_invite_makes_the_person_who_chooses_a_password_and_is_in(link):
    nina, client = User.objects.get(username="nina"), Client()
    shown = client.get(link).content.decode()

    answer = client.post(link, CHOSEN)

    assert "Your username is <b>nina</b>" in shown
    assert (answer["Location"], client.get("/account/").status_code) == ("/", 200)
    assert not notices.notices_for(nina).exists(), "what made the account is no news"
    assert Membership.objects.filter(user=nina, tenant="acme", role="approver").exists()
    kinds = (
        Event.objects.filter(to_state="")
        .exclude(principal="system:tests")
        .order_by("pk")
        .values_list("kind", flat=True)
    )
    assert [kind for kind in kinds if kind.startswith(("user", "person", "password"))] == [
        "user_created",
        "person_invited",
        "password_changed",
    ]


def test_a_link_works_once(link):
    Client().post(link, CHOSEN)

    answer = Client().get(link)

    assert (answer.status_code, "was used already" in answer.content.decode()) == (410, True)
    assert Client().post(link, CHOSEN).status_code == 410


def test_a_link_ends_after_three_days(link):
    SignInLink.objects.update(expires_at=Now() - timedelta(seconds=1))

    answer = Client().post(link, CHOSEN)

    assert "The time of this link is over." in answer.content.decode()
    assert not User.objects.get(username="nina").has_usable_password()


def test_a_new_link_ends_the_earlier_one(link):
    newer = links.new_link(LinkPurpose.INVITE, User.objects.get(username="nina"))

    assert Client().get(link).status_code == 410
    assert Client().get(newer.removeprefix("http://localhost:8000")).status_code == 200


def test_a_link_to_a_closed_account_opens_nothing(link):
    User.objects.filter(username="nina").update(is_active=False)

    assert Client().post(link, CHOSEN).status_code == 410


def test_the_token_is_in_no_table(link):
    token = link.split("/")[2]

    assert SignInLink.objects.get().token_hash == links.hash_of(token)
    assert not Event.objects.filter(details__contains=token).exists()


def test_invited_people_cannot_sign_in_before(link):
    Client().post("/sign-in/", {"username": "nina", "password": ""})

    assert not User.objects.get(username="nina").has_usable_password()


def test_a_weak_password_uses_the_link_not_up(link):
    weak = {"new_password1": "12345678", "new_password2": "12345678"}

    assert Client().post(link, weak).status_code == 422
    assert Client().post(link, CHOSEN).status_code == 302


def test_invite_gives_a_person_who_exists_only_the_role(alice_user, capsys):
    assert invite(capsys, "alice") == ""
    assert not SignInLink.objects.exists()


def test_a_name_that_somebody_had_is_not_given_again(alice_user, capsys):
    alice_user.username = "alicia"
    alice_user.save()

    with pytest.raises(CommandError, match="once had it"):
        invite(capsys, "Alice")


def test_guessing_links_makes_an_address_wait(db):
    guesses = (Client().get(f"/join/guess{number}/").status_code for number in range(100))

    assert 20 <= sum(1 for _ in takewhile(lambda status: status == 410, guesses)) < 100


# --- a forgotten password -----------------------------------------------------------------------


@pytest.fixture
def with_mail(settings) -> None:
    settings.EMAIL_URL = "smtp://mail.example"
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"


def deliver() -> None:
    for delivery in Delivery.objects.filter(channel=reset_letters.CHANNEL):
        reset_letters.ResetLetters().send(delivery)


def test_a_letter_brings_a_link_to_a_new_password(alice_user, with_mail):
    alice_user.email = "alice@example.com"
    alice_user.save()
    Client().post("/sign-in/forgotten/", {"username": "alice"})
    deliver()

    [letter] = mail.outbox
    path = re.search(r"http://[^/]+(/join/\S+)", letter.body)[1]
    client = Client()
    client.post(path, CHOSEN)

    assert letter.to == ["alice@example.com"]
    assert client.get("/account/").status_code == 200
    assert Client().post(path, CHOSEN).status_code == 410
    alice_user.refresh_from_db()
    assert alice_user.check_password("long and unusual")


def test_the_answer_says_nothing_about_accounts(alice_user, with_mail):
    alice_user.email = "alice@example.com"
    alice_user.save()

    known = Client().post("/sign-in/forgotten/", {"username": "alice"})
    unknown = Client().post("/sign-in/forgotten/", {"username": "nobody"})

    assert "If there is such an account" in known.content.decode()
    assert known.status_code == unknown.status_code == 200
    assert Delivery.objects.filter(channel=reset_letters.CHANNEL).count() == 1


def test_strangers_cannot_flood_a_person_with_letters(alice_user, with_mail):
    alice_user.email = "alice@example.com"
    alice_user.save()

    for number in range(4):
        client = Client(REMOTE_ADDR=f"198.51.100.{number}")
        client.post("/sign-in/forgotten/", {"username": "alice"})

    assert Delivery.objects.filter(channel=reset_letters.CHANNEL).count() == 1


def test_a_letter_alone_lets_nobody_in_who_has_a_second_step(alice_user, with_mail):
    from approvals.people.sign_in import second_steps
    from tests.approvals.test_second_steps import code_of

    secret = second_steps.new_secret()
    second_steps.add_app(alice_user, secret, code_of(secret, -1))
    link = links.new_link(LinkPurpose.RESET, alice_user).removeprefix("http://localhost:8000")
    client = Client()

    answer = client.post(link, CHOSEN)

    assert answer["Location"] == "/sign-in/code/"
    assert client.get("/account/").status_code == 302


def test_without_mail_the_page_says_who_helps(db):
    page = Client().get("/sign-in/forgotten/").content.decode()

    assert "Ask an operator" in page


def test_one_address_gets_five_letters_in_a_day_for_all_its_accounts_together(
    alice_user, bob_user, settings, monkeypatch
):
    settings.EMAIL_URL = "smtp://localhost"
    monkeypatch.setattr(reset_letters, "SELDOM", timedelta(0))
    User.objects.filter(pk=alice_user.pk).update(email="desk@example.com")
    User.objects.filter(pk=bob_user.pk).update(email="Desk@example.com")

    for username in ("alice", "bob", "alice", "bob", "alice", "bob", "alice"):
        reset_letters.ask_for_letter(username)

    assert Delivery.objects.filter(channel=reset_letters.CHANNEL).count() == 5


def test_another_address_gets_its_letter_all_the_same(alice_user, bob_user, settings, monkeypatch):
    settings.EMAIL_URL = "smtp://localhost"
    monkeypatch.setattr(reset_letters, "SELDOM", timedelta(0))
    User.objects.filter(pk=alice_user.pk).update(email="alice@example.com")
    User.objects.filter(pk=bob_user.pk).update(email="bob@example.com")

    for username in ("alice",) * 6 + ("bob",):
        reset_letters.ask_for_letter(username)

    assert Delivery.objects.filter(channel=reset_letters.CHANNEL).count() == 6
