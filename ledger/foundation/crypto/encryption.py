"""Encryption (AES-256-GCM) of the secrets that the database stores for agents and workspaces.

A stored secret is ``enc:<key id>:<nonce and ciphertext>``, bound to its table and column. The first
of ``ASSENT_ENCRYPTION_KEYS`` encrypts, all of them decrypt; ``manage.py rotate_secrets`` encrypts
everything anew with the first.
"""

from __future__ import annotations

import base64
import hashlib
import os
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import models

# Django's fields are generic only for type checkers, not at run time.
if TYPE_CHECKING:
    TextOfStrings = models.TextField[str, str]
else:
    TextOfStrings = models.TextField

PREFIX = "enc"
NONCE_BYTES = 12


class SecretUnreadable(ImproperlyConfigured):
    """A stored secret was encrypted with a key that is not among those of this process."""


class Secret(str):
    """Text with a masked ``repr``, so that it does not leak into logs; ``str()`` gives the text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'••••••'" if self else "''"


class SecretField(TextOfStrings):
    """Text that is stored encrypted. It cannot be searched; empty text is stored as empty."""

    def get_lookup(self, lookup_name: str) -> Any:
        """Only lookups that tell whether there is a secret: the admin takes any from its URL."""
        if lookup_name not in {"exact", "isnull"}:
            return None
        return super().get_lookup(lookup_name)

    def get_prep_value(self, value: Any) -> str:
        text = "" if value is None else str(value)
        return encrypt(text, self._place) if text else ""

    def from_db_value(self, value: str | None, *_: object) -> Secret | None:
        return None if value is None else Secret(decrypt(value, self._place))

    @property
    def _place(self) -> str:
        return f"{self.model._meta.db_table}.{self.column}"


def encrypt(text: str, place: str) -> str:
    """The text as it is stored in ``place`` (``table.column``).

    Raises ``ImproperlyConfigured`` when there is no key.
    """
    if not settings.ENCRYPTION_KEYS:
        raise ImproperlyConfigured(
            "The secret cannot be stored: ASSENT_ENCRYPTION_KEYS is not set. Nothing was stored."
        )
    key = settings.ENCRYPTION_KEYS[0]
    nonce = os.urandom(NONCE_BYTES)
    sealed = nonce + _cipher(key).encrypt(nonce, text.encode(), place.encode())
    return f"{PREFIX}:{key_id(key)}:{base64.urlsafe_b64encode(sealed).decode()}"


def decrypt(stored: str, place: str) -> str:
    """The text of a stored secret. Raises ``SecretUnreadable``."""
    if not stored:
        return ""
    try:
        prefix, stored_key_id, content = stored.split(":")
        sealed = base64.urlsafe_b64decode(content)
    except ValueError:
        prefix, stored_key_id, sealed = "", "", b""
    if prefix != PREFIX:
        raise SecretUnreadable(
            f"The secret in {place} is not encrypted: it was not written by Assent. Enter it anew."
        )
    for key in settings.ENCRYPTION_KEYS:
        if key_id(key) == stored_key_id:
            return _opened(key, sealed, place)
    known = ", ".join(map(key_id, settings.ENCRYPTION_KEYS)) or "none"
    raise SecretUnreadable(
        f"The secret in {place} was encrypted with key {stored_key_id}, which is not among "
        f"ASSENT_ENCRYPTION_KEYS ({known}). "
        "Add that key behind the first one; nothing was changed."
    )


def _opened(key: str, sealed: bytes, place: str) -> str:
    try:
        nonce, content = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        return _cipher(key).decrypt(nonce, content, place.encode()).decode()
    except InvalidTag:
        raise SecretUnreadable(
            f"The secret in {place} was changed, or copied from another column. Enter it anew."
        ) from None


def key_id(key: str) -> str:
    """A name for the key that does not reveal it."""
    return hashlib.sha256(b"assent.encryption-key:" + bytes.fromhex(key)).hexdigest()[:8]


def _cipher(key: str) -> AESGCM:
    return AESGCM(bytes.fromhex(key))


def secret_fields() -> list[SecretField]:
    """Every ``SecretField`` of every model."""
    from django.apps import apps

    return [
        field
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, SecretField)
    ]
