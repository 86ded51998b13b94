"""HTTP to addresses that others gave us: where none may lead, and how long and large it may get."""

from __future__ import annotations

import gzip
import ipaddress
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ledger.foundation.http_out import safe_http
from ledger.foundation.http_out.safe_http import AddressRefused, AnswerRefused, NotAccepted

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
        safe_http.deliver(url, b"{}", {})


def test_a_receiver_that_drips_is_cut_off_as_well(settings, monkeypatch):
    """Each read succeeds, so that no timeout of a single read would ever end it."""
    monkeypatch.setattr(safe_http, "DELIVERY_TIMEOUT_S", 0.5)
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
            safe_http.deliver(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {})

    assert time.monotonic() - begun < 20 * safe_http.DELIVERY_TIMEOUT_S  # of a thousand times it


def test_the_body_of_the_answer_is_not_read(settings):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    sent = []

    def flood(listener):
        connection, _ = listener.accept()
        with connection:
            read_request(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            try:
                while True:
                    sent.append(connection.send(b"x" * 65536))
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        flooding = threading.Thread(target=flood, args=[listener], daemon=True)
        flooding.start()
        safe_http.deliver(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {})
        flooding.join(5)

    assert sum(sent) < 50_000_000  # what fits into the buffers of the two sockets


def read_request(connection):
    """All of it: closing a connection with unread bytes resets it, and the answer may be lost."""
    received = b""
    while not received.endswith(b"\r\n\r\n{}"):
        chunk = connection.recv(65536)
        assert chunk, "the client hung up in the middle of its request"
        received += chunk


@contextmanager
def answering(*, headers: bytes, body: bytes):
    """The URL of a server on loopback that gives this answer once."""

    def answer(listener):
        connection, _ = listener.accept()
        with connection, suppress(OSError):  # hanging up on us is what we test
            read_request(connection)
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + headers + b"\r\n" + body
            )

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=[listener], daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


def post(url, **options):
    return safe_http.post(url, b"{}", {}, timeout_s=5, largest_answer=1000, **options)


def test_an_answer_is_read_up_to_its_largest_size_and_not_a_byte_further(settings):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]

    with answering(headers=b"", body=b"x" * 1000) as url:
        assert post(url).content == b"x" * 1000
    with (
        answering(headers=b"", body=b"x" * 1001) as url,
        pytest.raises(AnswerRefused, match="more than 1000 bytes"),
    ):
        post(url)


def test_a_compressed_answer_is_refused_before_it_is_unpacked(settings):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    bomb = gzip.compress(b"x" * 100_000)
    assert len(bomb) < 1000

    with (
        answering(headers=b"Content-Encoding: gzip\r\n", body=bomb) as url,
        pytest.raises(AnswerRefused, match="compressed"),
    ):
        post(url)


def test_only_an_address_that_the_operator_configured_may_be_in_any_network(settings):
    settings.WEBHOOK_NETWORKS = []

    with answering(headers=b"", body=b"ok") as url:
        with pytest.raises(AddressRefused):
            post(url)
        assert post(url, any_network=True).text == "ok"


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
        safe_http.deliver("https://hook.example/", b"{}", {})


def test_a_name_is_resolved_once_and_the_checked_address_is_used(receiver, monkeypatch, settings):
    """DNS that answers otherwise the second time (rebinding) is not asked a second time."""
    settings.WEBHOOK_NETWORKS = ["127.0.0.1/32"]
    asked = resolving(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
    url = f"http://hook.example:{receiver.server_port}/"
    receiver.statuses = [204]

    safe_http.deliver(url, b"{}", {})
    assert asked == ["hook.example"]
    assert receiver.hosts == [f"hook.example:{receiver.server_port}"]


def test_the_next_address_is_tried_when_the_first_takes_no_connection(
    receiver, monkeypatch, settings
):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    resolving(monkeypatch, ["127.0.0.9", "127.0.0.1"])
    receiver.statuses = [204]

    safe_http.deliver(f"http://hook.example:{receiver.server_port}/", b"{}", {})

    assert receiver.hosts == [f"hook.example:{receiver.server_port}"]


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
    monkeypatch.setattr(safe_http, "trust", lambda: ours)
    resolving(monkeypatch, ["127.0.0.1"])
    return receiver


def test_the_certificate_is_checked_against_the_name_not_the_address(over_tls):
    over_tls.statuses = [204]

    safe_http.deliver(f"https://hook.example:{over_tls.server_port}/", b"{}", {})
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE"):
        safe_http.deliver(f"https://other.example:{over_tls.server_port}/", b"{}", {})


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("93.184.216.34", True),
        ("2606:4700::1111", True),
        ("10.0.0.5", True),
        ("10.0.1.5", False),
        ("fd00:1::5", True),
        ("fd00:2::5", False),
        ("::ffff:10.0.0.5", True),
        ("64:ff9b::a00:5", True),
        ("192.0.2.1", False),
        ("198.18.0.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("2001:db8::1", False),
        ("64:ff9b:1::a00:5", False),
        ("168.63.129.16", False),
        ("192.0.0.8", False),
        ("192.0.0.9", False),
        ("3fff::1", False),
        ("192.88.99.1", False),
        ("::ffff:168.63.129.16", False),
        ("64:ff9b::a83f:8110", False),
    ],
)
def test_the_operators_networks_are_the_only_exception(address, allowed, settings):
    settings.WEBHOOK_NETWORKS = ["10.0.0.0/24", "fd00:1::/32"]

    assert safe_http.is_allowed(ipaddress.ip_address(address)) is allowed


@pytest.mark.parametrize(
    ("address", "port", "allowed"),
    [
        ("93.184.216.34", 443, True),
        ("93.184.216.34", 8443, True),
        ("93.184.216.34", 25, False),
        ("93.184.216.34", 6379, False),
        ("10.0.0.5", 6379, True),
    ],
)
def test_only_ports_that_webhooks_have_are_called_outside_the_operators_networks(
    address, port, allowed, settings
):
    settings.WEBHOOK_NETWORKS = ["10.0.0.0/24"]

    if allowed:
        assert safe_http.checked_addresses(httpx.URL(f"http://{address}:{port}/")) == [
            ipaddress.ip_address(address)
        ]
    else:
        with pytest.raises(AddressRefused, match="ASSENT_WEBHOOK_PORTS"):
            safe_http.checked_addresses(httpx.URL(f"http://{address}:{port}/"))


@pytest.mark.parametrize(
    "url",
    ["http://[", "http://]", "https://example.com:0/", "https://example.com/ x", "http://[::1"],
)
def test_an_address_that_nothing_can_be_sent_to_is_refused_when_it_is_entered(url):
    with pytest.raises(AddressRefused):
        safe_http.check_form(url)
