"""Answers over HTTP: JSON at once, or server-sent events while something is waited for."""

from __future__ import annotations

import json
from typing import Any

from a2a.doors.mcp_server.requests import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Fault,
    Json,
)
from ledger.api.waiting import EventStream, Send

# The status of an error, in the revision without sessions; in older ones errors come with a 200.
STATUS = dict.fromkeys(
    (
        PARSE_ERROR,
        INVALID_REQUEST,
        INVALID_PARAMS,
        HEADER_MISMATCH,
        MISSING_CAPABILITY,
        UNSUPPORTED_VERSION,
    ),
    400,
) | {METHOD_NOT_FOUND: 404}


def result_message(request_id: str | int | None, result: Json) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_message(request_id: str | int | None, fault: Fault) -> Json:
    error: Json = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


async def send_json(send: Send, body: Any, status: int = 200, **headers: str) -> None:
    """Header names are written with underscores."""
    text = json.dumps(body).encode() if body is not None else b""
    head = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    head += [(b"content-length", str(len(text)).encode()), (b"cache-control", b"no-store")]
    if text:
        head.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": text})


class Events(EventStream):
    """The answer to one request as a stream; a sign of life begins it as well."""

    async def quiet(self) -> None:
        await self.write(b": still waiting\r\n\r\n")

    async def message(self, body: Json) -> None:
        await self.write(f"event: message\r\ndata: {json.dumps(body)}\r\n\r\n".encode())
