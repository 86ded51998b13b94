"""Signatures over what is asked of a tool: RFC 9421 with the keys of ``ASSENT_TOOL_KEY``; Standard
Webhooks where its manifest names a secret."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from http_message_signatures import HTTPMessageSigner, HTTPSignatureKeyResolver, algorithms

from ledger.foundation.crypto import signing_keys, standard_webhooks

TAG = "assent-tool"
LABEL = "assent"
VALID_FOR = timedelta(seconds=60)
COVERED = ("@method", "@target-uri", "content-digest", "idempotency-key")
COVERED_OF_GET = ("@method", "@target-uri")


class NotSigned(Exception):
    """No key is set, so nothing is sent."""


def sign(request: httpx.Request) -> None:
    """Add ``Signature-Input`` and ``Signature``, and ``Content-Digest`` where there is a body.

    Raises ``NotSigned``.
    """
    key = signing_keys.signing_key(settings.TOOL_KEYS)
    if key is None:
        raise NotSigned("ASSENT_TOOL_KEY is not set: tools over HTTP are not called unsigned.")
    sign_with(key, request)


def sign_with(
    key: Ed25519PrivateKey, request: httpx.Request, *, key_id: str = "", at: datetime | None = None
) -> None:
    """Sign as of ``at``, now by default; ``key_id`` is what the signature says it was made with."""
    created = at or datetime.now(UTC)
    signer = HTTPMessageSigner(signature_algorithm=algorithms.ED25519, key_resolver=_OneKey(key))
    body = request.content or None
    signer.sign(
        request,
        key_id=key_id or signing_keys.key_id(key),
        created=created,
        expires=created + VALID_FOR,
        nonce=secrets.token_urlsafe(16),
        label=LABEL,
        tag=TAG,
        covered_component_ids=COVERED if body else COVERED_OF_GET,
        body=body,
    )


def sign_as_webhook(
    request: httpx.Request, secrets_: Iterable[str], *, at: datetime | None = None
) -> None:
    """Add the headers of Standard Webhooks; each request is a message of its own."""
    message_id = f"msg_{secrets.token_urlsafe(16)}"
    request.headers.update(standard_webhooks.headers(secrets_, message_id, request.content, at=at))


class _OneKey(HTTPSignatureKeyResolver):
    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def resolve_private_key(self, key_id: str) -> Ed25519PrivateKey:
        return self._key
