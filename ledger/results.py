"""What a tool handed back, in a form that the ledger can keep, whatever it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python


def storable(value: Any) -> dict[str, Any]:
    """Whatever a tool returned, as a JSON object that PostgreSQL can hold."""
    plain = to_jsonable_python(value, fallback=repr)
    fit = _fit_for_jsonb(plain)
    return fit if isinstance(fit, dict) else {"value": fit}


def _fit_for_jsonb(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value, most=100_000)
    if isinstance(value, Mapping):
        return {clean(str(key)): _fit_for_jsonb(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_fit_for_jsonb(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def clean(text: str, most: int = 2000) -> str:
    """Text of the outside world, without what UTF-8 or PostgreSQL cannot hold."""
    return (
        text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()[:most]
    )


def receipt_in(result: Mapping[str, Any], field: str) -> str:
    """The proof of success, or nothing."""
    value = result.get(field)
    return "" if value is None else str(value).strip()[:500]


def web_address(value: Any) -> str:
    text = str(value or "")
    return text if text.startswith(("https://", "http://")) and len(text) <= 2000 else ""
