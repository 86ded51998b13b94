"""People are told in their browsers: who, of what, when, and when not any more."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, time, timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now

from a2a.tasks import questions
from approvals.models import (
    Membership,
    NotificationSettings,
    Preferences,
    PushSubscription,
    Role,
    ShownNotification,
)
from approvals.notifications import notification_settings, push_channel
from approvals.people import accounts
from ledger.delivery.couriers import Courier
from ledger.events import outbox
from ledger.foundation.crypto.signing_keys import public_vapid_key
from ledger.models import Delivery, DeliveryState, Event, Transaction
from ledger.principals import Surface, system
from ledger.transactions import coordinator
from tests.approvals.push_service import PushService
from tests.conftest import signed_in
from tests.forgery import move_deadline
from tests.processes import until

KEY = "55" * 32
PUBLIC_KEY = public_vapid_key(KEY)


@pytest.fixture
def service(settings):
    settings.VAPID_KEY, settings.VAPID_PUBLIC_KEY = KEY, PUBLIC_KEY
    settings.PUBLIC_URL = "https://assent.example"
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    push_channel.audience.forget()
    with PushService(PUBLIC_KEY) as service:
        yield service
        service.shutdown()
    push_channel.audience.forget()
    assert service.refusals == []


def tell_in(client, browser, **chosen):
    """What a person does: turn it on in a browser."""
    answer = client.post("/account/notifications/browsers", browser.fields)
    assert answer.status_code == 204, answer.content
    push_channel.audience.forget()
    NotificationSettings.objects.update(**chosen)


def deliver_all():
    """All that is due on this channel, as a courier does."""
    while due := [pk for pk in outbox.overdue() if _is_push(pk)]:
        for pk in due:
            outbox.deliver(pk)


def _is_push(pk):
    return Delivery.objects.get(pk=pk).channel == push_channel.NAME


def make_due():
    Delivery.objects.filter(state=DeliveryState.WAITING).update(next_attempt_at=Now())


def test_who_may_decide_is_told_in_one_sentence(service, as_alice, a_transaction):
    browser = service.browser()
    tell_in(as_alice, browser)

    payment = a_transaction("pay", amount="48.20")
    deliver_all()

    (shown,) = browser.shown()
    assert shown["title"] == payment.action_summary
    assert shown["body"].endswith("left")
    assert shown["address"] == f"/transactions/{payment.pk}/"
    assert set(shown) == {"title", "body", "tag", "address", "silent", "again"}
    headers = browser.headers[0]
    assert headers["Topic"] == payment.pk.hex
    assert 0 < int(headers["TTL"]) <= (payment.expires_at - payment.created_at).total_seconds()


def test_nobody_is_told_who_did_not_ask(service, as_alice, as_bob, a_transaction):
    browser = service.browser()
    tell_in(as_bob, browser)
    PushSubscription.objects.all().delete()
    push_channel.audience.forget()

    a_transaction()

    assert not Delivery.objects.filter(channel=push_channel.NAME).exists()


def test_it_is_withdrawn_when_somebody_else_decides(
    service, as_alice, a_transaction, bob, alice_user
):
    browser = service.browser()
    tell_in(as_alice, browser)
    payment = a_transaction()
    deliver_all()
    assert len(browser.shown()) == 1

    coordinator.reject(
        payment.pk, digest=payment.intent_digest, by=bob, via=Surface.WEB, reason="n"
    )
    deliver_all()

    assert browser.shown() == []
    assert browser.messages[-1] == {"close": payment.pk.hex}
    assert not ShownNotification.objects.exists()


def test_it_is_not_sent_at_all_when_it_was_decided_before(service, as_alice, a_transaction, bob):
    browser = service.browser()
    tell_in(as_alice, browser)
    payment = a_transaction()
    coordinator.reject(
        payment.pk, digest=payment.intent_digest, by=bob, via=Surface.WEB, reason="n"
    )

    deliver_all()

    assert browser.messages == []
    assert not ShownNotification.objects.exists()


def test_who_has_signed_is_told_no_more_and_the_other_still_is(
    service, as_alice, as_bob, a_transaction, alice
):
    of_alice, of_bob = service.browser("alice"), service.browser("bob")
    tell_in(as_alice, of_alice)
    tell_in(as_bob, of_bob)
    wire = a_transaction("scuttle", rocket="nine")
    assert wire.quorum == 2
    deliver_all()

    coordinator.approve(wire.pk, digest=wire.intent_digest, by=alice, via=Surface.WEB)
    deliver_all()

    assert of_alice.shown() == []
    assert [each["tag"] for each in of_bob.shown()] == [wire.pk.hex]


def test_other_tenants_and_viewers_are_told_nothing(service, as_carol, as_vera, a_transaction):
    browsers = [service.browser("carol"), service.browser("vera")]
    tell_in(as_carol, browsers[0])
    tell_in(as_vera, browsers[1])

    a_transaction()
    deliver_all()

    assert [browser.messages for browser in browsers] == [[], []]


def test_who_loses_the_role_before_it_is_sent_is_told_nothing(service, as_alice, a_transaction):
    browser = service.browser()
    tell_in(as_alice, browser)
    a_transaction()
    (address,) = [pk for pk in outbox.overdue() if _is_push(pk)]
    outbox.deliver(address)  # addressed, not sent yet
    Membership.objects.filter(role=Role.APPROVER).delete()

    deliver_all()

    assert browser.messages == []


def test_who_is_deactivated_is_told_nothing_and_the_browser_is_forgotten(
    service, as_alice, alice_user, a_transaction
):
    browser = service.browser()
    tell_in(as_alice, browser)

    accounts.set_flag(alice_user, "is_active", False, by=system("test", "a test"), via=Surface.WEB)
    a_transaction()
    deliver_all()

    assert browser.messages == []
    assert not PushSubscription.objects.exists()


def test_a_new_password_ends_the_browsers_of_before(service, as_alice, alice_user, a_transaction):
    browser = service.browser()
    tell_in(as_alice, browser)
    accounts.set_password(
        alice_user, "another good password", by=system("test", "a test"), via=Surface.WEB
    )

    a_transaction()
    deliver_all()

    assert browser.messages == []
    assert not PushSubscription.objects.exists()


def test_signing_out_ends_that_browser_and_no_other(service, alice_user, a_transaction):
    at_work, at_home = signed_in(alice_user), signed_in(alice_user)
    of_work, of_home = service.browser("work"), service.browser("home")
    tell_in(at_work, of_work)
    tell_in(at_home, of_home)

    at_work.post("/sign-out")
    a_transaction()
    deliver_all()

    assert of_work.messages == []
    assert len(of_home.shown()) == 1


@pytest.mark.parametrize("status", [404, 410])
def test_a_subscription_that_is_gone_is_removed(service, as_alice, a_transaction, status):
    browser = service.browser()
    tell_in(as_alice, browser)
    browser.status = status

    a_transaction()
    deliver_all()

    assert not PushSubscription.objects.exists()
    assert not Delivery.objects.filter(
        channel=push_channel.NAME, state=DeliveryState.WAITING
    ).exists()


def test_a_push_service_that_fails_is_tried_again(service, as_alice, a_transaction):
    browser = service.browser()
    tell_in(as_alice, browser)
    browser.status = 503
    a_transaction()
    deliver_all()
    assert browser.messages == []
    assert "503" in Delivery.objects.get(channel=push_channel.NAME, state="waiting").error

    browser.status = 201
    make_due()
    deliver_all()

    assert len(browser.shown()) == 1
    assert PushSubscription.objects.get().last_success_at is not None


def test_a_locked_phone_shows_no_details_if_they_are_hidden(service, as_alice, a_transaction):
    browser = service.browser()
    tell_in(as_alice, browser, hides_details=True)

    a_transaction()
    deliver_all()

    (shown,) = browser.shown()
    assert shown["title"] == "Something waits for your sign-off"


def test_each_reads_their_own_language(service, as_alice, alice_user, a_transaction, settings):
    browser = service.browser()
    tell_in(as_alice, browser, hides_details=True)
    Preferences.objects.create(user=alice_user, language="de")

    a_transaction()
    deliver_all()

    assert len(browser.shown()) == 1


def test_low_risk_is_not_told_to_who_wants_high_risk_only(service, as_alice, a_transaction):
    browser = service.browser()
    tell_in(as_alice, browser, only_high=True)

    low, high = a_transaction(), a_transaction()
    Transaction.objects.filter(pk=low.pk).update(risk_level="LOW")
    deliver_all()

    assert high.risk_level == "HIGH"
    assert [each["tag"] for each in browser.shown()] == [high.pk.hex]


def test_people_are_told_when_a_supervising_agent_passes_it_on(
    service, as_alice, a_transaction, supervisor
):
    browser = service.browser()
    tell_in(as_alice, browser)
    order = a_transaction("order", item="chairs")
    deliver_all()
    assert browser.messages == []

    coordinator.pass_on(
        order.pk, digest=order.intent_digest, by=supervisor.principal, via="api", reason="too dear"
    )
    deliver_all()

    assert [each["tag"] for each in browser.shown()] == [order.pk.hex]


def test_five_minutes_before_the_end_it_is_shown_again(service, as_alice, a_transaction):
    browser = service.browser()
    tell_in(as_alice, browser, before_expiry=True)
    payment = a_transaction()
    deliver_all()
    (reminder,) = Delivery.objects.filter(channel=push_channel.NAME, state="waiting")
    assert reminder.next_attempt_at == payment.expires_at - timedelta(minutes=5)

    move_deadline(payment.pk, 299_000)
    make_due()
    deliver_all()

    assert [message["show"]["again"] for message in browser.messages] == [False, True]
    assert len(browser.shown()) == 1


def test_of_what_was_given_more_time_it_is_said_later_and_once(
    service, as_alice, bob, a_transaction
):
    browser = service.browser()
    tell_in(as_alice, browser, before_expiry=True)
    payment = a_transaction()
    deliver_all()
    coordinator.extend(payment.pk, timedelta(hours=1), by=bob, via="web")
    make_due()
    deliver_all()

    (reminder,) = Delivery.objects.filter(channel=push_channel.NAME, state="waiting")
    assert reminder.next_attempt_at > payment.expires_at
    assert [message["show"]["again"] for message in browser.messages] == [False]


def quiet(person, begin, end, zone="Europe/Zurich"):
    Preferences.objects.filter(user=person).delete()
    Preferences.objects.create(user=person, time_zone=zone)
    return NotificationSettings(
        user=User.objects.get(pk=person.pk),
        quiet_from=time.fromisoformat(begin),
        quiet_until=time.fromisoformat(end),
    )


@pytest.mark.parametrize(
    ("at", "zone", "until"),
    [
        ("2026-01-15T19:30", "Europe/Zurich", "2026-01-16T06:00"),  # 20:30 there
        ("2026-01-15T18:30", "Europe/Zurich", None),  # 19:30 there
        ("2026-01-16T02:00", "Europe/Zurich", "2026-01-16T06:00"),  # 03:00, after midnight
        ("2026-01-16T06:00", "Europe/Zurich", None),  # 07:00 exactly
        ("2026-01-15T19:30", "America/New_York", None),  # 14:30 there
        ("2026-03-28T23:00", "Europe/Zurich", "2026-03-29T05:00"),  # the clock goes forward
    ],
)
def test_quiet_hours_are_those_of_the_person(alice_user, at, zone, until):
    chosen = quiet(alice_user, "20:00", "07:00", zone)
    now = datetime.fromisoformat(at).replace(tzinfo=UTC)

    end = notification_settings.quiet_until(chosen, now)

    assert end == (datetime.fromisoformat(until).replace(tzinfo=UTC) if until else None)


def test_in_quiet_hours_nothing_is_sent_until_they_end(service, as_alice, a_transaction):
    browser = service.browser()
    tell_in(as_alice, browser, quiet_from=time(0, 0), quiet_until=time(23, 59, 59))

    payment = a_transaction()
    deliver_all()
    make_due()
    deliver_all()

    assert browser.messages == []
    waiting = Delivery.objects.get(channel=push_channel.NAME, state="waiting")
    assert waiting.next_attempt_at > payment.created_at
    assert waiting.failures == 0


def test_a_test_takes_the_same_way(service, as_alice):
    browser = service.browser()
    tell_in(as_alice, browser)

    as_alice.post("/account/notifications/test")
    deliver_all()

    assert [each["title"] for each in browser.shown()] == ["This is a test"]


def test_turning_it_on_and_off_is_sealed(service, as_alice):
    tell_in(as_alice, service.browser())
    subscription = PushSubscription.objects.get()

    as_alice.post(f"/account/notifications/browsers/{subscription.pk}/remove")

    kinds = Event.objects.filter(kind__startswith="notifications_").order_by("pk")
    assert [event.kind for event in kinds] == [
        "notifications_turned_on",
        "notifications_turned_off",
    ]
    assert not PushSubscription.objects.exists()


def test_nobody_removes_the_browser_of_somebody_else(service, as_alice, as_bob):
    tell_in(as_alice, service.browser())

    as_bob.post(f"/account/notifications/browsers/{PushSubscription.objects.get().pk}/remove")

    assert PushSubscription.objects.count() == 1


def test_a_browser_is_of_one_person_the_last_that_turned_it_on(service, as_alice, as_bob, bob_user):
    browser = service.browser()
    tell_in(as_alice, browser)
    tell_in(as_bob, browser)

    assert PushSubscription.objects.get().user == bob_user


def test_a_browser_that_is_not_known_as_ones_own_is_not_renewed(service, as_alice, as_bob):
    browser = service.browser()
    tell_in(as_alice, browser)

    answer = as_bob.post("/account/notifications/browsers", {**browser.fields, "renew": "1"})

    assert answer.status_code == 404


def test_the_oldest_of_more_than_twenty_browsers_makes_room(service, as_alice):
    for number in range(21):
        tell_in(as_alice, service.browser(str(number)))

    assert PushSubscription.objects.count() == 20


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://push.example/1",
        "http://10.0.0.1/1",
        "https://10.0.0.1/1",
        "https://user:word@push.example/1",
        "ftp://push.example/1",
        "https://push.example/" + "a" * 1000,
        "",
    ],
)
def test_an_address_that_we_must_not_call_is_refused(service, as_alice, endpoint):
    fields = {**service.browser().fields, "endpoint": endpoint}

    answer = as_alice.post("/account/notifications/browsers", fields)

    assert answer.status_code == 422
    assert not PushSubscription.objects.exists()


@pytest.mark.parametrize("change", [{"p256dh": "AAAA"}, {"auth": "AAAA"}, {"auth": "é"}])
def test_keys_that_cannot_be_read_are_refused(service, as_alice, change):
    answer = as_alice.post(
        "/account/notifications/browsers", {**service.browser().fields, **change}
    )

    assert answer.status_code == 422


def test_endpoint_and_keys_are_not_readable_in_the_database(service, as_alice):

    browser = service.browser()
    tell_in(as_alice, browser)

    with connection.cursor() as cursor:
        cursor.execute("SELECT row_to_json(s)::text FROM approvals_pushsubscription s")
        (stored,) = cursor.fetchone()
    assert not any(value in stored for value in browser.fields.values())


def test_the_page_keeps_what_was_chosen(service, as_alice):
    answer = as_alice.post(
        "/account/notifications",
        {"waiting": "on", "sound": "on", "quiet_from": "20:00", "quiet_until": "07:00"},
    )

    assert answer.status_code == 302
    chosen = NotificationSettings.objects.get()
    assert (chosen.waiting, chosen.questions, chosen.sound) == (True, False, True)
    assert b'value="20:00"' in as_alice.get("/account/notifications").content


def test_half_of_quiet_hours_is_refused_in_words(service, as_alice):
    answer = as_alice.post("/account/notifications", {"quiet_from": "20:00"})

    assert answer.status_code == 422
    assert b"a beginning and an end" in answer.content


def test_the_inbox_offers_it_once(service, as_alice):
    assert b"data-tell-me" in as_alice.get("/").content

    as_alice.post("/account/notifications/not-now")

    assert b"data-tell-me" not in as_alice.get("/").content


def test_without_a_key_nothing_is_offered(as_alice):
    assert b"data-tell-me" not in as_alice.get("/").content
    assert b"Not set up here" in as_alice.get("/account/notifications").content


def test_a_hidden_tab_is_told_of_what_waits_and_nothing_else(
    service, as_alice, as_carol, a_transaction
):
    as_alice.post("/account/notifications", {"waiting": "on"})
    as_carol.post("/account/notifications", {"waiting": "on"})
    payment = a_transaction()
    address = f"/account/notifications/due?id={payment.pk}"

    (shown,) = as_alice.get(address).json()["show"]

    assert shown["tag"] == payment.pk.hex
    assert as_carol.get(address).json() == {"show": []}


def test_what_fell_in_doubt_is_told_to_operators(service, as_olga, as_alice, approved):
    of_olga, of_alice = service.browser("olga"), service.browser("alice")
    tell_in(as_olga, of_olga)
    tell_in(as_alice, of_alice)
    row = approved()
    Transaction.objects.filter(pk=row.pk).update(state="in_doubt")
    row.refresh_from_db()
    event = Event.objects.filter(subject=row.pk).last()
    doubt = Event.objects.create(
        subject=row.pk,
        transaction=row,
        tenant=row.tenant,
        kind="fell_in_doubt",
        to_state="in_doubt",
        principal="system:worker",
        principal_name="worker",
        via="system",
    )
    assert event is not None
    outbox.put_in_outbox(doubt)

    deliver_all()

    assert [each["tag"] for each in of_olga.shown()] == [row.pk.hex]
    assert "In doubt" in of_olga.shown()[0]["body"]
    assert of_alice.shown() == []


def test_what_the_push_service_carries_has_one_length_and_no_word_of_it(
    service, as_alice, a_transaction
):
    browser = service.browser()
    tell_in(as_alice, browser)

    a_transaction(reference="short")
    a_transaction(reference="r" * 150)
    deliver_all()

    lengths = {headers["Content-Length"] for headers in browser.headers}
    assert len(browser.headers) == 2
    assert len(lengths) == 1
    assert not any("short" in value for headers in browser.headers for value in headers.values())


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_courier_brings_it_over_its_own_connections_and_forgets_who_is_gone(
    service, as_alice, as_bob, a_transaction
):
    here, gone = service.browser("here"), service.browser("gone")
    tell_in(as_alice, here)
    tell_in(as_bob, gone)
    gone.status = 410
    payment = a_transaction()
    courier = Courier(threading.Event())
    courier.start()
    try:
        until(lambda: here.shown(), what="it is shown")
        until(lambda: PushSubscription.objects.count() == 1, what="the other is forgotten")
        until(lambda: PushSubscription.objects.get().last_success_at, what="it is noted")
    finally:
        courier.stop()

    assert [each["tag"] for each in here.shown()] == [payment.pk.hex]
    assert gone.messages == []


def test_who_may_answer_a_question_is_told_of_it_until_it_is_answered(
    service, as_alice, as_olga, as_bob, a_claimed_task, worker
):
    of_alice, of_olga = service.browser("alice"), service.browser("olga")
    tell_in(as_alice, of_alice)
    tell_in(as_olga, of_olga)
    task = a_claimed_task()
    asked = questions.ask(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        text="Which date is right?",
        via="api",
        may_answer=["approver"],
    )
    deliver_all()

    assert [each["tag"] for each in of_alice.shown()] == [asked.pk.hex]
    assert of_alice.shown()[0]["title"].endswith("asks: Which date is right?")
    assert of_olga.shown() == []

    as_bob.post(f"/questions/{asked.pk}/answer", {"answer": "May 3"})
    deliver_all()

    asked.refresh_from_db()
    assert asked.state == "answered"
    assert of_alice.shown() == []
