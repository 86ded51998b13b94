"""What clients are told when an operation fails unexpectedly, in the protocol's errors."""

from __future__ import annotations

import logging
from typing import Any

from starlette.responses import JSONResponse, Response

from a2a.wire import sdk
from ledger.database.sessions import CONNECTION_LOST
from ledger.errors import DatabaseAway
from ledger.http import database_away

logger = logging.getLogger(__name__)
AUTHENTICATE = "authentication"
# What changes nothing: methods of JSON-RPC and of HTTP, and operations behind the SDK.
READS = frozenset(
    {AUTHENTICATE, "GetTask", "ListTasks", "SubscribeToTask", "GET", "_read", "_list", "open_task"}
)


def error_of(failure: Exception, operation: str) -> sdk.A2AError:
    """The error to answer with. It says whether anything can have been changed; it is logged."""
    if isinstance(failure, CONNECTION_LOST):
        away = database_away(failure, f"A2A {operation}", is_read=operation in READS)
        data = {"code": away.code, "hint": away.hint, "retryAfter": f"{away.retry_after_s}s"}
        return sdk.UnavailableError(f"{away.title}. {away.detail} {away.hint}", data)
    logger.error("unexpected failure of %s", operation, exc_info=failure)
    return sdk.A2AError("Assent failed; it was logged. Repeat the request with the same key.")


def rpc_body(error: sdk.A2AError, request_id: str | int | None) -> dict[str, Any]:
    """The error as the answer to a JSON-RPC request."""
    return sdk.build_error_response(request_id, error)


def id_of(request: Any) -> str | int | None:
    """The id of a JSON-RPC request, which may be of any form."""
    request_id = request.get("id") if isinstance(request, dict) else None
    is_id = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    return request_id if is_id else None


def response_to(error: sdk.A2AError, request: Any, *, is_rest: bool) -> Response:
    if not is_rest:
        return JSONResponse(rpc_body(error, id_of(request)))
    body = sdk.build_rest_error_payload(error)
    is_away = isinstance(error, sdk.UnavailableError)
    headers = {"Retry-After": str(DatabaseAway.retry_after_s)} if is_away else None
    return JSONResponse(body, body["error"]["code"], headers)
