"""JSON-RPC 1.0: one address; the body names the operation."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse, Response

from a2a.protocol.bindings.bodies import parse
from a2a.protocol.calls import Json
from a2a.protocol.errors import INVALID_REQUEST, METHOD_NOT_FOUND, ProtocolError
from a2a.protocol.operations import OPERATIONS


class JsonRpc:
    """One request, and what is sent for it."""

    version = "1.0"
    media_type = b"application/json"
    # Whether a stream that cannot begin tells so as its only event.
    refuses_in_streams = False

    def __init__(self) -> None:
        self._id: str | int | None = None

    def read(self, body: bytes, scope: Any) -> tuple[str, Any]:
        """The operation, and its parameters. Raises ``ProtocolError``."""
        request = parse(body)
        self._id = _id_of(request)
        if why := _why_malformed(request):
            raise ProtocolError(INVALID_REQUEST, why)
        return self._call_in(request)

    def _call_in(self, request: Json) -> tuple[str, Any]:
        if request["method"] not in OPERATIONS:
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found")
        return request["method"], request.get("params", {})

    def result(self, operation: str, result: bytes) -> bytes:
        request_id = json.dumps(self._id).encode()
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, result)

    def error(self, error: ProtocolError) -> Response:
        return JSONResponse(self._error_as_json(error))

    def event(self, body: Json) -> bytes:
        return as_event({"jsonrpc": "2.0", "id": self._id, "result": body})

    def error_event(self, error: ProtocolError) -> bytes:
        return as_event(self._error_as_json(error))

    def _error_as_json(self, error: ProtocolError) -> Json:
        fields = {"code": error.kind.code, "message": error.message, "data": self._data_of(error)}
        return {"jsonrpc": "2.0", "id": self._id, "error": fields}

    def _data_of(self, error: ProtocolError) -> Any:
        return error.details()


def as_event(body: Json) -> bytes:
    """A server-sent event."""
    return f"data: {json.dumps(body)}\r\n\r\n".encode()


def _id_of(request: Any) -> str | int | None:
    """The id of a request, which may be of any form."""
    request_id = request.get("id") if isinstance(request, dict) else None
    is_id = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    return request_id if is_id else None


def _why_malformed(request: Any) -> str:
    if not isinstance(request, dict):
        return "A request is one JSON object; batches are not supported."
    if request.get("jsonrpc") != "2.0":
        return "'jsonrpc' must be exactly '2.0'."
    if request.get("id") != _id_of(request):
        return "The id must be a string, an integer or null."
    if not request.get("method") or not isinstance(request["method"], str):
        return "The method must be a string."
    if not isinstance(request.get("params", {}), dict | list | None):
        return "The params must be an object."
    if not set(request) <= {"jsonrpc", "id", "method", "params"}:
        return "A request has no members but jsonrpc, id, method and params."
    return ""
