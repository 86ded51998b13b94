"""Secrets of others, encrypted in the database (AES-256-GCM).

What is stored is ``enc:<key id>:<nonce and ciphertext>``, bound to its table and column. The first
of ``ASSENT_ENCRYPTION_KEYS`` encrypts, all of them decrypt; ``manage.py rotate_secrets`` rewrites
what an older one encrypted.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import models

# Django's fields are generic for the type checker only, not when they run.
if TYPE_CHECKING:
    TextOfStrings = models.TextField[str, str]
else:
    TextOfStrings = models.TextField

PREFIX = "enc"
NONCE_BYTES = 12
WEBHOOK_SECRET_PREFIX = "whsec_"  # Standard Webhooks


class SecretUnreadable(ImproperlyConfigured):
    """A stored secret was encrypted with a key that is not among those of this process."""


class Secret(str):
    """Text that shows itself to nobody by accident; ``str()`` of it is the text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'••••••'" if self else "''"


class SecretField(TextOfStrings):
    """Text that only processes with the key can read. Cannot be searched; empty stays empty."""

    def get_lookup(self, lookup_name: str) -> Any:
        """Neither by an admin's address bar nor by mistake: only whether there is one."""
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
    """Raises ``ImproperlyConfigured`` when there is no key."""
    if not settings.ENCRYPTION_KEYS:
        raise ImproperlyConfigured(
            "A secret cannot be kept: ASSENT_ENCRYPTION_KEYS is not set. Nothing was stored."
        )
    key = settings.ENCRYPTION_KEYS[0]
    nonce = os.urandom(NONCE_BYTES)
    sealed = nonce + _cipher(key).encrypt(nonce, text.encode(), place.encode())
    return f"{PREFIX}:{key_id(key)}:{base64.urlsafe_b64encode(sealed).decode()}"


def decrypt(stored: str, place: str) -> str:
    """Raises ``SecretUnreadable``."""
    if not stored:
        return ""
    try:
        prefix, wanted, content = stored.split(":")
        sealed = base64.urlsafe_b64decode(content)
    except ValueError:
        prefix, wanted, sealed = "", "", b""
    if prefix != PREFIX:
        raise SecretUnreadable(
            f"The secret in {place} is not encrypted: it was not written by Assent. Enter it anew."
        )
    for key in settings.ENCRYPTION_KEYS:
        if key_id(key) == wanted:
            return _opened(key, sealed, place)
    raise SecretUnreadable(
        f"The secret in {place} was encrypted with key {wanted}, which is not among "
        f"ASSENT_ENCRYPTION_KEYS ({', '.join(map(key_id, settings.ENCRYPTION_KEYS)) or 'none'}). "
        "Add that key behind the first one; nothing was changed."
    )


def _opened(key: str, sealed: bytes, place: str) -> str:
    try:
        nonce, content = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        return _cipher(key).decrypt(nonce, content, place.encode()).decode()
    except InvalidTag:
        raise SecretUnreadable(
            f"The secret in {place} was changed, or moved there from elsewhere. Enter it anew."
        ) from None


def key_id(key: str) -> str:
    """Names a key without giving it away."""
    return hashlib.sha256(b"assent.encryption-key:" + bytes.fromhex(key)).hexdigest()[:8]


def _cipher(key: str) -> AESGCM:
    return AESGCM(bytes.fromhex(key))


def secret_fields() -> list[SecretField]:
    """Every column that holds secrets."""
    from django.apps import apps

    return [
        field
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, SecretField)
    ]


def new_webhook_secret() -> str:
    """A secret for signing webhooks, in the form of Standard Webhooks."""
    return WEBHOOK_SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
