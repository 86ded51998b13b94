"""What a job carries: one text, encrypted and signed with a key of its queue."""

from __future__ import annotations

import base64
import hashlib
import zlib
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

SEALED_FOR_S = 24 * 60 * 60  # older jobs are dropped; the sweeper enqueues what is due
LARGEST_JOB = 64 * 1024  # bytes, unpacked


class NotOurs(Exception):
    """It was not sealed by this Assent, not for this queue, or too long ago."""


def seal(queue: str, text: str) -> str:
    return _sealer(queue).encrypt(text.encode()).decode()


def unseal(queue: str, sealed: str) -> str:
    """The text that was sealed. Raises ``NotOurs``."""
    try:
        return _sealer(queue).decrypt(sealed.encode(), ttl=SEALED_FOR_S).decode()
    except (InvalidToken, UnicodeError):
        raise NotOurs() from None


def _sealer(queue: str) -> MultiFernet:
    return _sealer_of(queue, (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


@lru_cache(maxsize=64)
def _sealer_of(queue: str, secrets: tuple[str, ...]) -> MultiFernet:
    """A key per queue, so that a job sealed for one queue is refused in another."""
    digests = (hashlib.sha256(f"assent.queue:{queue}:{key}".encode()).digest() for key in secrets)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])


def unpacked(data: bytes) -> bytes:
    """RQ packs what it writes; a small text may unpack to more than there is memory.

    Raises ``ValueError`` for what is too large, and ``zlib.error``.
    """
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(data, LARGEST_JOB)
    if unpacker.unconsumed_tail:
        raise ValueError("it is too large")
    return content
