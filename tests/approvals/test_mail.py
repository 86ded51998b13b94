"""E-mail about what waits: each item or a digest, links only, and easy to stop."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime, time
from smtplib import SMTPServerDisconnected

import pytest
from django.contrib.auth.models import User
from django.core import signing
from django.db.models.functions import Now
from django.test import Client

from approvals import mail_server
from approvals.models import Membership, NotificationSettings, Preferences
from approvals.notifications import mail_channel, mails
from ledger.delivery import couriers
from ledger.events import outbox
from ledger.models import Delivery, DeliveryState, Event
from ledger.principals import Surface
from ledger.transactions import coordinator
from tests.approvals.mail_server import MailServer


@pytest.fixture
def server(settings):
    with MailServer() as server:
        settings.EMAIL_URL = f"smtp://127.0.0.1:{server.port}"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_TIMEOUT = 2
        settings.PUBLIC_URL = "https://assent.example"
        mail_channel.readers.forget()
        mail_server.forget()
        yield server
        server.released.set()
        server.shutdown()
    mail_channel.readers.forget()
    mail_server.forget()
    assert server.faults == []


def write_to(person, mail="each", **chosen):
    """A person who asked for e-mails."""
    User.objects.filter(pk=person.pk).update(email=f"{person.username}@people.example")
    NotificationSettings.objects.update_or_create(
        user=person, defaults={"mail": mail, "waiting": True, **chosen}
    )
    mail_channel.readers.forget()


def deliver_all():
    while due := [pk for pk in outbox.overdue() if _is_mail(pk)]:
        for pk in due:
            outbox.deliver(pk)


def _is_mail(pk):
    return Delivery.objects.get(pk=pk).channel == mail_channel.NAME


def make_due():
    Delivery.objects.filter(state=DeliveryState.WAITING).update(next_attempt_at=Now())


def text_of(letter, kind="plain"):
    return letter.get_body((kind,)).get_content()


def test_who_asked_gets_the_sentence_and_a_link(server, alice_user, a_transaction):
    write_to(alice_user)

    payment = a_transaction()
    deliver_all()

    (letter,) = server.letters
    assert letter["To"] == "alice@people.example"
    assert letter["Subject"].startswith(payment.action_summary)
    for kind in ("plain", "html"):
        assert f"https://assent.example/transactions/{payment.pk}/" in text_of(letter, kind)
    assert letter["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"


def test_nobody_is_written_to_who_did_not_ask(server, alice_user, bob_user, a_transaction):
    write_to(alice_user, mail="")

    a_transaction()

    assert not Delivery.objects.filter(channel=mail_channel.NAME).exists()


def test_a_link_in_an_e_mail_decides_nothing(server, alice_user, as_alice, a_transaction):
    write_to(alice_user)
    payment = a_transaction()
    deliver_all()

    for address in re.findall(r"https://assent\.example(\S+)", text_of(server.letters[0])):
        as_alice.get(address)

    payment.refresh_from_db()
    assert payment.state == "prepared"
    assert NotificationSettings.objects.get().mail == "each"


def test_an_agents_text_is_escaped_and_adds_no_header(server, alice_user, a_transaction):
    write_to(alice_user)

    a_transaction(reference="<b>x</b>")
    deliver_all()

    assert "&lt;b&gt;" in text_of(server.letters[0], "html")
    assert "<b>" in text_of(server.letters[0])


@pytest.mark.parametrize("link", ["https://evil.example/sign-in", "WWW.evil.example/in"])
def test_an_agents_text_brings_no_link_into_an_e_mail(link, server, alice_user, a_transaction):
    write_to(alice_user)

    a_transaction(reference=f"a {link}")
    deliver_all()

    [letter] = server.letters
    assert "evil.example" not in letter["Subject"] + text_of(letter) + text_of(letter, "html")


def test_what_was_decided_before_is_not_written_about(server, alice_user, bob, a_transaction):
    write_to(alice_user)
    payment = a_transaction()
    coordinator.reject(
        payment.pk, digest=payment.intent_digest, by=bob, via=Surface.WEB, reason="n"
    )

    deliver_all()

    assert server.letters == []


def test_who_lost_the_role_is_not_written_to(server, alice_user, a_transaction):
    write_to(alice_user)
    a_transaction()
    (address,) = [pk for pk in outbox.overdue() if _is_mail(pk)]
    outbox.deliver(address)
    Membership.objects.all().delete()

    deliver_all()

    assert server.letters == []


def test_a_digest_has_all_that_waits_and_comes_once(server, alice_user, a_transaction):
    write_to(alice_user, mail="hourly")
    payments = [a_transaction() for _ in range(3)]
    deliver_all()
    assert server.letters == []

    make_due()
    deliver_all()

    (letter,) = server.letters
    assert letter["Subject"] == "3 things wait for you"
    assert all(str(payment.pk) in text_of(letter) for payment in payments)


def test_a_digest_that_failed_is_sent_later(server, alice_user, a_transaction):
    write_to(alice_user, mail="daily")
    a_transaction()
    server.refused.add("alice@people.example")
    deliver_all()
    make_due()
    deliver_all()
    assert server.letters == []

    server.refused.clear()
    make_due()
    deliver_all()

    assert len(server.letters) == 1


@pytest.mark.parametrize(
    ("mail", "zone", "at", "due"),
    [
        ("hourly", "UTC", "2026-01-15T09:20", "2026-01-15T10:00"),
        ("daily", "Europe/Zurich", "2026-01-15T06:20", "2026-01-15T07:00"),
        ("daily", "Europe/Zurich", "2026-01-15T07:20", "2026-01-16T07:00"),
        ("daily", "America/New_York", "2026-01-15T07:20", "2026-01-15T13:00"),
    ],
)
def test_a_digest_is_due_at_the_hour_of_the_person(alice_user, mail, zone, at, due):
    Preferences.objects.create(user=alice_user, time_zone=zone)
    chosen = NotificationSettings(user=alice_user, mail=mail)

    found = mail_channel.next_digest(chosen, datetime.fromisoformat(at).replace(tzinfo=UTC))

    assert found == datetime.fromisoformat(due).replace(tzinfo=UTC)


def test_quiet_hours_hold_e_mails_back(server, alice_user, a_transaction):
    write_to(alice_user, quiet_from=time(0), quiet_until=time(23, 59, 59))

    a_transaction()
    deliver_all()
    make_due()
    deliver_all()

    assert server.letters == []
    assert Delivery.objects.get(channel=mail_channel.NAME, state="waiting").failures == 0


def test_nobody_gets_more_than_some_an_hour(server, alice_user, a_transaction, monkeypatch):
    monkeypatch.setattr(mail_channel, "MOST_AN_HOUR", 2)
    write_to(alice_user)

    for _ in range(3):
        a_transaction()
    deliver_all()

    assert len(server.letters) == 2
    assert "within an hour" in Delivery.objects.get(channel="mail", state="waiting").error


def test_one_click_ends_the_e_mails_without_a_session(server, alice_user, a_transaction):
    write_to(alice_user)
    a_transaction()
    deliver_all()
    stop = server.letters[0]["List-Unsubscribe"].strip(" <>").removeprefix("https://assent.example")
    program = Client(enforce_csrf_checks=True)

    assert program.get(stop).status_code == 200
    assert NotificationSettings.objects.get().mail == "each"
    assert program.post(stop, {"List-Unsubscribe": "One-Click"}).status_code == 200

    assert NotificationSettings.objects.get().mail == ""
    assert Event.objects.filter(kind="notifications_turned_off").count() == 1


@pytest.mark.parametrize(
    "token", ["none", signing.dumps(1, salt="another")], ids=["no signature", "another purpose"]
)
def test_a_forged_link_ends_nothing(db, token):
    assert Client().post(f"/account/notifications/unsubscribe/{token}").status_code == 404


def test_a_mail_server_that_hangs_delays_no_other_delivery(server, settings, alice_user, bob_user):
    """It has one thread of the courier; the next e-mails are postponed without asking it again."""
    server.hangs.set()
    settings.EMAIL_TIMEOUT = 1
    letter = mails.Letter("Subject", [mails.Line("Title", "Body", "https://assent.example/")])
    started, ended = threading.Event(), threading.Event()

    def hang():
        started.set()
        with pytest.raises(SMTPServerDisconnected), mail_server.turn():
            mails.message_of(letter, User(pk=1, email="a@people.example"), mark="1").send()
        ended.set()

    thread = threading.Thread(target=hang)
    thread.start()
    assert started.wait(5)
    while not server.connections:
        assert not ended.is_set()
    with pytest.raises(outbox.NotNow, match="Another e-mail"), mail_server.turn():
        raise AssertionError("it had the turn")
    thread.join(10)
    with pytest.raises(outbox.NotNow, match="failed a moment ago"), mail_server.turn():
        raise AssertionError("it had the turn")

    assert couriers.THREADS > 1
    assert server.connections == 1


def test_turning_e_mail_on_is_sealed_and_shown(server, alice_user, as_alice):
    User.objects.filter(pk=alice_user.pk).update(email="alice@people.example")
    assert b"To alice@people.example" in as_alice.get("/account/notifications").content

    as_alice.post("/account/notifications", {"waiting": "on", "mail": "daily"})

    assert NotificationSettings.objects.get().mail == "daily"
    assert Event.objects.get(kind="notifications_turned_on").details.count("e-mail") == 1


def test_without_a_mail_server_the_page_says_so(as_alice):
    assert b"sends no e-mail here" in as_alice.get("/account/notifications").content


def test_a_test_is_sent_by_e_mail_too(server, alice_user, as_alice):
    User.objects.filter(pk=alice_user.pk).update(email="alice@people.example")
    as_alice.post("/account/notifications", {"waiting": "on", "mail": "daily"})

    as_alice.post("/account/notifications/test")
    deliver_all()

    assert [letter["Subject"] for letter in server.letters] == ["This is a test"]
