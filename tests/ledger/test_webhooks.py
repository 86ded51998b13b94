"""Webhooks out, to a real receiver on loopback that checks the signature; and where none may go."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.db.models.functions import Now

from ledger.events import outbox
from ledger.models import Delivery
from ledger.transactions import coordinator
from ledger.webhooks import channel
from ledger.webhooks.channel import AddressRefused, NotAccepted

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


class Receiver(ThreadingHTTPServer):
    """Refuses what a careful receiver would refuse."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Door)
        self.taken, self.hosts, self.statuses, self.redirect_to = [], [], [], ""
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
        if status == 204:  # noted before the answer, on which the test looks
            self.server.hosts.append(self.headers["Host"])
            self.server.taken.append((self.headers["webhook-id"], json.loads(body)))
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", self.server.redirect_to)
        self.send_header("Content-Length", "0")
        self.end_headers()

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
    while due := outbox.overdue():
        for delivery_id in due:
            outbox.deliver(delivery_id)


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
        outbox.deliver(delivery_id)
    deliver_all()
    for delivery_id in Delivery.objects.values_list("pk", flat=True):
        outbox.deliver(delivery_id)

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
    "http://[::10.0.0.1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://:secret@example.com/",
    "http://example.com:99999/",
    "http://no-such-host.invalid/",
    f"http://{'x' * 70}.example/",
    "https://exa\x00mple.com/",
]


@pytest.mark.parametrize("url", FORBIDDEN)
def test_a_webhook_never_reaches_a_private_address(url, settings):
    settings.WEBHOOK_NETWORKS = []

    with pytest.raises(AddressRefused):
        channel.post(url, b"{}", {})


def test_a_silent_receiver_costs_a_timeout_and_nothing_else(
    helpdesk, settings, a_payment, alice, monkeypatch
):
    monkeypatch.setattr(channel, "TIMEOUT_S", 0.3)
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        helpdesk.webhook_url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        helpdesk.webhook_secret = SECRET
        helpdesk.save()
        row = a_payment()
        row = coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

        deliver_all()

    assert row.state == "approved"
    assert "did not answer within 0.3 s" in Delivery.objects.get(state="waiting").error


def test_a_receiver_that_drips_is_cut_off_as_well(settings, monkeypatch):
    """Each read succeeds, so that no timeout of a single read would ever end it."""
    monkeypatch.setattr(channel, "TIMEOUT_S", 0.5)
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]

    def drip(listener):
        connection, _ = listener.accept()
        with connection:
            for byte in b"HTTP/1.1 204 No Content\r\nX-Slow: " + b"x" * 10_000:
                try:
                    connection.sendall(bytes([byte]))
                except OSError:
                    return
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=[listener], daemon=True).start()
        begun = time.monotonic()
        with pytest.raises(NotAccepted, match="within"):
            channel.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {})

    assert time.monotonic() - begun < 3


def test_the_body_of_the_answer_is_not_read(settings):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    sent = []

    def flood(listener):
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            try:
                while True:
                    sent.append(connection.send(b"x" * 65536))
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        flooding = threading.Thread(target=flood, args=[listener], daemon=True)
        flooding.start()
        status = channel.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {})
        flooding.join(5)

    assert status == 200
    assert sum(sent) < 50_000_000  # what fits into the buffers of the two sockets


def resolving(monkeypatch, *answers):
    """Each resolution of a name gives the next answer. The list that is returned counts them."""
    asked, real = [], socket.getaddrinfo

    def look_up(host, port, *args, **kwargs):
        if not str(host).endswith(".example"):
            return real(host, port, *args, **kwargs)
        asked.append(host)
        addresses = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, port)) for found in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


@pytest.mark.parametrize(
    "addresses", [["10.1.2.3"], ["93.184.216.34", "10.1.2.3"], ["93.184.216.34", "127.0.0.1"]]
)
def test_every_address_of_a_name_has_to_be_public(addresses, monkeypatch, settings):
    settings.WEBHOOK_NETWORKS = []
    resolving(monkeypatch, addresses)

    with pytest.raises(AddressRefused, match="not on the public internet"):
        channel.post("https://hook.example/", b"{}", {})


def test_a_name_is_resolved_once_and_the_checked_address_is_used(receiver, monkeypatch, settings):
    """DNS that answers otherwise the second time (rebinding) is not asked a second time."""
    settings.WEBHOOK_NETWORKS = ["127.0.0.1/32"]
    asked = resolving(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
    url = f"http://hook.example:{receiver.server_port}/"
    receiver.statuses = [204]

    assert channel.post(url, b"{}", {}) == 204
    assert asked == ["hook.example"]
    assert receiver.hosts == [f"hook.example:{receiver.server_port}"]


def test_the_next_address_is_tried_when_the_first_takes_no_connection(
    receiver, monkeypatch, settings
):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    resolving(monkeypatch, ["127.0.0.9", "127.0.0.1"])
    receiver.statuses = [204]

    assert channel.post(f"http://hook.example:{receiver.server_port}/", b"{}", {}) == 204


def test_without_a_secret_nothing_is_sent(listening, helpdesk, a_payment, alice):
    helpdesk.webhook_secret = ""
    helpdesk.save()
    row = a_payment()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    deliver_all()

    assert "SecretMissing" in Delivery.objects.get(state="waiting").error
    assert listening.taken == []


def certificate_for(name, folder):
    """A self-signed one, as a file with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.fixture
def over_tls(receiver, tmp_path, monkeypatch, settings):
    """The receiver with a certificate for ``hook.example`` that we trust."""
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    path = certificate_for("hook.example", tmp_path)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(path)
    receiver.socket = theirs.wrap_socket(receiver.socket, server_side=True)
    receiver.handle_error = lambda *args: None  # a client that hangs up is what we test
    ours = ssl.create_default_context(cafile=str(path))
    monkeypatch.setattr(channel, "trust", lambda: ours)
    resolving(monkeypatch, ["127.0.0.1"])
    return receiver


def test_the_certificate_is_checked_against_the_name_not_the_address(over_tls):
    over_tls.statuses = [204]

    assert channel.post(f"https://hook.example:{over_tls.server_port}/", b"{}", {}) == 204
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE"):
        channel.post(f"https://other.example:{over_tls.server_port}/", b"{}", {})


@pytest.mark.parametrize(
    ("address", "allowed"),
    [("93.184.216.34", True), ("2606:4700::1111", True), ("10.0.0.5", True), ("10.0.1.5", False),
     ("fd00:1::5", True), ("fd00:2::5", False), ("::ffff:10.0.0.5", True),
     ("64:ff9b::a00:5", True), ("192.0.2.1", False), ("198.18.0.1", False), ("240.0.0.1", False),
     ("255.255.255.255", False), ("2001:db8::1", False), ("64:ff9b:1::a00:5", False),
     ("168.63.129.16", False), ("192.0.0.8", False), ("192.0.0.9", False), ("3fff::1", False),
     ("192.88.99.1", False), ("::ffff:168.63.129.16", False), ("64:ff9b::a83f:8110", False)],
)  # fmt: skip
def test_the_operators_networks_are_the_only_exception(address, allowed, settings):
    settings.WEBHOOK_NETWORKS = ["10.0.0.0/24", "fd00:1::/32"]

    assert channel.is_allowed(ipaddress.ip_address(address)) is allowed


@pytest.mark.parametrize(
    ("address", "port", "allowed"),
    [("93.184.216.34", 443, True), ("93.184.216.34", 8443, True), ("93.184.216.34", 25, False),
     ("93.184.216.34", 6379, False), ("10.0.0.5", 6379, True)],
)  # fmt: skip
def test_only_ports_that_webhooks_have_are_called_outside_the_operators_networks(
    address, port, allowed, settings
):
    settings.WEBHOOK_NETWORKS = ["10.0.0.0/24"]

    if allowed:
        assert channel.checked_addresses(address, port) == [ipaddress.ip_address(address)]
    else:
        with pytest.raises(channel.AddressRefused, match="ASSENT_WEBHOOK_PORTS"):
            channel.checked_addresses(address, port)
