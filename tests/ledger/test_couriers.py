"""The courier: many deliveries at once, over kept connections, and none that waits for another."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from django.db.models.functions import Now

from approvals import metrics
from ledger.delivery import couriers
from ledger.delivery.couriers import Courier
from ledger.events import outbox
from ledger.events.outbox import HttpChannel
from ledger.foundation.http_out import dns, kept_connections
from ledger.foundation.http_out.safe_http import Post
from ledger.models import Delivery, DeliveryState, Event
from tests.ledger.webhook_receiver import SECRET
from tests.processes import running, until

pytestmark = pytest.mark.django_db(transaction=True)


class Receiver(ThreadingHTTPServer):
    """Keeps connections; freezes or drips where the path says so. Counts its connections."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self) -> None:
        super().__init__(("0.0.0.0", 0), _Door)  # all of 127.0.0.0/8
        self.taken: list[str] = []
        self.ids: list[str | None] = []
        self.connections = 0
        self.frozen = 0
        self.thaw = threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, path: str = "quick", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.server_port}/{path}"

    def process_request(self, *args: Any) -> None:
        self.connections += 1
        super().process_request(*args)

    def handle_error(self, *args: Any) -> None:
        """A client that hangs up is what we test."""


class _Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def log_message(self, *args: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if "frozen" in self.path and not self.server.thaw.is_set():
            self.server.frozen += 1
            self.server.thaw.wait(60)
        # Before the answer: whoever has it may look at once.
        self.server.taken.append(self.path)
        self.server.ids.append(self.headers["webhook-id"])
        self.send_response(200)
        self.send_header("Content-Length", "1000" if "drips" in self.path else "0")
        self.end_headers()
        if "drips" in self.path:
            for _ in range(600):
                self.wfile.write(b".")
                self.server.thaw.wait(0.1)


class Probe(HttpChannel):
    """Sends to the URL that is the delivery's recipient."""

    name = "probe"

    def wants(self, kind: str) -> bool:
        return False

    def address(self, event: Event) -> list[Any]:
        return []

    def request(self, delivery: Delivery) -> Post:
        return Post(delivery.recipient, b"{}", {"Content-Type": "application/json"})


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    receiver = Receiver()
    yield receiver
    receiver.thaw.set()
    receiver.shutdown()
    receiver.server_close()


@pytest.fixture
def event(a_payment: Any) -> Event:
    row = a_payment()
    Delivery.objects.update(state=DeliveryState.DONE)
    return Event.objects.get(subject=row.pk)


@pytest.fixture
def owe(event: Event, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Deliveries to these URLs, due in this order."""
    monkeypatch.setattr(outbox, "channels", {"probe": Probe()})

    def owe(*urls: str) -> list[int]:
        event.pk, event._state.adding = None, True
        event.save(force_insert=True)
        rows = [Delivery(event=event, channel="probe", recipient=url) for url in urls]
        return [delivery.pk for delivery in Delivery.objects.bulk_create(rows)]

    return owe


@pytest.fixture
def courier(receiver: Receiver) -> Iterator[Courier]:
    courier = Courier(threading.Event())
    yield courier
    receiver.thaw.set()
    courier.stop()


def is_done(*ids: int) -> bool:
    return Delivery.objects.filter(pk__in=ids, state="done").count() == len(ids)


@pytest.mark.slow
def test_a_frozen_receiver_delays_none_of_two_hundred_others(receiver, owe, courier):
    owe(*(receiver.url(f"frozen/{n}", "127.0.0.2") for n in range(300)))
    quick = owe(*(receiver.url(f"quick/{n}") for n in range(200)))
    owe(*(receiver.url(f"frozen/more/{n}", "127.0.0.2") for n in range(50)))

    courier.start()
    until(lambda: is_done(*quick), seconds=40, what="all quick receivers have theirs")

    assert receiver.frozen >= 1
    assert len(receiver.taken) == 200


def test_receivers_that_never_answered_leave_half_of_the_places(receiver, owe, courier):
    """Each at an address of its own, as somebody would name them who wants all places."""
    courier.start()
    known = owe(receiver.url())
    until(lambda: is_done(*known), what="this one has answered")
    owe(*(receiver.url("frozen", f"127.0.1.{n}") for n in range(1, 201)))
    until(lambda: receiver.frozen >= couriers.MOST_TO_UNPROVEN, seconds=40, what="half is taken")

    quick = owe(*(receiver.url(f"quick/{n}") for n in range(50)))

    until(lambda: is_done(*quick), seconds=20, what="the quick ones have theirs")


def test_a_receiver_has_one_place_until_it_answers_and_again_after_a_silence():
    posts = couriers._Posts()

    def entered(number: int, origin: str = "") -> int:
        names = [origin or f"http://{n}.example" for n in range(number)]
        return sum(posts.enter(("probe", f"{name}/{n}"), name) for n, name in enumerate(names))

    def leave(number: int, answered: bool) -> None:
        posts.leave(("probe", f"http://a.example/{number}"), "http://a.example", answered=answered)

    assert entered(3, "http://a.example") == 1
    leave(0, answered=True)
    assert entered(3, "http://a.example") == 3
    leave(0, answered=False)
    assert entered(1, "http://a.example") == 0
    assert entered(200) == couriers.MOST_TO_UNPROVEN - 2, "two are under way to the silent one"
    leave(1, answered=True)
    assert entered(1, "http://a.example") == 1
    assert ("probe", "http://a.example/0") not in posts.full()
    assert ("probe", "http://0.example/0") in posts.full()


def test_a_receiver_that_drips_its_answer_has_it_cut_off_and_counts_as_told(
    receiver, owe, courier, monkeypatch
):
    monkeypatch.setattr(kept_connections, "IGNORED_S", 0.2)
    (dripping,) = owe(receiver.url("drips"))

    courier.start()

    until(lambda: is_done(dripping), seconds=5, what="its status is what counts")
    again = owe(receiver.url("drips"))
    until(lambda: receiver.connections == 2, what="the cut connection is not used again")
    until(lambda: is_done(*again))


def test_a_receiver_sees_one_connection_for_one_delivery_after_another(receiver, owe, courier):
    courier.start()
    for _ in range(5):
        ids = owe(receiver.url())
        couriers.ring()
        until(lambda: is_done(*ids), what="delivered")  # noqa: B023

    assert (len(receiver.taken), receiver.connections) == (5, 1)


def test_two_receivers_at_one_address_share_no_connection(receiver, owe, courier):
    courier.start()
    for path in ("one", "other", "one", "other"):
        ids = owe(receiver.url(path))
        couriers.ring()
        until(lambda: is_done(*ids), what="delivered")  # noqa: B023

    assert (len(receiver.taken), receiver.connections) == (4, 2)


def test_a_receiver_that_closed_the_kept_connection_gets_the_next_one_at_once(
    receiver, owe, courier, monkeypatch
):
    monkeypatch.setattr(_Door, "timeout", 0.2)
    courier.start()
    for _ in range(3):
        ids = owe(receiver.url())
        couriers.ring()
        until(lambda: is_done(*ids), seconds=5, what="delivered")  # noqa: B023
        time.sleep(0.5)  # the receiver's patience, which is what is tested

    assert not Delivery.objects.filter(failures__gte=1).exists()


def looking_up(monkeypatch: pytest.MonkeyPatch, look_up: Callable[[str], str]) -> None:
    real = socket.getaddrinfo

    def answer(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if not str(host).endswith(".example"):
            return real(host, port, *args, **kwargs)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (look_up(str(host)), port))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


def test_a_name_that_leads_elsewhere_since_the_last_delivery_is_checked_again(
    receiver, owe, courier, monkeypatch
):
    monkeypatch.setattr(kept_connections, "CHECKED_FOR_S", 0.0)
    answers = iter(["127.0.0.1", "10.9.9.9"])
    looking_up(monkeypatch, lambda host: next(answers))
    url = receiver.url(host="hook.example")
    courier.start()
    first = owe(url)
    until(lambda: is_done(*first), what="delivered while the name was harmless")

    (second,) = owe(url)
    couriers.ring()
    until(lambda: Delivery.objects.get(pk=second).failures == 1, what="refused")

    assert "10.9.9.9, which is not on the public internet" in Delivery.objects.get(pk=second).error
    assert len(receiver.taken) == 1


def test_names_that_nobody_answers_for_delay_no_name_that_was_found_before(
    receiver, owe, courier, monkeypatch
):
    silence = threading.Event()
    looking_up(monkeypatch, lambda host: "127.0.0.1" if host[0] == "f" else _hang(silence))
    monkeypatch.setattr(kept_connections, "CHECKED_FOR_S", 0.0)
    courier.start()
    known = owe(receiver.url(host="found.example"))
    until(lambda: is_done(*known), what="its name was found")
    hanging = 2 * dns.THREADS
    owe(*(receiver.url(host=f"silent-{n}.example") for n in range(hanging)))
    couriers.ring()

    ids = owe(receiver.url(host="found.example"))
    couriers.ring()

    until(lambda: is_done(*ids), seconds=3, what="delivered while the others hang")
    assert not Delivery.objects.filter(failures__gte=1).exists(), "none has been given up by then"
    silence.set()


def test_a_name_that_hangs_now_waits_with_the_new_ones_although_it_was_found_before(monkeypatch):
    monkeypatch.setattr(dns, "LOOKUP_S", 0.2)
    names, target = dns._Lookups(), httpx.URL("http://turned.example/")
    silence = threading.Event()
    asyncio.run(names.in_time(lambda _: "", target))
    assert "turned.example" in names._known_hosts

    with pytest.raises(dns.LookupTookTooLong):
        asyncio.run(names.in_time(lambda _: silence.wait(30), target))

    assert "turned.example" not in names._known_hosts
    silence.set()
    until(lambda: not any("known" in t.name for t in threading.enumerate()), what="it ended")
    assert "turned.example" not in names._known_hosts, "it was found too late"


def _hang(silence: threading.Event) -> str:
    silence.wait(30)
    raise socket.gaierror("nobody answered")


@pytest.mark.slow
def test_a_courier_killed_in_the_middle_of_a_batch_delivers_every_message_again(
    receiver, helpdesk, approved
):
    helpdesk.webhook_url, helpdesk.webhook_secret = receiver.url("frozen"), SECRET
    helpdesk.save()
    for _ in range(12):
        approved()
    environment = {"ASSENT_WEBHOOK_NETWORKS": "127.0.0.0/8"}
    with running() as product:
        product.start("courier", **environment)
        until(lambda: receiver.frozen >= 1, seconds=60, what="one is in flight")
        product.kill("courier")
        receiver.thaw.set()
        told = Delivery.objects.filter(channel="webhook").exclude(recipient="")
        assert told.filter(state="waiting").count() >= 12
        Delivery.objects.filter(state="waiting").update(next_attempt_at=Now())

        product.start("courier", **environment)
        waiting = Delivery.objects.filter(state="waiting")
        until(lambda: not waiting.exists(), seconds=60, what="all are told")

    assert set(receiver.ids) == {f"msg_{delivery.pk}" for delivery in told}


def test_operators_see_how_much_is_due_per_channel_and_since_when(owe, receiver, as_olga):
    ids = owe(receiver.url("one"), receiver.url("two"))
    Delivery.objects.filter(pk__in=ids).update(next_attempt_at=Now() - timedelta(seconds=90))

    gathered = metrics.gathered()

    assert gathered["assent_delivery_backlog"].values == {(("channel", "probe"),): 2}
    ((_, late),) = gathered["assent_delivery_late_seconds"].values.items()
    assert 90 <= late < 150
    assert "probe: the oldest is" in as_olga.get("/ops/").content.decode()


class BrokenText(Exception):
    def __str__(self) -> str:
        raise UnicodeError("no text")


@pytest.mark.slow
def test_a_failure_that_cannot_be_recorded_costs_no_other_result(owe, receiver, courier):
    """It would end the round, and what is in flight would be delivered again."""

    class Poison(Probe):
        def request(self, delivery: Delivery) -> Post:
            raise BrokenText

    outbox.channels["poison"] = Poison()
    (poisoned,) = owe(receiver.url("poison"))
    Delivery.objects.filter(pk=poisoned).update(channel="poison")
    quick = owe(*(receiver.url(f"quick/{n}") for n in range(5)))

    courier.start()
    until(lambda: is_done(*quick), seconds=10, what="the others are recorded")

    assert len(receiver.taken) == 5
    assert not is_done(poisoned)
