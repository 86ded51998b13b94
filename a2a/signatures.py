"""Ed25519 signatures of the agent card and of push notifications, for others to verify.

Each purpose has its own list of keys. The first key signs; all are published (RFC 7517), so that a
key can be replaced while its signatures still verify.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings

ALGORITHM = "EdDSA"


def card_key() -> Ed25519PrivateKey | None:
    return _key(settings.CARD_KEYS[0]) if settings.CARD_KEYS else None


def push_key() -> Ed25519PrivateKey | None:
    return _key(settings.PUSH_KEYS[0]) if settings.PUSH_KEYS else None


@lru_cache(maxsize=16)
def _key(text: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text))


def key_id(key: Ed25519PrivateKey) -> str:
    return hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]


def public_jwks() -> dict[str, Any]:
    """The public keys, current and former, as a JSON Web Key Set."""
    return {"keys": [_jwk(_key(text)) for text in (*settings.CARD_KEYS, *settings.PUSH_KEYS)]}


def _jwk(key: Ed25519PrivateKey) -> dict[str, str]:
    x = base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()
    jwk = {"kty": "OKP", "crv": "Ed25519", "alg": ALGORITHM, "use": "sig"}
    return {**jwk, "kid": key_id(key), "x": x}


def signed(claims: dict[str, Any]) -> str:
    """A JWT for a push notification; empty if no key is set."""
    key = push_key()
    if key is None:
        return ""
    return jwt.encode(claims, key, algorithm=ALGORITHM, headers={"kid": key_id(key)})
