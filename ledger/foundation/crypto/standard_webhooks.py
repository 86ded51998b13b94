"""Standard Webhooks (standardwebhooks.com): signatures with a secret that both sides know."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64  # bytes, as the specification says


class SecretRefused(Exception):
    """It is no secret of Standard Webhooks; the text says why, and does not quote it."""


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def check_secret(secret: str) -> None:
    """Raises ``SecretRefused``."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not SHORTEST <= len(key) <= LONGEST:
        raise SecretRefused(
            f"A signing secret is {PREFIX} and the base64 of {SHORTEST} to {LONGEST} bytes."
        )


def headers(
    secrets: Iterable[str], message_id: str, body: bytes, *, at: datetime | None = None
) -> dict[str, str]:
    """Headers that sign the body as of ``at``, now by default: one signature for each secret."""
    timestamp = str(int((at or datetime.now(UTC)).timestamp()))
    signatures = [signature(secret, message_id, timestamp, body) for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(signatures),
    }


def signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"
