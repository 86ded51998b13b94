"""Input that clients send: JSON bodies, quoted headers, the Host."""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from ledger.foundation.characters import is_storable
from ledger.seals import texts_in

# Only these escapes can write what is not storable; so other bodies need no second look.
MAYBE_UNSTORABLE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


class UnstorableText(ValueError):
    """JSON with a text that no column can have."""


def parse_json(text: bytes | str, *, is_strict: bool = True) -> Any:
    """JSON as RFC 8259 has it, in UTF-8: no NaN, and no text that cannot be stored.

    Strict: no name twice, and only numbers that stay finite. Raises
    ``UnstorableText``, another ``ValueError``, and ``RecursionError`` for nesting without end.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    if is_strict:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_without_duplicates,
        )
    else:
        value = json.loads(text, parse_constant=_refuse_constant)
    if MAYBE_UNSTORABLE.search(text) and not all(map(is_storable, texts_in(value))):
        raise UnstorableText("a text has U+0000 or half of a surrogate pair")
    return value


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
