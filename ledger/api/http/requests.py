"""Input that clients send: JSON bodies, quoted headers, the Host."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http.request import split_domain_port, validate_host


def parse_json(text: bytes | str, *, is_strict: bool = True) -> Any:
    """JSON as RFC 8259 has it: no NaN. Strict: no name twice, and only numbers that stay finite.

    Raises ``ValueError``, and ``RecursionError`` for nesting without end.
    """
    if not is_strict:
        return json.loads(text, parse_constant=_refuse_constant)
    return json.loads(
        text,
        parse_constant=_refuse_constant,
        parse_float=_finite,
        object_pairs_hook=_without_duplicates,
    )


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    """``1e400`` is JSON, but becomes infinity, which is not."""
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is too large a number")
    return number


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object names the same member twice")
    return members


def unquoted(key: str) -> str:
    """An Idempotency-Key comes bare or as a quoted string (RFC 8941)."""
    if len(key) >= 2 and key[0] == key[-1] == '"':
        return key[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return key


def is_allowed_host(host: bytes) -> bool:
    """True if the Host header names us. As Django checks it for pages, against DNS rebinding."""
    return _is_allowed(host, tuple(settings.ALLOWED_HOSTS))


@lru_cache(maxsize=64)
def _is_allowed(host: bytes, allowed: tuple[str, ...]) -> bool:
    domain, _ = split_domain_port(host.decode("latin-1"))
    return bool(domain) and validate_host(domain, allowed)
