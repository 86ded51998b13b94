"""Results as text, for clients that read nothing else."""

from __future__ import annotations

import json
from typing import Any

from a2a.validation import Part

# Members of a result that say in words what came of the task, the first before the others.
IN_WORDS = ("sentence", "text", "answer", "summary", "message", "outcome")
# Of a person: the artifact's name says whose it is.
ANSWER = frozenset({"answer", "answered_by"})


def result_parts(result: Any, *, reads_text: bool) -> list[Part]:
    """The parts of an artifact for this result: a text first, if the client reads text."""
    data = {"data": result}
    if not reads_text:
        return [data]
    text = {"text": text_of(result)}
    return [text] if _is_only_text(result) else [text, data]


def _is_only_text(result: Any) -> bool:
    """True where the data would say the same once more; many clients show both in one line."""
    if isinstance(result, dict) and result.keys() <= ANSWER:
        result = result.get("answer")
    return isinstance(result, str)


def text_of(result: Any) -> str:
    """The result as a person reads it: its one obvious text, or else all of it as JSON."""
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        obvious = _obvious_member(result)
        if obvious is not None:
            return text_of(result[obvious])
    return json.dumps(result, ensure_ascii=False, indent=2)


def _obvious_member(result: dict[str, Any]) -> str | None:
    """A member that speaks in words, else the only text, else the only member."""
    named = [name for name in IN_WORDS if result.get(name) not in (None, "")]
    texts = [name for name, value in result.items() if isinstance(value, str) and value]
    for candidates in (named[:1], texts, list(result)):
        if len(candidates) == 1:
            return candidates[0]
    return None
