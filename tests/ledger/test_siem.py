"""A SIEM gets every event, in order and at least once, whatever it or the courier does."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest
from django.db import connection

from approvals import metrics
from examples import verify
from ledger.delivery import siem
from ledger.delivery.couriers import Courier
from ledger.delivery.siem import Siem, checks, sending
from ledger.events import last_settled_event
from ledger.models import Agent, Event, SiemPosition
from ledger.transactions import coordinator
from tests.forgery import forge
from tests.ledger.siem_receiver import FORMS, TOKEN, SiemReceiver
from tests.ledger.webhook_receiver import SECRET, Receiver
from tests.processes import running, until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def receiver(request, settings):
    form = getattr(request, "param", "json")
    server = SiemReceiver(form)
    settings.SIEM_URL, settings.SIEM_FORM, settings.SIEM_TOKEN = server.url, form, TOKEN
    yield server
    server.end()


@pytest.fixture
def at_once(monkeypatch):
    """A receiver that hangs is left after a moment, and tried again without a pause."""
    monkeypatch.setattr(sending, "TIMEOUT_S", 0.3)
    forget_the_pause()


def forget_the_pause() -> None:
    SiemPosition.objects.update(held_until="2000-01-01T00:00Z")


def send(times: int = 1) -> list[int]:
    taken = []
    for _ in range(times):
        settled = last_settled_event()
        assert settled is not None
        taken.append(siem.send_batch(settled))
        forget_the_pause()
    return taken


def all_ids() -> list[int]:
    return [*Event.objects.order_by("pk").values_list("pk", flat=True)]


@pytest.mark.parametrize("receiver", list(FORMS), indirect=True)
def test_each_form_is_what_its_receivers_read(receiver, approved):
    approved()

    assert send() == [len(all_ids())], receiver.refused

    assert receiver.ids() == all_ids()
    for event in receiver.taken:
        fields = (verify.text_of(name, event[name]) for name in verify.EVENT)
        assert event["hash"] == verify.sha256(verify.netstrings(fields))


def test_an_event_has_the_reason_and_nothing_of_the_content(receiver, a_payment, alice):
    row = a_payment(reference="order-of-nobody")
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="paid already")
    send()

    (rejected,) = [event for event in receiver.taken if event["kind"] == "rejected"]
    assert rejected["reason"] == "paid already"
    assert "order-of-nobody" not in str(receiver.taken)


@pytest.mark.parametrize("behaviour", [429, 500, 503, 302, 400, "hang", "cut", "late"])
def test_what_was_not_taken_comes_again_and_nothing_passes_it(
    receiver, a_payment, at_once, behaviour
):
    a_payment()
    receiver.behaviours.append(behaviour)

    assert send() == [0]
    a_payment()
    until(lambda: send() == [0] and receiver.ids()[-1:] == all_ids()[-1:])

    first_time = list(dict.fromkeys(receiver.ids()))
    assert first_time == all_ids()
    assert sending.behind_since() is None


def test_after_a_failure_batches_are_smaller_until_one_stands_alone(receiver, approved, at_once):
    approved()
    approved()
    receiver.behaviours += [413] * 9

    send(9)
    assert send() == [1]
    assert send() == [len(all_ids()) - 1]

    assert receiver.ids() == all_ids()


def test_a_refusal_is_answered_by_a_pause(receiver, a_payment, caplog):
    caplog.set_level("WARNING")
    a_payment()
    receiver.behaviours.append(503)
    settled = last_settled_event() or 0

    assert [siem.send_batch(settled), siem.send_batch(settled)] == [0, 0]

    assert receiver.ids() == []
    assert "the SIEM did not take the events after 0: it answered 503." in caplog.text
    assert TOKEN not in caplog.text


def test_it_goes_on_where_it_stood_when_the_receiver_was_away_for_long(
    receiver, a_payment, settings, monkeypatch
):
    monkeypatch.setattr(sending, "MOST_EVENTS", 4)
    settings.SIEM_URL = "http://127.0.0.1:1/nobody"
    for _ in range(5):
        a_payment()
        send()
    assert metrics.gathered()["assent_siem_behind_seconds"].values[()] > 0
    settings.SIEM_URL = receiver.url

    until(lambda: send() == [0])

    assert receiver.ids() == all_ids()
    assert max(receiver.batches) == 4
    assert metrics.gathered()["assent_siem_behind_seconds"].values == {(): 0.0}


def test_a_request_has_a_largest_size(receiver, a_payment, monkeypatch):
    monkeypatch.setattr(sending, "MOST_BYTES", 1)
    a_payment()

    until(lambda: send() == [0])

    assert set(receiver.batches) == {1}
    assert receiver.ids() == all_ids()


def test_an_event_that_commits_late_is_not_left_out(receiver, a_payment):
    """It has the smaller id, and is still being written when the next one is committed."""
    is_written, may_commit = threading.Event(), threading.Event()

    def write_late() -> None:
        from django.db.transaction import atomic

        with atomic():
            a_payment()
            is_written.set()
            may_commit.wait(10)
        connection.close()

    a_payment()
    writer = threading.Thread(target=write_late)
    writer.start()
    is_written.wait(10)
    while_it_writes = last_settled_event(sending.PATIENCE)
    may_commit.set()
    writer.join()

    assert while_it_writes is None
    until(lambda: send() == [0])
    assert receiver.ids() == all_ids()


def test_two_couriers_do_not_send_at_the_same_time(receiver, a_payment):
    a_payment()
    receiver.behaviours.append("late")
    settled = last_settled_event() or 0

    def send_apart() -> None:
        siem.send_batch(settled)
        connection.close()

    first = threading.Thread(target=send_apart)
    first.start()
    until(lambda: receiver.taken)

    assert siem.send_batch(settled) == 0
    receiver.end()
    first.join()
    assert receiver.ids() == all_ids()


def test_one_that_was_overtaken_does_not_move_the_position(receiver, a_payment):
    a_payment()
    send()
    before = SiemPosition.objects.get()

    sending._give_back(10**9, 0, sending.PATIENCE, before.epoch - 1)

    assert SiemPosition.objects.get().upto_event == before.upto_event == all_ids()[-1]


@pytest.mark.parametrize("receiver", ["otlp"], indirect=True)
def test_what_a_collector_rejects_for_good_is_a_critical_line(receiver, a_payment, caplog):
    a_payment()
    receiver.answer = b'{"partialSuccess": {"rejectedLogRecords": "2", "errorMessage": "old"}}'

    send()

    (line,) = [each for each in caplog.records if each.levelno == logging.CRITICAL]
    assert "rejected 2 of" in line.getMessage()


def test_content_that_was_erased_is_not_sent(receiver, a_payment, alice):
    row = a_payment()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="of Ada")
    forge("UPDATE ledger_event SET reason = '' WHERE subject = %s", row.pk)

    send()

    assert "of Ada" not in str(receiver.taken)
    assert receiver.ids() == all_ids()


def test_nothing_is_shown_as_behind_without_a_receiver(a_payment):
    a_payment()

    assert metrics.gathered()["assent_siem_behind_seconds"].values == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [("SIEM_URL", "ftp://siem"), ("SIEM_URL", "https://u:p@siem"), ("SIEM_FORM", "syslog")],
)
def test_settings_that_cannot_work_are_refused_at_the_start(receiver, settings, name, value):
    assert list(checks.terms()) == []
    setattr(settings, name, value)

    assert [each.id for each in checks.terms()] == ["assent.E018"]


@pytest.mark.parametrize(
    "answer",
    [
        "[" * 16_000,
        '{"partialSuccess":{"rejectedLogRecords":1e999}}',
        "[]",
        "{",
        '{"partialSuccess":3}',
    ],
)
def test_an_answer_of_an_otlp_receiver_that_is_none_stops_nothing(answer):
    assert sending._rejected_in(answer.encode()) == 0


def test_a_receiver_that_hangs_delays_nobody_else(
    receiver, a_payment, alice, helpdesk, settings, monkeypatch
):
    """The courier beside it delivers, and both leave when they are told to."""
    monkeypatch.setattr(sending, "LOOK_EVERY_S", 0.05)
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8", "::1/128"]
    hook, stop = Receiver(), threading.Event()
    Agent.objects.filter(pk=helpdesk.pk).update(webhook_url=hook.url, webhook_secret=SECRET)
    receiver.behaviours.append("late")
    row = a_payment()
    threads = [Siem(stop), Courier(stop)]
    for each in threads:
        each.start()
    try:
        until(lambda: receiver.taken)
        coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="no")
        until(lambda: hook.taken)
        assert not receiver.is_over.is_set()
    finally:
        stop.set()
        receiver.is_over.set()
        for each in threads:
            each.stop(time.monotonic() + 10)
        hook.shutdown()
        hook.server_close()


@pytest.mark.slow
def test_a_courier_that_is_killed_after_sending_sends_it_again(receiver, a_payment):
    a_payment()
    receiver.behaviours.append("late")
    environment: dict[str, Any] = {
        "ASSENT_SIEM_URL": receiver.url,
        "ASSENT_SIEM_TOKEN": TOKEN,
    }
    with running("courier", **environment) as product:
        until(lambda: receiver.taken, 60, lambda: product.log("courier"))
        product.kill("courier")
        first = receiver.ids()
        forget_the_pause()  # the half minute for which nobody else sends

        product.start("courier", **environment)
        until(lambda: len(receiver.ids()) >= 2 * len(first), 60, lambda: product.log("courier"))

    assert receiver.ids()[: 2 * len(first)] == first + first
    assert first == all_ids()[: len(first)]
