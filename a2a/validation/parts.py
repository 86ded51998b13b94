"""Validation of what clients and workers send: it can be stored, and clients can parse it."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

from ledger.errors import InvalidRequest, Sentence

Part = dict[str, Any]  # one part of a message or artifact, as A2A 1.0 writes it in JSON

KINDS = {"text": str, "url": str, "raw": str, "data": object}
MAX_DEPTH = 32
LARGEST_EXACT = 2**53  # every JSON parser reads integers up to this exactly
OPTIONAL = {"metadata": dict, "filename": str, "mediaType": str}


def refuse_malformed(parts: Any) -> None:
    """Raise ``InvalidRequest`` unless every part is one of A2A 1.0."""
    for number, part in enumerate(parts or []):
        _refuse_malformed_part(part, where=f"parts[{number}]")


def _refuse_malformed_part(part: Any, where: str) -> None:
    if not isinstance(part, dict) or not set(part) <= set(KINDS) | set(OPTIONAL):
        raise InvalidRequest(f"{where} is not an A2A part: {{text}}, {{data}}, {{url}}, {{raw}}.")
    if len(set(part) & set(KINDS)) != 1:
        raise InvalidRequest(f"{where} has exactly one of text, data, url and raw.")
    for name, kind in (KINDS | OPTIONAL).items():
        if name in part and not isinstance(part[name], kind):
            raise InvalidRequest(f"{where}.{name} is of the wrong type.")
    if "raw" in part:
        _refuse_bad_base64(part["raw"], where)


def _refuse_bad_base64(raw: str, where: str) -> None:
    try:
        base64.b64decode(raw, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"{where}.raw is not base64.") from None


def refuse_unstorable(value: Any) -> None:
    """Raise ``InvalidRequest`` for a value that cannot be stored exactly as it was sent.

    That is: NUL, lone surrogates, nesting deeper than ``MAX_DEPTH``, and numbers that some JSON
    parser would change (beyond ±2⁵³, or not finite).
    """
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise InvalidRequest(
                Sentence("It is nested more than {most} levels deep.", most=MAX_DEPTH)
            )
        if isinstance(item, str):
            _refuse_unstorable_text(item)
        elif isinstance(item, int | float):
            _refuse_inexact_number(item)
        elif isinstance(item, dict):
            stack.extend((key, depth) for key in item)
            stack.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list | tuple):
            stack.extend((inner, depth + 1) for inner in item)


def _refuse_inexact_number(number: int | float) -> None:
    if isinstance(number, float) and not math.isfinite(number):
        raise InvalidRequest(Sentence("A number is not finite."))
    if isinstance(number, int) and abs(number) > LARGEST_EXACT:
        raise InvalidRequest(Sentence("An integer lies beyond ±2⁵³; send it as text."))


def _refuse_unstorable_text(text: str) -> None:
    if "\x00" in text:
        raise InvalidRequest(Sentence("The text contains U+0000, which cannot be kept."))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(Sentence("The text contains half of a surrogate pair.")) from None
