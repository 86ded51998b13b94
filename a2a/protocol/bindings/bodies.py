"""Request bodies: checked before anything is done with them."""

from __future__ import annotations

import math
import re
from typing import Any

from a2a.protocol.errors import INVALID_PARAMS, NOT_JSON, ProtocolError
from ledger.api.http import UnstorableText, parse_json

MAX_DEPTH = 64
MOST_ITEMS = 50_000  # each is looked at on the event loop: about 50 ms
TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
LARGEST_EXACT = 2**53


def parse(body: bytes, *, is_strict: bool = False) -> Any:
    """The body as JSON. Raises ``ProtocolError``.

    Protobuf's numbers are doubles, which hold integers up to 2^53 only.
    """
    if _has_too_many_items(body):
        detail = f"It has more than {MOST_ITEMS} values; send references."
        raise ProtocolError(INVALID_PARAMS, detail)
    try:
        value = parse_json(body, is_strict=is_strict)
    except UnstorableText as refusal:
        raise ProtocolError(INVALID_PARAMS, f"In the body {refusal}.") from None
    except (ValueError, RecursionError):
        raise ProtocolError(NOT_JSON, "The body is not JSON that can be read.") from None
    if (fault := _fault_of(value)) is not None:
        raise ProtocolError(INVALID_PARAMS, fault)
    return value


def _has_too_many_items(body: bytes) -> bool:
    """Counts commas and brackets, those in texts only where the encoding is not UTF-8."""
    if _items(body) <= MOST_ITEMS:
        return False
    return b"\0" in body or _items(TEXT.sub(b"", body, 2 * MOST_ITEMS)) > MOST_ITEMS


def _items(body: bytes) -> int:
    return body.count(b"{") + body.count(b"[") + body.count(b",")


def _fault_of(value: Any) -> str | None:
    stack = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_DEPTH:
            return f"It is nested more than {MAX_DEPTH} levels deep."
        if isinstance(item, dict):
            stack.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list):
            stack.extend((inner, depth + 1) for inner in item)
        elif isinstance(item, int) and abs(item) > LARGEST_EXACT:
            return "An integer beyond 2^53 loses digits: send it as text."
        elif isinstance(item, float) and not math.isfinite(item):
            return "A number is larger than a double can be."
    return None
