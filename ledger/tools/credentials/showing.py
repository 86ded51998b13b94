"""Finding the credential for a call: it goes to the hosts that it is bound to, and nowhere else."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from django.utils import timezone

from ledger.foundation.crypto import client_certificates
from ledger.foundation.crypto.client_certificates import CertificateRefused
from ledger.foundation.crypto.encryption import Secret, SecretUnreadable
from ledger.foundation.http_out import Credentials, CredentialUnusable
from ledger.models import Credential, CredentialKind

LOOPBACK = frozenset({"127.0.0.1", "[::1]", "localhost"})


def for_address(tenant: str, name: str, address: str) -> Credentials:
    """Credentials that are shown to the host of this address. Raises ``CredentialUnusable``."""
    row = _row_for(tenant, name, address)
    if row.kind == CredentialKind.SIGNING_SECRET:
        raise CredentialUnusable(f"{name} is a signing secret, which is shown to nobody.")
    if row.kind == CredentialKind.HEADER:
        return Credentials(headers={row.header: Secret(row.secret)})
    try:
        return Credentials(tls=client_certificates.context_of(row.secret))
    except CertificateRefused as refusal:
        raise CredentialUnusable(f"The credential {name}: {refusal}") from None


def signing_secrets(tenant: str, name: str, address: str) -> list[Secret]:
    """Secrets that sign requests to this address, newest first. Raises ``CredentialUnusable``."""
    row = _row_for(tenant, name, address)
    if row.kind != CredentialKind.SIGNING_SECRET:
        raise CredentialUnusable(f"{name} is {row.get_kind_display()}, not a signing secret.")
    newest, *older = map(Secret, row.secret.split())
    is_renewed = row.expires_at is not None and row.expires_at > timezone.now()
    return [newest, *older] if is_renewed else [newest]


def _row_for(tenant: str, name: str, address: str) -> Credential:
    try:
        row = Credential.objects.filter(tenant=tenant, name=name).first()
    except SecretUnreadable:
        raise CredentialUnusable(
            f"The credential {name} cannot be decrypted with ASSENT_ENCRYPTION_KEYS."
        ) from None
    if row is None:
        raise CredentialUnusable(f"{tenant} has no credential named {name}.")
    _check_goes_to(row, address)
    return row


def _check_goes_to(row: Credential, address: str) -> None:
    target = urlsplit(address)
    host = target.netloc.lower()
    standard = {"http": ":80", "https": ":443"}.get(target.scheme, "")
    if host.removesuffix(standard) not in {entry.removesuffix(standard) for entry in row.hosts}:
        raise CredentialUnusable(f"The credential {row.name} is not for {host:.200}.")
    if row.kind == CredentialKind.SIGNING_SECRET:
        return  # it does not leave us
    is_local = row.kind == CredentialKind.HEADER and _without_port(host) in LOOPBACK
    if target.scheme != "https" and not is_local:
        raise CredentialUnusable(f"The credential {row.name} goes over https only.")


def _without_port(host: str) -> str:
    return re.sub(r":[0-9]+$", "", host)
