"""Keys whose signatures others verify. Each purpose has a list: its first key signs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

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


def public_vapid_key(key: str) -> str:
    """The public half of a P-256 key, as browsers take it: base64url of the point.

    Raises ``ValueError`` for a key that is none.
    """
    public = ec.derive_private_key(int(key, 16), ec.SECP256R1()).public_key()
    point = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return base64.urlsafe_b64encode(point).rstrip(b"=").decode()
