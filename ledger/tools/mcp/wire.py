"""JSON-RPC messages to and from MCP servers of others: written, and read without trust."""

from __future__ import annotations

import json
from typing import Any

MODERN = "2026-07-28"
# With ``initialize``; the first is the one that we ask for.
SESSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
CLIENT = {"name": "Assent", "version": "1"}
TASKS = "io.modelcontextprotocol/tasks"
META = "io.modelcontextprotocol/"
OPERATION_KEY, LEASE_UNTIL = "assent/operation-key", "assent/lease-until"
LARGEST = 1024 * 1024  # bytes, of one answer
INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32600, -32601, -32602
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
# Errors by which a server says that it did not begin.
NOT_BEGUN = frozenset(
    {
        INVALID_REQUEST,
        METHOD_NOT_FOUND,
        INVALID_PARAMS,
        HEADER_MISMATCH,
        MISSING_CAPABILITY,
        UNSUPPORTED_VERSION,
    }
)
Json = dict[str, Any]


class NothingSent(Exception):
    """The request did not reach the server."""


class NotProved(Exception):
    """There is no answer that proves anything; the text says what there was."""


class NotSpoken(NotProved):
    """The server does not speak this revision of the protocol, or no MCP."""


class ServerError(Exception):
    """The server answered with an error of JSON-RPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def request(number: int, method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def with_envelope(params: Json) -> Json:
    """The parameters with what each request of the revision without sessions carries."""
    meta = {
        f"{META}protocolVersion": MODERN,
        f"{META}clientInfo": CLIENT,
        f"{META}clientCapabilities": {"extensions": {TASKS: {}}},
    }
    return {**params, "_meta": {**params.get("_meta", {}), **meta}}


def parsed(text: str | bytes) -> Any:
    """Raises ``NotProved`` for what is not JSON."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise NotProved("Its answer is not JSON.") from None


def _no_number(name: str) -> None:
    raise ValueError(name)


def result_in(message: Any, number: int) -> Json:
    """The result of the request of this number. Raises ``ServerError, NotProved``."""
    if not is_answer(message, number):
        raise NotProved("It answered another request than the one that it was sent.")
    if isinstance(error := message.get("error"), dict):
        code, text = error.get("code"), error.get("message")
        raise ServerError(code if isinstance(code, int) else 0, str(text or "")[:1000])
    if not isinstance(result := message.get("result"), dict):
        raise NotProved("Its answer has neither a result nor an error.")
    return result


def is_answer(message: Any, number: int) -> bool:
    is_response = isinstance(message, dict) and ("result" in message or "error" in message)
    # True == 1 in Python, and 1.0 too.
    return is_response and type(message.get("id")) is int and message["id"] == number
