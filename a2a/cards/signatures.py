"""Ed25519 signatures of the agent card and of push notifications, for others to verify.

Each purpose has its own list of keys. The first key signs; all are published (RFC 7517), so that a
key can be replaced while its signatures still verify.
"""

from __future__ import annotations

from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings

from ledger.foundation.crypto.signing_keys import ALGORITHM, jwk, key_id, key_of, signing_key
from ledger.tools import permits


def card_key() -> Ed25519PrivateKey | None:
    return signing_key(settings.CARD_KEYS)


def push_key() -> Ed25519PrivateKey | None:
    return signing_key(settings.PUSH_KEYS)


def public_jwks() -> dict[str, Any]:
    """The public keys, current and former, as a JSON Web Key Set."""
    published = (*settings.CARD_KEYS, *settings.PUSH_KEYS, *settings.TOOL_KEYS)
    return {"keys": [*(jwk(key_of(text)) for text in published), *permits.public_keys()]}


def signed_claims(claims: dict[str, Any]) -> str:
    """A JWT for a push notification; empty if no key is set."""
    key = push_key()
    if key is None:
        return ""
    return jwt.encode(claims, key, algorithm=ALGORITHM, headers={"kid": key_id(key)})
