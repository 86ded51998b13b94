"""Files of text in the parts of messages and results, which people may download.

Others wrote them, so they leave as plain text only, under a name that no program runs.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import PurePosixPath
from typing import Any

NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
UNUSABLE = re.compile(r"[^\w. -]")
HARMLESS = frozenset({".txt", ".md", ".csv", ".json", ".log", ".yaml", ".yml"})


def text_of_file(part: dict[str, Any]) -> str | None:
    """The text of a part that is a file; ``None`` for every other part."""
    try:
        text = base64.b64decode(part["raw"], validate=True).decode()
    except (KeyError, ValueError):
        return None
    return None if NOT_TEXT.search(text) else text


def key_of_file(part: dict[str, Any]) -> str:
    """The file's name in its address: a hash of the content. Empty for what is not offered."""
    text = text_of_file(part)
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()[:32]


def name_of_file(part: dict[str, Any]) -> str:
    name = UNUSABLE.sub("-", str(part.get("filename", "")))[-100:].strip(". -") or "file"
    return name if PurePosixPath(name).suffix.lower() in HARMLESS else f"{name}.txt"
