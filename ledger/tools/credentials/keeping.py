"""Setting, changing and removing credentials; each change is sealed, without the secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from django.db.transaction import atomic
from django.utils import timezone

from ledger.errors import NotFound
from ledger.events import ChangeKind, record_change, sealable
from ledger.foundation.crypto import client_certificates, standard_webhooks
from ledger.foundation.crypto.client_certificates import CertificateRefused
from ledger.foundation.crypto.encryption import SecretUnreadable
from ledger.foundation.crypto.standard_webhooks import SecretRefused
from ledger.models import Credential, CredentialKind, Tenant
from ledger.principals import Principal, Surface

NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)(:[0-9]{1,5})?")
HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,3998}[\x21-\x7e])?")
# What HTTP itself or our signature writes; another value would change what is asked, and of whom.
OURS = frozenset(
    [
        *("accept", "accept-encoding", "connection", "content-digest", "content-encoding"),
        *("content-length", "content-type", "expect", "host", "idempotency-key", "keep-alive"),
        *("proxy-authenticate", "proxy-authorization", "proxy-connection", "signature"),
        *("signature-input", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"),
    ]
)
OUR_PREFIXES = ("mcp-", "webhook-", "sec-")
BOTH_SIGN_FOR = timedelta(days=1)


class CredentialRefused(Exception):
    """It cannot be stored; the text says why, and does not quote the secret."""


def set_header(
    tenant: Tenant,
    name: str,
    *,
    hosts: Iterable[str],
    header: str,
    value: str,
    by: Principal,
    via: Surface,
) -> None:
    """Add or replace a header that is sent to these hosts. Raises ``CredentialRefused``."""
    check_header(header, value)
    kind = CredentialKind.HEADER
    _keep(tenant, name, kind, hosts, by, via, {"header": header, "secret": value}, header=header)


def set_client_certificate(
    tenant: Tenant, name: str, *, hosts: Iterable[str], pem: str, by: Principal, via: Surface
) -> None:
    """Add or replace a certificate with its key, both in PEM. Raises ``CredentialRefused``."""
    certificate = checked_certificate(pem)
    ends_at = client_certificates.expires_at(certificate)
    kind = CredentialKind.CLIENT_CERTIFICATE
    columns: dict[str, str | datetime] = {"secret": pem, "expires_at": ends_at}
    sha256 = client_certificates.fingerprint(certificate)
    _keep(tenant, name, kind, hosts, by, via, columns, certificate=sha256, expires_at=ends_at)


def set_signing_secret(
    tenant: Tenant,
    name: str,
    *,
    hosts: Iterable[str],
    secret: str,
    by: Principal,
    via: Surface,
    at_once: bool = False,
) -> datetime | None:
    """Add or renew it. The one before signs beside it for a day, or no more with ``at_once``, so
    that the owner can change to the new one meanwhile. Returns until when both sign; ``None``: only
    this one does. Raises ``CredentialRefused``."""
    check_signing_secret(secret)
    kind = CredentialKind.SIGNING_SECRET
    with atomic():
        older = "" if at_once else _newest_signing_secret(tenant, name)
        until = timezone.now() + BOTH_SIGN_FOR if older else None
        columns: dict[str, Any] = {"secret": f"{secret} {older}".rstrip(), "expires_at": until}
        _keep(tenant, name, kind, hosts, by, via, columns, both_sign_until=until)
    return until


def _newest_signing_secret(tenant: Tenant, name: str) -> str:
    """Empty if there is none, or none that can be read."""
    rows = Credential.objects.select_for_update().filter(tenant=tenant, name=name)
    try:
        row = rows.filter(kind=CredentialKind.SIGNING_SECRET).first()
    except SecretUnreadable:
        return ""
    return row.secret.split()[0] if row else ""


def remove(tenant: Tenant, name: str, *, by: Principal, via: Surface) -> None:
    """Forget it: tools that name it are not called any more. Raises ``NotFound``."""
    with atomic():
        if not Credential.objects.filter(tenant=tenant, name=name).delete()[0]:
            raise NotFound(f"{tenant.slug} has no credential named {name!r:.80}.")
        _record(tenant, name, ChangeKind.CREDENTIAL_REMOVED, by, via)


def _keep(
    tenant: Tenant,
    name: str,
    kind: CredentialKind,
    hosts: Iterable[str],
    by: Principal,
    via: Surface,
    columns: Mapping[str, str | datetime],
    **told: object,
) -> None:
    check_name(name)
    bound = checked_hosts(hosts)
    whole = {"kind": kind, "hosts": bound, "header": "", "expires_at": None, **columns}
    with atomic():
        _, is_new = Credential.objects.defer("secret").update_or_create(
            tenant=tenant, name=name, defaults=whole
        )
        change = ChangeKind.CREDENTIAL_ADDED if is_new else ChangeKind.CREDENTIAL_CHANGED
        _record(tenant, name, change, by, via, credential=kind.value, hosts=bound, **told)


def check_name(name: str) -> None:
    """Raises ``CredentialRefused``, as the other checks do."""
    if not NAME.fullmatch(name):
        raise CredentialRefused("A name is lower-case letters, digits, - and _; a letter first.")


def check_header(header: str, value: str) -> None:
    if not HEADER.fullmatch(header):
        raise CredentialRefused("The name of a header is letters, digits, - and _.")
    if header.lower() in OURS or header.lower().startswith(OUR_PREFIXES):
        raise CredentialRefused(f"{header} is not a header that a credential may set.")
    if not VALUE.fullmatch(value):
        raise CredentialRefused(
            "The value is 1 to 4000 printable ASCII characters, without line breaks."
        )


def check_signing_secret(secret: str) -> None:
    try:
        standard_webhooks.check_secret(secret)
    except SecretRefused as refusal:
        raise CredentialRefused(str(refusal)) from None


def checked_certificate(pem: str) -> x509.Certificate:
    try:
        return client_certificates.check(pem)
    except CertificateRefused as refusal:
        raise CredentialRefused(str(refusal)) from None


def checked_hosts(hosts: Iterable[str]) -> list[str]:
    bound = list(dict.fromkeys(host.strip().lower() for host in hosts if host.strip()))
    if not bound:
        raise CredentialRefused("Name at least one host that it may be sent to.")
    for host in bound:
        if not HOST.fullmatch(host):
            raise CredentialRefused(f"{host!r:.100} is neither a host nor host:port.")
    return bound


def _record(
    tenant: Tenant, name: str, kind: ChangeKind, by: Principal, via: Surface, **details: Any
) -> None:
    record_change(
        f"credential:{tenant.slug}/{name}",
        kind,
        tenant=tenant.slug,
        by=by,
        via=via,
        name=name,
        details={member: sealable(value) for member, value in details.items()},
    )
