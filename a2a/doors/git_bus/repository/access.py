"""Entries of an operator for a bus: address, keys, signers. Checked here, in plain words."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from a2a.doors.git_bus.repository.git import is_usable

ENCODING, FORMAT = serialization.Encoding, serialization.PrivateFormat
KEY_TYPES = ("ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-")


class Unusable(ValueError):
    """The text cannot be used; it says why, and what would be right."""


def check_address(url: str, *, allow_local: bool) -> None:
    """Raises ``Unusable``."""
    if _has_secret(url):
        raise Unusable("Put the access token into its own field: addresses are shown and logged.")
    if not is_usable(url, allow_local=allow_local):
        raise Unusable("Write https://host/path, ssh://git@host/path or git@host:path.")


def server_of(url: str) -> str:
    """Scheme, host and port as written; two that are spelt differently count as two."""
    if "://" not in url:  # git@host:path, or a local path
        return url.partition(":")[0]
    return "/".join(url.lower().split("/")[:3])


def _has_secret(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.password or (parts.scheme == "https" and parts.username))


def check_key(text: str) -> None:
    """Check that it is a private SSH key that needs no passphrase. Raises ``Unusable``."""
    _private(text)


def public_line(private_key: str, name: str) -> str:
    """The line for the git host of the key pair. Raises ``Unusable``."""
    public = _private(private_key).public_key()
    line = public.public_bytes(ENCODING.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{line.decode()} {name}"


def new_key() -> str:
    """A new private key (Ed25519), as ``ssh-keygen`` writes it."""
    key = Ed25519PrivateKey.generate()
    no_passphrase = serialization.NoEncryption()
    return key.private_bytes(ENCODING.PEM, FORMAT.OpenSSH, no_passphrase).decode()


def _private(text: str) -> serialization.SSHPrivateKeyTypes:
    content = (text.strip() + "\n").encode()
    if text.strip().startswith(KEY_TYPES):
        raise Unusable("This is the public half of a key. The private one begins with -----BEGIN.")
    try:
        if b"BEGIN OPENSSH" in content:
            return serialization.load_ssh_private_key(content, password=None)
        key = serialization.load_pem_private_key(content, password=None)
    except TypeError:
        raise Unusable("The key has a passphrase, which nobody could enter here.") from None
    except (ValueError, UnsupportedAlgorithm) as failure:
        if "passphrase" in str(failure).lower() or "password" in str(failure).lower():
            raise Unusable("The key has a passphrase, which nobody could enter here.") from None
        raise Unusable("This is no private SSH key as ssh-keygen writes it.") from None
    return key  # type: ignore[return-value]


def check_known_hosts(text: str) -> None:
    """Raises ``Unusable``."""
    for number, terms in _lines(text):
        terms = terms[1:] if terms[0].startswith("@") else terms
        if len(terms) < 3 or not _is_key(terms[1], terms[2]):
            raise Unusable(f"Line {number} is none of ssh-keyscan: a host, a type and a key.")


def check_signers(text: str) -> None:
    """Raises ``Unusable``."""
    for number, terms in _lines(text):
        pairs = pairwise(terms)
        if not any(_is_key(kind, key) for kind, key in pairs):
            raise Unusable(f"Line {number} names no signer: alice@example ssh-ed25519 AAAA…")


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.split()


def _is_key(kind: str, key: str) -> bool:
    """True if it is the encoding of a public key of this type, which names the type first."""
    try:
        content = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        return False
    return kind.startswith(KEY_TYPES) and content[4 : 4 + len(kind)] == kind.encode()
