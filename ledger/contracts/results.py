"""Results that a tool returned, made storable, and the receipt and links in them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import to_jsonable_python

DEEPEST = 32
LARGEST_INTEGER = 2**63
NOTE = "assent_note"
# Browsers read these differently from urlsplit: they take a backslash for a slash and drop white
# space and control characters.
UNUSUAL = re.compile(r"[\s\\\x00-\x20\x7f]")


def storable(value: Any) -> dict[str, Any]:
    """Any value as a JSON object that PostgreSQL can store.

    Never raises: values that JSON cannot hold become text, and ``NOTE`` says so.
    """
    try:
        plain, is_whole = to_jsonable_python(value, fallback=repr, bytes_mode="base64"), True
    except Exception:
        plain, is_whole = value, False
    fit = _fit_for_jsonb(plain)
    result = fit if isinstance(fit, dict) else {"value": fit}
    if not is_whole:
        result[NOTE] = "Parts of what the tool returned could not be stored as they were."
    return result


def _fit_for_jsonb(value: Any, inside: tuple[int, ...] = ()) -> Any:
    if isinstance(value, str):
        return clean(value, most=100_000)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < LARGEST_INTEGER else _as_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if id(value) in inside or len(inside) > DEEPEST:
        return _as_text(value)
    inside = (*inside, id(value))
    if isinstance(value, Mapping):
        return {_as_text(key): _fit_for_jsonb(item, inside) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_fit_for_jsonb(item, inside) for item in value]
    return _as_text(value)


def _as_text(value: Any) -> str:
    try:
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return clean(text)


def clean(text: str, most: int = 2000) -> str:
    """Text without what UTF-8 or PostgreSQL cannot store, at most ``most`` characters long."""
    return (
        text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()[:most]
    )


def receipt_in(result: Mapping[str, Any], field: str) -> str:
    """The value of the contract's receipt field; empty if there is none."""
    value = result.get(field)
    return "" if value is None else str(value).strip()[:500]


def web_address(value: Any) -> str:
    """The value if it is an unambiguous http(s) link, else empty. Not ``https://bank@evil/``."""
    text = str(value or "")
    if not text.startswith(("https://", "http://")) or len(text) > 2000:
        return ""
    return text if host_of(text) else ""


def host_of(address: str) -> str:
    """The host of a link as browsers read it; empty if there is none or it has user-info."""
    try:
        parts = urlsplit(address)
        is_plain = parts.username is None and parts.password is None and parts.port != 0
        return parts.hostname or "" if is_plain and not UNUSUAL.search(address) else ""
    except ValueError:
        return ""
