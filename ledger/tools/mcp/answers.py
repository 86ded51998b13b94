"""Proof in the result of a tool of an MCP server (docs/mcp-gateway.md), and its receipt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ledger import seals
from ledger.contracts import MayHaveHappened, NothingHappened
from ledger.contracts.results import NOTE, clean
from ledger.errors import InvalidRequest
from ledger.foundation import characters
from ledger.tools.mcp.wire import NOT_BEGUN, Json, NotProved, ServerError

TEXT_MOST = 3000  # characters, of what is shown to people
KEPT_MOST = 256 * 1024  # characters as JSON, of what is stored
NO_RECEIPT = "sha256:"  # of the answer, for tools that give no receipt of their own


def done(result: Json, *, errors_mean_nothing: bool = False) -> Json:
    """The result of a call that was carried out.

    Raises ``NothingHappened, MayHaveHappened, NotProved``.
    """
    if result.get("isError") in (None, False):
        _check_is_result(result)
        return result
    text = text_in(result) or "The tool reported an error, without a text."
    if errors_mean_nothing:
        raise NothingHappened(text)
    raise MayHaveHappened(text)


def _check_is_result(result: Json) -> None:
    """Raise ``NotProved`` for an object without content: an empty one, a task of an earlier
    revision."""
    content, structured = result.get("content"), result.get("structuredContent")
    if not isinstance(content, list) and not isinstance(structured, Mapping):
        raise NotProved("Its answer has no content, so it is no result of a tool.")


def check_error(failure: ServerError) -> None:
    """Raises ``NothingHappened`` where the server did not begin, else ``MayHaveHappened``."""
    text = shown(str(failure)) or "no text"
    if failure.code in NOT_BEGUN:
        raise NothingHappened(f"It refused the call ({failure.code}): {text}") from failure
    raise MayHaveHappened(f"Error {failure.code}: {text}") from failure


def kept(result: Json, path: str) -> Json:
    """The part of a result that is stored: the receipt as ``id``, and what was answered.

    Raises ``NotProved`` if there is a path, and no receipt at it.
    """
    receipt = receipt_at(result, path) if path else receipt_at(result, "id") or _digest_of(result)
    if not receipt:
        raise NotProved(f"Its answer has no receipt at {path}.")
    value: Json = {"id": receipt}
    if isinstance(structured := result.get("structuredContent"), Mapping):
        value["structured"] = structured
    if text := text_in(result, most=TEXT_MOST * 10):
        value["text"] = text
    if len(json.dumps(value)) > KEPT_MOST:
        return {"id": receipt, NOTE: "The answer was too large to be kept."}
    return value


def receipt_at(result: Json, path: str, most: int = 500) -> str:
    """The text or number at a path of the structured content; empty if there is none."""
    value = _at(result, path)
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return shown(str(value), most=most)


def _at(result: Json, path: str) -> Any:
    value = result.get("structuredContent")
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def truth_at(result: Json, path: str) -> bool:
    """True or false, at a path of the structured content. Raises ``NotProved``."""
    value = _at(result, path)
    if not isinstance(value, bool):
        raise NotProved(f"Its answer does not say true or false at {path}.")
    return value


def text_in(result: Json, most: int = TEXT_MOST) -> str:
    """The text blocks of a result, safe to show."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, Mapping)]
    return shown("\n".join(text for text in texts if isinstance(text, str)), most)


def shown(text: str, most: int = TEXT_MOST) -> str:
    """Text of others as people may see it: no character that hides or turns round."""
    return characters.cleaned(clean(text, most=most)).strip()


def _digest_of(result: Json) -> str:
    answer = {name: value for name, value in result.items() if name != "_meta"}
    try:
        return NO_RECEIPT + seals.digest_of(answer)
    except InvalidRequest:
        text = json.dumps(answer, sort_keys=True)
        return NO_RECEIPT + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def structured_or_text(result: Json) -> Any:
    """The result that an agent gets of a tool without effects."""
    structured = result.get("structuredContent")
    return structured if structured is not None else text_in(result, most=100_000)
