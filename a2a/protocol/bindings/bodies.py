"""Request bodies: read within limits, and checked before the SDK parses them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from starlette.requests import ClientDisconnect

from ledger.http import parse_json

MAX_DEPTH = 64
MOST_ITEMS = 50_000  # each is looked at on the event loop: about 50 ms
TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
LARGEST_EXACT = 2**53
NOT_JSON, INVALID_PARAMS, VERSION_NOT_SUPPORTED = -32700, -32602, -32009


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a request does not reach the SDK. ``code`` is JSON-RPC's."""

    code: int
    detail: str


async def read_body(receive: Any) -> bytes | None:
    """The body; ``None`` if it is larger than ``A2A_BODY_MAX``. Raises ``ClientDisconnect``."""
    chunks, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > settings.A2A_BODY_MAX:
            return None
        if not message.get("more_body"):
            return b"".join(chunks)


def replayed(body: bytes, receive: Any) -> Any:
    """An ASGI ``receive`` that yields the body again, then what else the client does."""
    is_read = False

    async def replay() -> Any:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def parse(body: bytes) -> Any:
    """The body as JSON; a ``Fault`` for what the SDK's parser would fail on, or change.

    The SDK's numbers are doubles, which hold integers up to 2^53 only.
    """
    if _has_too_many_items(body):
        return Fault(INVALID_PARAMS, f"It has more than {MOST_ITEMS} values; send references.")
    try:
        value = parse_json(body, is_strict=False)
    except (ValueError, RecursionError):
        return Fault(NOT_JSON, "The body is not JSON that can be read.")
    return _fault_of(value) or value


def _has_too_many_items(body: bytes) -> bool:
    """Counts commas and brackets, those in texts only where the encoding is not UTF-8."""
    if _items(body) <= MOST_ITEMS:
        return False
    return b"\0" in body or _items(TEXT.sub(b"", body, 2 * MOST_ITEMS)) > MOST_ITEMS


def _items(body: bytes) -> int:
    return body.count(b"{") + body.count(b"[") + body.count(b",")


def _fault_of(value: Any) -> Fault | None:
    stack = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_DEPTH:
            return Fault(INVALID_PARAMS, f"It is nested more than {MAX_DEPTH} levels deep.")
        if isinstance(item, dict):
            stack.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list):
            stack.extend((inner, depth + 1) for inner in item)
        elif isinstance(item, int) and abs(item) > LARGEST_EXACT:
            return Fault(INVALID_PARAMS, "An integer beyond 2^53 loses digits: send it as text.")
        elif isinstance(item, float) and not math.isfinite(item):
            return Fault(INVALID_PARAMS, "A number is larger than a double can be.")
    return None
