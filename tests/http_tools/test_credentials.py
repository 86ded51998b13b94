"""What services want to see besides our signature: kept encrypted, for their hosts only."""

from __future__ import annotations

import io
import ssl
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import certifi
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.core.management import CommandError, call_command
from django.db import connection

from approvals.models import Role
from ledger.events.change_kinds import ChangeKind
from ledger.foundation.http_out import safe_http
from ledger.foundation.http_out.safe_http import CredentialUnusable
from ledger.models import Credential, Event
from ledger.principals import Surface
from ledger.tools import credentials, manifests
from ledger.tools.credentials import CredentialRefused
from tests.conftest import propose
from tests.http_tools.conftest import OPERATOR, manifest
from tests.http_tools.test_tool_admin import operator

pytestmark = pytest.mark.django_db
BY = {"by": OPERATOR, "via": Surface.COMMAND}
SECRET = "Bearer very-secret-93"
ADDRESS = "https://payments.example/assent"


def name_of(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


class Authority:
    """Issues certificates for services and clients."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._signed(name_of("authority"), self.key.public_key(), is_ca=True)

    def _signed(self, subject, public_key, *, days=1, is_ca=False):
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(
            issuer_name=name_of("authority"),
            subject_name=subject,
            public_key=public_key,
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(days=9),
            not_valid_after=now + timedelta(days=days),
        ).add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
        return builder.add_extension(names, critical=False).sign(self.key, hashes.SHA256())

    def pem(self, name="localhost", *, days=1, key=None):
        made = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(name_of(name), made.public_key(), days=days)
        return pem_of(certificate) + key_pem(key or made)


def pem_of(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def key_pem(key, encryption=None):
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        encryption or serialization.NoEncryption(),
    ).decode()


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def header(acme):
    def keep(hosts=("payments.example",), name="billing", value=SECRET, header="Authorization"):
        credentials.set_header(acme, name, hosts=hosts, header=header, value=value, **BY)

    return keep


def test_a_header_goes_to_its_hosts_only(header):
    header(["payments.example", "Other.example:8443"])

    shown = credentials.for_address("acme", "billing", ADDRESS)
    assert dict(shown.headers) == {"Authorization": SECRET}
    assert SECRET not in repr(shown)
    assert SECRET not in repr(shown.headers)
    assert credentials.for_address("acme", "billing", "https://payments.example:443/x").headers
    assert credentials.for_address("acme", "billing", "https://other.example:8443/x").headers


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/assent",
        "https://payments.example.evil.example/assent",
        "https://payments.example:8443/assent",
        "https://other.example/assent",
        "http://payments.example/assent",
        "http://payments.example:443/assent",
    ],
)
def test_a_manifest_cannot_send_it_elsewhere(header, address):
    header(["payments.example", "other.example:8443"])

    with pytest.raises(CredentialUnusable) as refusal:
        credentials.for_address("acme", "billing", address)

    assert SECRET not in str(refusal.value)


def test_another_tenant_does_not_get_it(header, globex):
    header()

    with pytest.raises(CredentialUnusable, match="globex has no credential named billing"):
        credentials.for_address("globex", "billing", ADDRESS)


def test_it_is_stored_encrypted_and_the_log_of_changes_does_not_quote_it(header):
    header()
    header(value="Bearer another-secret-94")

    with connection.cursor() as cursor:
        cursor.execute("SELECT secret FROM ledger_credential")
        assert cursor.fetchone()[0].startswith("enc:")
    events = Event.objects.filter(kind__startswith="credential_").order_by("pk")
    assert [event.kind for event in events] == [
        ChangeKind.CREDENTIAL_ADDED,
        ChangeKind.CREDENTIAL_CHANGED,
    ]
    assert all("secret-9" not in event.details for event in events)
    assert '"hosts":["payments.example"]' in events[1].details
    assert events[1].principal_name == "olga on the server"


@pytest.mark.parametrize(
    "wrong",
    [
        {"header": "Host"},
        {"header": "signature-input"},
        {"header": "Transfer-Encoding"},
        {"header": "Content-Digest"},
        {"header": "Idempotency-Key"},
        {"header": "X: y"},
        {"header": ""},
        {"value": f"{SECRET}\r\nX-Other: y"},
        {"value": f"{SECRET}\n"},
        {"value": f"{SECRET}ä"},
        {"value": ""},
        {"hosts": []},
        {"hosts": ["https://payments.example"]},
        {"hosts": ["*.example"]},
        {"hosts": ["payments.example/x"]},
        {"hosts": ["a@payments.example"]},
        {"name": "Billing!"},
    ],
)
def test_what_would_change_the_request_is_refused_without_quoting_the_secret(header, wrong):
    with pytest.raises(CredentialRefused) as refusal:
        header(**wrong)

    assert "secret-93" not in str(refusal.value)
    assert not Credential.objects.exists()
    assert not Event.objects.filter(kind__startswith="credential_").exists()


# --- with a tool ------------------------------------------------------------------------------


def test_a_tool_shows_it_at_every_request(header, service, registered):
    header([f"127.0.0.1:{service.port}"])
    registered(credential="billing", routes=["plan"])
    service.answers["plan"] = (200, {"plan": {"summary": "Refund 7"}}, {})

    propose("refund_invoice", invoice="7", amount=1)

    assert [asked.headers["Authorization"] for asked in service.asked] == [SECRET]


@pytest.mark.parametrize("trouble", ["missing", "of another host", "unreadable"])
def test_without_it_nothing_is_sent(trouble, header, service, registered, settings):
    if trouble != "missing":
        header(["payments.example" if trouble == "of another host" else service.address[7:]])
    if trouble == "unreadable":
        settings.ENCRYPTION_KEYS = ["99" * 32]
    version = registered(credential="billing", routes=["plan"])

    with pytest.raises(Exception, match="Nothing was sent") as refusal:
        propose("refund_invoice", invoice="7", amount=1)

    assert service.asked == []
    assert SECRET not in str(refusal.value)
    assert version.as_json()["credential"] == "billing"


def test_a_manifest_without_a_credential_keeps_its_hash():
    before = manifests.read(manifest(ADDRESS))
    after = manifests.read(manifest(ADDRESS, credential=""))

    assert "credential" not in before.as_json()
    assert before.sha256 == after.sha256
    assert before.sha256 != manifests.read(manifest(ADDRESS, credential="billing")).sha256


# --- client certificates ----------------------------------------------------------------------


@pytest.fixture
def tls_service(authority, tmp_path, monkeypatch, settings):
    """A service that speaks only to clients with a certificate of the authority."""
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8", "::1/128"]
    own, trusted = tmp_path / "own.pem", tmp_path / "trusted.pem"
    own.write_text(authority.pem())
    trusted.write_text(pem_of(authority.certificate))
    monkeypatch.setattr(certifi, "where", lambda: str(trusted))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    context.load_verify_locations(trusted)
    context.verify_mode = ssl.CERT_REQUIRED
    server = ThreadingHTTPServer(("127.0.0.1", 0), _NamesTheClient)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


class _NamesTheClient(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        ((subject,),) = self.connection.getpeercert()["subject"]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(subject[1].encode())

    def log_message(self, *_) -> None:
        pass


def ask(address, shown):
    request = httpx.Request("GET", address)
    return safe_http.send(request, timeout_s=10, largest_answer=1000, tls=shown.tls)


def test_a_service_that_wants_a_client_certificate_sees_it(acme, authority, tls_service):
    pem = authority.pem("assent at acme")
    credentials.set_client_certificate(acme, "billing", hosts=[tls_service], pem=pem, **BY)
    address = f"https://{tls_service}/"

    answer = ask(address, credentials.for_address("acme", "billing", address))

    assert answer.text == "assent at acme"
    event = Event.objects.get(kind=ChangeKind.CREDENTIAL_ADDED)
    assert "PRIVATE" not in event.details
    assert '"certificate":"' in event.details


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_without_the_certificate_the_service_does_not_answer(tls_service):
    with pytest.raises(httpx.TransportError):
        ask(f"https://{tls_service}/", safe_http.Credentials())


def test_certificates_that_cannot_be_shown_are_refused(acme, authority):
    other = ec.generate_private_key(ec.SECP256R1())
    locked = key_pem(other, serialization.BestAvailableEncryption(b"word"))
    good = authority.pem()
    refused = {
        "not the one": authority.pem(key=other),
        "expired on": authority.pem(days=-1),
        "no private key": good.partition("-----BEGIN PRIVATE")[0],
        "no certificate": key_pem(other),
        "encrypted": pem_of(authority.certificate) + locked,
        "more than": good + " " * 100_000,
        "There is no": "garbage",
    }
    for reason, pem in refused.items():
        with pytest.raises(CredentialRefused, match=reason):
            credentials.set_client_certificate(acme, "a", hosts=["a.example"], pem=pem, **BY)

    assert not Credential.objects.exists()


def test_the_key_may_stand_before_its_certificate(acme, authority):
    certificate, _, key = authority.pem().partition("-----BEGIN PRIVATE")
    pem = f"-----BEGIN PRIVATE{key}{certificate}"

    credentials.set_client_certificate(acme, "a", hosts=["a.example"], pem=pem, **BY)

    assert credentials.for_address("acme", "a", "https://a.example/x").tls is not None


# --- the command ------------------------------------------------------------------------------


def test_the_command_reads_the_secret_from_its_input(acme, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{SECRET}\n"))
    where = ("--tenant", "acme", "--host", "payments.example")
    call_command("tools", "credential", "billing", *where, "--header", "Authorization")

    assert credentials.for_address("acme", "billing", ADDRESS).headers["Authorization"] == SECRET
    assert SECRET not in "".join(capsys.readouterr())


def test_the_command_reads_a_certificate_from_a_file_and_removes_it(acme, authority, tmp_path):
    file, out = tmp_path / "client.pem", io.StringIO()
    file.write_text(authority.pem())
    call_command(
        *("tools", "credential", "billing", "--tenant", "acme", "--host", "payments.example"),
        *("--client-certificate", "--secret-file", str(file)),
        stdout=out,
    )
    assert credentials.for_address("acme", "billing", ADDRESS).tls is not None

    remove = ("tools", "credential", "billing", "--tenant", "acme", "--remove")
    call_command(*remove, stdout=out)

    assert not Credential.objects.exists()
    assert Event.objects.filter(kind=ChangeKind.CREDENTIAL_REMOVED).count() == 1
    with pytest.raises(CommandError, match="no credential named"):
        call_command(*remove)


def test_rotating_the_keys_encrypts_it_anew(header, settings):
    header()
    settings.ENCRYPTION_KEYS = ["66" * 32, *settings.ENCRYPTION_KEYS]
    call_command("rotate_secrets", stdout=io.StringIO())
    settings.ENCRYPTION_KEYS = settings.ENCRYPTION_KEYS[:1]

    assert credentials.for_address("acme", "billing", ADDRESS).headers["Authorization"] == SECRET


# --- the admin --------------------------------------------------------------------------------

LIST = "/tools/secrets/"


@pytest.fixture
def olga(acme):
    return operator("olga2", acme)


def body(**changes):
    return {
        "tenant": "acme",
        "name": "billing",
        "kind": "header",
        "hosts": "payments.example\nother.example:8443",
        "header": "Authorization",
        "new_secret": SECRET,
        **changes,
    }


def test_an_operator_writes_it_and_nobody_reads_it_there(olga):
    olga.post(f"{LIST}new/", body())
    row = Credential.objects.defer("secret").get()
    ends = ("", f"{row.pk}/")
    pages = [olga.get(f"{LIST}{end}") for end in ends]

    assert row.hosts == ["payments.example", "other.example:8443"]
    assert credentials.for_address("acme", "billing", ADDRESS).headers["Authorization"] == SECRET
    assert all(page.status_code == 200 for page in pages)
    assert all("secret-93" not in page.content.decode() for page in pages)
    event = Event.objects.get(kind=ChangeKind.CREDENTIAL_ADDED)
    assert (event.principal_name, event.via) == ("Olga2", "web")
    assert "secret-93" not in event.details


def test_whoever_changes_where_it_goes_enters_it_anew(olga, header):
    header()
    row = Credential.objects.get()
    page = olga.post(f"{LIST}{row.pk}/", body(hosts="evil.example", new_secret=""))

    assert page.status_code == 422
    assert Credential.objects.get().hosts == ["payments.example"]

    olga.post(f"{LIST}{row.pk}/", body(hosts="evil.example", new_secret="Bearer other"))

    assert Credential.objects.get().hosts == ["evil.example"]
    assert Credential.objects.get().secret == "Bearer other"


def test_what_is_refused_is_said_and_the_secret_is_not_sent_back(olga):
    page = olga.post(f"{LIST}new/", body(header="Host")).content.decode()

    assert "is not a header that a credential may set" in page
    assert "secret-93" not in page
    assert not Credential.objects.exists()


def test_an_unreadable_one_can_be_listed_and_removed(olga, header, settings):
    header()
    settings.ENCRYPTION_KEYS = ["99" * 32]
    pk = Credential.objects.defer("secret").get().pk

    assert "billing" in olga.get(LIST).content.decode()
    olga.post(f"{LIST}{pk}/remove")

    assert not Credential.objects.exists()
    assert Event.objects.filter(kind=ChangeKind.CREDENTIAL_REMOVED).count() == 1


def test_only_operators_of_the_tenant_see_or_write_credentials(header, acme, globex):
    header()
    pk = Credential.objects.get().pk
    for other in (operator("other", globex), operator("approver2", acme, Role.APPROVER)):
        assert "billing" not in other.get(LIST).content.decode()
        other.post(f"{LIST}new/", body(name="mine"))
        other.post(f"{LIST}{pk}/", body(new_secret="Bearer other"))
        other.post(f"{LIST}{pk}/remove")

    assert Credential.objects.get().secret == SECRET
