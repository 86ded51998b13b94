"""JSON of others, if PostgreSQL can keep it as it is: no NaN, no U+0000, not without end."""

from __future__ import annotations

import json
from typing import Any

from ledger.errors import InvalidRequest
from ledger.foundation.characters import is_storable
from ledger.seals.intents import canonical, texts_in

DEEPEST = 50  # levels of a JSON value


def can_be_kept(value: Any) -> bool:
    """True for a value of the JSON parser that a column can have."""
    if _is_too_deep(value):
        return False
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return all(map(is_storable, texts_in(value)))


def is_sealable(value: Any) -> bool:
    """True for a value that can be kept, and sealed when it changes."""
    try:
        return can_be_kept(value) and bool(canonical(value))
    except InvalidRequest:
        return False


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
