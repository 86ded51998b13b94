"""JSON as strangers write it into files, and as we do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ledger import seals


def object_in(text: bytes) -> dict[str, Any] | None:
    """The one JSON object in the text; ``None`` if it is anything else, or cannot be stored."""
    try:
        value = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and seals.can_be_kept(value) else None


def as_file(fields: Mapping[str, Any]) -> bytes:
    return (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode()
