"""Ed25519 signatures that others can check: of our agent card and of push notifications.

The key is the one of the audit log; what is signed differs in form, so one cannot stand for the
other.
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


def private_key() -> Ed25519PrivateKey | None:
    return _key(settings.AUDIT_KEY) if settings.AUDIT_KEY else None


@lru_cache(maxsize=4)
def _key(text: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text))


def key_id(key: Ed25519PrivateKey) -> str:
    return hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]


def public_jwks() -> dict[str, Any]:
    """RFC 7517, for whoever checks our signatures."""
    key = private_key()
    if key is None:
        return {"keys": []}
    x = base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()
    jwk = {"kty": "OKP", "crv": "Ed25519", "alg": ALGORITHM, "use": "sig"}
    return {"keys": [{**jwk, "kid": key_id(key), "x": x}]}


def signed(claims: dict[str, Any]) -> str:
    """A JWT, or nothing when no key is set."""
    key = private_key()
    if key is None:
        return ""
    return jwt.encode(claims, key, algorithm=ALGORITHM, headers={"kid": key_id(key)})
