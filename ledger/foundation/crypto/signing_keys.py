"""Ed25519 keys whose signatures others verify. Each purpose has a list: its first key signs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ALGORITHM = "EdDSA"


def signing_key(keys: Sequence[str]) -> Ed25519PrivateKey | None:
    """The key that signs; ``None`` if the purpose has none. ``keys`` are 64 hexadecimal digits."""
    return key_of(keys[0]) if keys else None


@lru_cache(maxsize=16)
def key_of(text: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text))


def key_id(key: Ed25519PrivateKey) -> str:
    return hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]


def jwk(key: Ed25519PrivateKey) -> dict[str, str]:
    """The public half as a JSON Web Key (RFC 8037)."""
    x = base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()
    fixed = {"kty": "OKP", "crv": "Ed25519", "alg": ALGORITHM, "use": "sig"}
    return {**fixed, "kid": key_id(key), "x": x}
