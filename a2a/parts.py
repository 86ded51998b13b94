"""The parts of messages and artifacts, as the protocol has them; checked where they come in."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from ledger.errors import InvalidRequest

KINDS = {"text": str, "url": str, "raw": str, "data": object}
BESIDES = {"metadata": dict, "filename": str, "mediaType": str}


def refuse_unspeakable(parts: Any) -> None:
    """Raises ``InvalidRequest`` for what no client of the protocol could read."""
    for number, part in enumerate(parts or []):
        where = f"parts[{number}]"
        if not isinstance(part, dict) or not set(part) <= set(KINDS) | set(BESIDES):
            raise InvalidRequest(
                f"{where} is not an A2A part: {{text}}, {{data}}, {{url}}, {{raw}}."
            )
        kinds = set(part) & set(KINDS)
        if len(kinds) != 1:
            raise InvalidRequest(f"{where} has exactly one of text, data, url and raw.")
        for name, kind in (KINDS | BESIDES).items():
            if name in part and not isinstance(part[name], kind):
                raise InvalidRequest(f"{where}.{name} is of the wrong type.")
        if "raw" in part:
            _refuse_bad_base64(part["raw"], where)


def _refuse_bad_base64(raw: str, where: str) -> None:
    try:
        base64.b64decode(raw, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"{where}.raw is not base64.") from None
