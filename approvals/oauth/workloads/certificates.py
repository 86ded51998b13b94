"""A client certificate that a trusted proxy has verified, from the header in which it says so."""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import unquote

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from django.conf import settings
from django.http import HttpRequest

from approvals.oauth.workloads.assertions import NotAccepted

LONGEST = 12_000  # characters


def header_in(request: HttpRequest) -> str:
    """The header of the proxy; empty if there is none, or none is looked at."""
    name = settings.CLIENT_CERT_HEADER.upper().replace("-", "_")
    return str(request.META.get(f"HTTP_{name}", "")).strip() if name else ""


def claims_of(request: HttpRequest) -> dict[str, Any]:
    """SPIFFE id and SHA-256 of the certificate. Raises ``NotAccepted``."""
    peer = str(request.META.get("assent.peer") or request.META.get("REMOTE_ADDR", ""))
    if not _is_trusted(peer):
        raise NotAccepted(
            f"The header {settings.CLIENT_CERT_HEADER} came from {peer or 'an unknown address'}, "
            "which is not in ASSENT_TRUSTED_PROXIES."
        )
    certificate = _certificate(header_in(request))
    if not certificate.not_valid_before_utc <= datetime.now(UTC) <= certificate.not_valid_after_utc:
        raise NotAccepted("The certificate is not valid now.")
    digest = hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()
    return {"sha256": digest} | _spiffe_of(certificate)


def _is_trusted(peer: str) -> bool:
    try:
        address = ip_address(peer)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in ip_network(network) for network in settings.TRUSTED_PROXIES)


def _certificate(text: str) -> x509.Certificate:
    """From the form of RFC 9440, or PEM as nginx escapes it. It is one certificate, not a chain."""
    try:
        if len(text) > LONGEST:
            raise ValueError
        if text.startswith(":") and text.endswith(":"):
            return x509.load_der_x509_certificate(b64decode(text[1:-1], validate=True))
        (certificate,) = x509.load_pem_x509_certificates(unquote(text).encode())
    except (ValueError, binascii.Error):
        raise NotAccepted("The header of the proxy has no certificate in a known form.") from None
    return certificate


def _spiffe_of(certificate: x509.Certificate) -> dict[str, str]:
    """A certificate with more than one URI has no SPIFFE id (X509-SVID, 5.2)."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return {}
    uris = names.value.get_values_for_type(x509.UniformResourceIdentifier)
    is_spiffe = len(uris) == 1 and uris[0].startswith("spiffe://")
    return {"spiffe": uris[0]} if is_spiffe else {}
