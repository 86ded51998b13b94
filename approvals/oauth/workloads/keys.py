"""Keys of issuers, from their addresses: kept for minutes, and read with deadlines.

An address that hangs or lies costs one thread five seconds, twice a minute at most; what it said
before counts for an hour.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from ledger.api.http import parse_json
from ledger.foundation import http_out

logger = logging.getLogger(__name__)

FRESH_S, STALE_S, AGAIN_S = 300.0, 3600.0, 30.0
TIMEOUT_S = 5.0
# For somebody else who reads the same address just now.
PATIENCE_S = 1.0
LARGEST, MOST_KEYS = 256 * 1024, 100
AT_ONCE = 2

Keys = list[dict[str, Any]]


class KeysAway(Exception):
    """The address of the keys does not answer as it should, and nothing was read lately."""


@dataclass(slots=True)
class _Address:
    keys: Keys = field(default_factory=list)
    read_at: float | None = None
    tried_at: float | None = None
    reading: threading.Lock = field(default_factory=threading.Lock)
    trouble: str = "It is being read."


_addresses: dict[str, _Address] = {}
_places = threading.BoundedSemaphore(AT_ONCE)


def keys_at(url: str, kid: str | None) -> Keys:
    """The keys there; read again if they are old, or none has this id. Raises ``KeysAway``."""
    known = _addresses.setdefault(url, _Address())
    if not _is_enough(known, kid) and _may_try(known):
        _try(url, known)
    if known.read_at is None or time.monotonic() - known.read_at > STALE_S:
        raise KeysAway(f"The keys at {url} cannot be read: {known.trouble}")
    return known.keys


def _is_enough(known: _Address, kid: str | None) -> bool:
    is_fresh = known.read_at is not None and time.monotonic() - known.read_at < FRESH_S
    return is_fresh and (kid is None or any(key.get("kid") == kid for key in known.keys))


def _may_try(known: _Address) -> bool:
    return known.tried_at is None or time.monotonic() - known.tried_at > AGAIN_S


def _try(url: str, known: _Address) -> None:
    if not known.reading.acquire(timeout=0 if known.keys else PATIENCE_S):
        return
    try:
        if not _may_try(known):  # somebody else has read it meanwhile
            return
        if not _places.acquire(blocking=False):
            known.trouble = "Too many other addresses hang."
            return
        try:
            known.tried_at = time.monotonic()
            known.keys, known.read_at = read(url), time.monotonic()
        except KeysAway as failure:
            known.trouble = str(failure)
            logger.warning("the keys at %s cannot be read: %s", url, failure)
        finally:
            _places.release()
    finally:
        known.reading.release()


def read(url: str) -> Keys:
    """Read them now. Raises ``KeysAway``."""
    request = httpx.Request("GET", url, headers={"Accept": "application/json"})
    try:
        answer = http_out.send(request, timeout_s=TIMEOUT_S, largest_answer=LARGEST)
    except TimeoutError:
        raise KeysAway(f"Nobody answered within {TIMEOUT_S:g} s.") from None
    except (http_out.AddressRefused, httpx.HTTPError) as failure:
        raise KeysAway(str(failure)) from failure
    if answer.status_code != 200:
        raise KeysAway(f"The answer was {answer.status_code}; redirects are not followed.")
    try:
        return keys_in(parse_json(answer.content))
    except (ValueError, RecursionError):
        raise KeysAway("The answer is no JSON Web Key Set.") from None


def keys_in(key_set: Any) -> Keys:
    """The keys of a JSON Web Key Set. Raises ``ValueError``."""
    keys = key_set.get("keys") if isinstance(key_set, dict) else None
    if not isinstance(keys, list) or len(keys) > MOST_KEYS:
        raise ValueError
    if not all(isinstance(key, dict) for key in keys):
        raise ValueError
    return keys


def forget() -> None:
    """For tests: nothing was read."""
    _addresses.clear()
