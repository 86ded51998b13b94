"""Webhooks out, to a real receiver on loopback that checks the signature; and where none may go."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.db.models.functions import Now

from ledger import coordinator, deliveries, webhooks
from ledger.models import Delivery
from ledger.webhooks import AddressRefused

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


class Receiver(ThreadingHTTPServer):
    """Refuses what a careful receiver would refuse."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Door)
        self.taken, self.statuses, self.redirect_to = [], [], ""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://localhost:{self.server_port}/hook"


class Door(BaseHTTPRequestHandler):
    def log_message(self, *args):
        """Quiet."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.statuses.pop(0) if self.server.statuses else self._judge(body)
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", self.server.redirect_to)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if status == 204:
            self.server.taken.append((self.headers["webhook-id"], json.loads(body)))

    def _judge(self, body):
        at = self.headers["webhook-timestamp"]
        signed = f"{self.headers['webhook-id']}.{at}.".encode() + body
        mac = base64.b64encode(hmac.new(b"k" * 32, signed, hashlib.sha256).digest()).decode()
        is_fresh = abs(time.time() - int(at)) < 300
        return 204 if is_fresh and self.headers["webhook-signature"] == f"v1,{mac}" else 401


@pytest.fixture
def receiver():
    server = Receiver()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def listening(helpdesk, receiver, settings):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8", "::1/128"]
    helpdesk.webhook_url, helpdesk.webhook_secret = receiver.url, SECRET
    helpdesk.save()
    return receiver


def deliver_all() -> None:
    while due := deliveries.overdue():
        for delivery_id in due:
            deliveries.deliver(delivery_id)


def test_the_agent_is_told_of_a_rejection_and_its_reason(listening, a_payment, alice):
    row = a_payment()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="Too much.")

    deliver_all()

    ((_, news),) = listening.taken
    assert news["type"] == "transaction.rolling_back"
    assert news["data"]["ending_reason"] == "Too much."


def test_a_receiver_that_fails_is_told_again_later_with_the_same_id(listening, a_payment, alice):
    listening.statuses = [500]
    row = a_payment()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    deliver_all()
    waiting = Delivery.objects.get(state="waiting")
    assert (waiting.attempts, waiting.error) == (1, "NotAccepted: The receiver answered 500.")

    Delivery.objects.filter(pk=waiting.pk).update(next_attempt_at=Now())
    deliver_all()

    assert [message_id for message_id, _ in listening.taken] == [f"msg_{waiting.pk}"]
    assert not Delivery.objects.exclude(state="done").exists()


def test_an_event_is_addressed_and_sent_once_however_often_the_job_runs(
    listening, a_payment, alice
):
    row = a_payment()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    for delivery_id in list(Delivery.objects.values_list("pk", flat=True)) * 3:
        deliveries.deliver(delivery_id)
    deliver_all()
    for delivery_id in Delivery.objects.values_list("pk", flat=True):
        deliveries.deliver(delivery_id)

    assert len(listening.taken) == 1


def test_without_a_webhook_nothing_is_owed(a_payment, alice):
    row = a_payment()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    deliver_all()

    assert Delivery.objects.get().state == "done"


def test_a_redirect_is_not_followed(listening, a_payment, alice):
    listening.statuses, listening.redirect_to = [302], "http://169.254.169.254/latest/meta-data"
    row = a_payment()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    deliver_all()

    assert "answered 302" in Delivery.objects.get(state="waiting").error


FORBIDDEN = [
    "http://127.0.0.1/",
    "http://localhost/",
    "http://169.254.169.254/latest/meta-data",
    "http://10.0.0.1/",
    "http://192.168.1.1/",
    "http://172.16.0.1/",
    "http://100.64.0.1/",
    "http://0.0.0.0/",
    "http://224.0.0.1/",
    "http://[::1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[fe80::1]/",
    "http://[fd00::1]/",
    "http://2130706433/",
    "http://user:secret@example.com/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "http:///nowhere",
]


@pytest.mark.parametrize("url", FORBIDDEN)
def test_a_webhook_never_reaches_a_private_address(url, settings):
    settings.WEBHOOK_NETWORKS = []

    with pytest.raises(AddressRefused):
        webhooks.post(url, b"{}", {})


def test_a_silent_receiver_costs_a_timeout_and_nothing_else(
    helpdesk, settings, a_payment, alice, monkeypatch
):
    import socket

    monkeypatch.setattr(webhooks, "TIMEOUT_S", 0.3)
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        helpdesk.webhook_url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        helpdesk.webhook_secret = SECRET
        helpdesk.save()
        row = a_payment()
        row = coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

        deliver_all()

    assert row.state == "approved"
    assert "Timeout" in Delivery.objects.get(state="waiting").error
