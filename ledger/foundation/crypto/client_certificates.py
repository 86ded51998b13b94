"""Client certificates: PEM text with a certificate, its chain, and its private key."""

from __future__ import annotations

import secrets
import ssl
import tempfile
from datetime import UTC, datetime

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

MOST = 100_000  # characters of PEM


class CertificateRefused(Exception):
    """The text is no usable certificate with its key; it never quotes what was given."""


def check(pem: str) -> x509.Certificate:
    """The certificate, if its key is there, belongs to it, and it has not expired.

    Raises ``CertificateRefused``.
    """
    certificate, key = _certificate_in(pem), _key_in(pem)
    if _public(certificate) != _public(key):
        raise CertificateRefused("The private key is not the one of the certificate.")
    if expires_at(certificate) <= datetime.now(UTC):
        raise CertificateRefused(f"The certificate expired on {expires_at(certificate):%Y-%m-%d}.")
    return certificate


def expires_at(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_after_utc


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256, as ``openssl x509 -fingerprint`` counts it."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def context_of(pem: str) -> ssl.SSLContext:
    """TLS that shows the certificate and checks the server's. Raises ``CertificateRefused``."""
    check(pem)
    context = httpx.create_ssl_context(trust_env=False)
    # OpenSSL reads files only. What lies there for a moment is encrypted with a word of this call.
    word = secrets.token_bytes(24).hex().encode()
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(_chain_in(pem) + _encrypted(_key_in(pem), word))
        file.flush()
        try:
            context.load_cert_chain(file.name, password=word)
        except ssl.SSLError:
            raise CertificateRefused("TLS takes neither the certificate nor its key.") from None
    return context


def _certificate_in(pem: str) -> x509.Certificate:
    if len(pem) > MOST:
        raise CertificateRefused(f"It has more than {MOST} characters.")
    try:
        return x509.load_pem_x509_certificates(pem.encode())[0]
    except (ValueError, IndexError):
        raise CertificateRefused("There is no certificate in PEM.") from None


def _key_in(pem: str) -> PrivateKeyTypes:
    start = pem.find("-----BEGIN", max(pem.find("PRIVATE KEY-----") - 40, 0))
    try:
        if "PRIVATE KEY-----" not in pem or start < 0:
            raise ValueError
        return serialization.load_pem_private_key(pem[start:].encode(), password=None)
    except TypeError:
        raise CertificateRefused("The private key is encrypted: decrypt it first.") from None
    except Exception:
        # The parser raises any type, and its texts may quote what it read.
        raise CertificateRefused("There is no private key in PEM.") from None


def _chain_in(pem: str) -> bytes:
    """The certificate, then those that lead to its authority."""
    chain = x509.load_pem_x509_certificates(pem.encode())
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in chain)


def _encrypted(key: PrivateKeyTypes, word: bytes) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(word),
    )


def _public(owner: x509.Certificate | PrivateKeyTypes) -> bytes:
    return owner.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
