"""JSON as strangers write it into files, and as we do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ledger import seals
from ledger.foundation.characters import is_storable

DEEPEST = 50  # levels of a JSON value


def object_in(text: bytes) -> dict[str, Any] | None:
    """The one JSON object in the text; ``None`` if it is anything else, or cannot be stored."""
    try:
        value = json.loads(text.decode("utf-8-sig"), parse_constant=_refuse)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or _is_too_deep(value):
        return None
    return value if all(map(is_storable, seals.texts_in(value))) else None


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def as_file(fields: Mapping[str, Any]) -> bytes:
    return (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode()
