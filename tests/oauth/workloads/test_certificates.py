"""Client certificates that a trusted proxy has verified, and those that anybody else claims."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from django.test import Client as Browser

from approvals.http.admission.pages import environ_of
from approvals.oauth.issuer_tables import CERTIFICATES, Issuer, IssuerRule
from approvals.oauth.workloads import endpoint
from ledger.agents import caller_with
from ledger.models import AgentToken

pytestmark = pytest.mark.django_db
PROXY, STRANGER = "10.0.0.7", "203.0.113.9"
SPIFFE = "spiffe://acme.example/ns/refunds/sa/agent"


def certificate(*uris: str, ended: bool = False) -> x509.Certificate:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "refunds")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=2))
        .not_valid_after(now + timedelta(hours=-1 if ended else 1))
    )
    if uris:
        names = [x509.UniformResourceIdentifier(uri) for uri in uris]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, SHA256())


def by_rfc9440(row: x509.Certificate) -> str:
    return f":{b64encode(row.public_bytes(Encoding.DER)).decode()}:"


def by_nginx(row: x509.Certificate) -> str:
    return quote(row.public_bytes(Encoding.PEM).decode())


def ask(header: str, *, peer: str = PROXY, **fields):
    body = {"grant_type": "client_credentials", **fields}
    return Browser(REMOTE_ADDR=peer).post("/oauth/token", body, HTTP_CLIENT_CERT=header)


@pytest.fixture
def trusted(acme, helpdesk, settings):
    """A proxy is trusted, and a SPIFFE id is an agent."""
    settings.CLIENT_CERT_HEADER, settings.TRUSTED_PROXIES = "Client-Cert", ["10.0.0.0/24"]
    row = Issuer.objects.create(tenant=acme, issuer=CERTIFICATES, algorithms=[])
    IssuerRule.objects.create(
        issuer=row, agent=helpdesk, claims={"spiffe": SPIFFE}, scopes=["propose"]
    )
    return row


def refused(answer) -> bool:
    return (
        answer.status_code == 400
        and answer.json()["error"] == "invalid_client"
        and not AgentToken.objects.exists()
    )


@pytest.mark.parametrize("form", [by_rfc9440, by_nginx])
def test_a_verified_certificate_is_its_agent(trusted, form):
    answer = ask(form(certificate(SPIFFE)))

    assert answer.status_code == 200, answer.content
    caller = caller_with(answer.json()["access_token"])
    assert str(caller.principal) == "agent:acme/helpdesk"
    assert AgentToken.objects.get().issued_by.endswith(SPIFFE)


def test_a_certificate_without_a_spiffe_id_goes_by_its_digest(trusted):
    row = certificate()
    digest = hashlib.sha256(row.public_bytes(Encoding.DER)).hexdigest()
    trusted.rules.update(claims={"sha256": digest})

    assert ask(by_rfc9440(certificate())).status_code == 400
    assert ask(by_rfc9440(row)).status_code == 200


def test_a_header_from_a_stranger_is_refused_and_said_in_the_log(trusted, caplog, monkeypatch):
    monkeypatch.setattr(endpoint.logger, "handlers", [caplog.handler])
    caplog.set_level("WARNING", endpoint.logger.name)
    answer = ask(by_rfc9440(certificate(SPIFFE)), peer=STRANGER)

    assert refused(answer)
    assert f"came from {STRANGER}" in caplog.text
    assert "ASSENT_TRUSTED_PROXIES" in caplog.text


def test_a_stranger_whom_another_proxy_speaks_of_is_no_proxy(trusted):
    """The client's address comes from a header; who is connected does not."""
    scope = {"method": "POST", "path": "/", "headers": [], "client": (PROXY, 1)}
    told = environ_of(scope | {"assent.peer": STRANGER}, b"")
    body = {"grant_type": "client_credentials"}
    header = by_rfc9440(certificate(SPIFFE))
    peers = {name: told[name] for name in ("REMOTE_ADDR", "assent.peer")}

    answer = Browser(**peers).post("/oauth/token", body, HTTP_CLIENT_CERT=header)

    assert peers == {"REMOTE_ADDR": PROXY, "assent.peer": STRANGER}
    assert refused(answer)


@pytest.mark.parametrize(
    "header",
    [
        "::",
        ":AAAA:",
        "nothing",
        by_rfc9440(certificate("spiffe://acme.example/other")),
        by_rfc9440(certificate(SPIFFE, "spiffe://acme.example/other")),
        by_rfc9440(certificate(SPIFFE, ended=True)),
        by_rfc9440(certificate(SPIFFE)) + "," + by_rfc9440(certificate(SPIFFE)),
        by_nginx(certificate(SPIFFE)) + by_nginx(certificate(SPIFFE)),
        ":" + "A" * 20_000 + ":",
    ],
)
def test_a_header_that_is_not_exactly_right_gives_nothing(trusted, header):
    assert refused(ask(header))


def test_nothing_is_trusted_unless_it_is_set(trusted, settings):
    settings.TRUSTED_PROXIES = []
    by_nobody = ask(by_rfc9440(certificate(SPIFFE)))
    settings.CLIENT_CERT_HEADER = ""
    unknown = ask(by_rfc9440(certificate(SPIFFE)))

    assert refused(by_nobody)
    assert unknown.status_code == 401
    assert not AgentToken.objects.exists()


def test_certificates_that_are_switched_off_give_nothing(trusted):
    trusted.is_active = False
    trusted.save()

    assert refused(ask(by_rfc9440(certificate(SPIFFE))))
