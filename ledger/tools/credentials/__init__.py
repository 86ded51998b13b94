"""Proofs that tools elsewhere ask of us: a header, a client certificate, or a signing secret.

A credential is of one tenant and has a name, by which manifests refer to it. It is bound to hosts:
whoever writes a manifest cannot have it sent anywhere else. Its secret is stored encrypted, and is
never shown, logged or sealed.
"""

from __future__ import annotations

from ledger.tools.credentials.keeping import (
    CredentialRefused,
    check_header,
    check_name,
    check_signing_secret,
    checked_certificate,
    checked_hosts,
    remove,
    set_client_certificate,
    set_header,
    set_signing_secret,
)
from ledger.tools.credentials.showing import for_address, signing_secrets

__all__ = [
    "CredentialRefused",
    "check_header",
    "check_name",
    "check_signing_secret",
    "checked_certificate",
    "checked_hosts",
    "for_address",
    "remove",
    "set_client_certificate",
    "set_header",
    "set_signing_secret",
    "signing_secrets",
]
