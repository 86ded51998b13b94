"""The outbox: what is owed is sent, later if the outside asks, and never lost for good."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from django.utils import timezone

from ledger.events import outbox
from ledger.events.outbox import NotNow, Owed
from ledger.models import Delivery, DeliveryState

pytestmark = pytest.mark.django_db
LATER = timedelta(hours=1)


class Pigeons:
    """A channel that is told how it goes."""

    name = "pigeons"

    def __init__(self):
        self.owed, self.sent, self.trouble = [Owed("loft")], [], None

    def wants(self, kind):
        return kind == "prepared"

    def address(self, event):
        return self.owed

    def send(self, delivery):
        if self.trouble:
            raise self.trouble
        self.sent.append(delivery.recipient)


@pytest.fixture
def pigeons(monkeypatch):
    channel = Pigeons()
    monkeypatch.setattr(outbox, "channels", {"pigeons": channel})
    return channel


def deliver_all():
    for delivery_id in outbox.overdue():
        for born in outbox.deliver(delivery_id):
            outbox.deliver(born)


def test_what_is_addressed_is_due_at_once_or_from_its_time_on(pigeons, a_payment):
    then = timezone.now() + LATER
    pigeons.owed = [Owed("loft"), Owed("tower", then)]
    a_payment()

    deliver_all()

    assert pigeons.sent == ["loft"]
    assert Delivery.objects.get(recipient="tower").next_attempt_at == then
    Delivery.objects.update(next_attempt_at=Now())
    deliver_all()
    assert pigeons.sent == ["loft", "tower"]


def test_patience_is_no_failure_however_often_it_is_asked_for(pigeons, a_payment):
    pigeons.trouble = NotNow(LATER, "It rains.")
    a_payment()
    deliver_all()
    owed = Delivery.objects.get(recipient="loft")
    assert (owed.state, owed.failures, owed.error) == ("waiting", 0, "It rains.")
    assert owed.next_attempt_at > timezone.now() + LATER / 2

    for _ in range(outbox.MOST_ATTEMPTS + 5):
        Delivery.objects.update(next_attempt_at=Now())
        deliver_all()
    pigeons.trouble = None
    Delivery.objects.update(next_attempt_at=Now())
    deliver_all()

    assert pigeons.sent == ["loft"]


def test_failures_are_counted_and_end_in_giving_up_until_somebody_asks_again(pigeons, a_payment):
    pigeons.trouble = RuntimeError("A hawk.")
    a_payment()
    for _ in range(outbox.MOST_ATTEMPTS + 1):
        deliver_all()
        Delivery.objects.filter(state="waiting").update(next_attempt_at=Now())
    given_up = Delivery.objects.get(recipient="loft")
    assert (given_up.state, given_up.failures) == (DeliveryState.GIVEN_UP, outbox.MOST_ATTEMPTS)
    assert given_up.error == "RuntimeError: A hawk."

    pigeons.trouble = None
    outbox.retry(given_up.pk)
    deliver_all()

    assert pigeons.sent == ["loft"]


def test_a_late_worker_has_no_say_any_more(pigeons, a_payment):
    """Its delivery was claimed anew since; asking for patience gives no number back."""
    a_payment()
    deliver_all()
    Delivery.objects.filter(recipient="loft").update(state="waiting", next_attempt_at=Now())
    late = outbox._claim(Delivery.objects.get(recipient="loft").pk)
    Delivery.objects.update(next_attempt_at=Now())
    pigeons.trouble = NotNow(LATER, "It rains.")
    deliver_all()

    outbox._fail(late, RuntimeError("too late"))

    assert Delivery.objects.get(recipient="loft").error == "It rains."


@pytest.mark.parametrize(
    ("options", "queues", "beside"),
    [
        (
            {},
            [
                *("commit", "react", "roll_back", "compensate"),
                *("respond", "mirror", "read_published"),
            ],
            {"deliver", "begin"},
        ),
        ({"only": ["begin"]}, [], {"begin"}),
        (
            {"but": ["respond", "deliver", "mirror", "read_published", "begin"]},
            ["commit", "react", "roll_back", "compensate"],
            set(),
        ),
    ],
)
def test_a_worker_takes_the_queues_that_it_is_told_the_urgent_ones_first(
    options, queues, beside, monkeypatch
):
    from ledger.management.commands import work

    started: list[list[str]] = []
    at_once = threading.Event()
    at_once.set()
    monkeypatch.setattr(work.stopping, "on_signals", lambda: at_once)
    # What changes this process for good.
    monkeypatch.setattr(work.sessions, "bound", lambda *_, **__: None)
    monkeypatch.setattr(work.doorbell, "ring_in_background", lambda: None)
    monkeypatch.setattr(work.Courier, "start", lambda courier: started.append(["deliver"]))
    monkeypatch.setattr(work.Courier, "stop", lambda courier, leave_at: None)
    monkeypatch.setattr(work.QueueThreads, "start", lambda threads: started.append(threads.names))
    monkeypatch.setattr(work.QueueThreads, "stop", lambda threads, leave_at: None)

    call_command("work", **options)

    assert sorted(started) == sorted([*([queues] if queues else []), *([each] for each in beside)])


def test_a_worker_refuses_a_queue_that_does_not_exist():
    with pytest.raises(CommandError, match="invalid choice"):
        call_command("work", "--only", "dishes")
