"""The errors of the protocol: their numbers in each binding, and the error for each failure."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from django.db import DataError

from ledger.api.http import database_away
from ledger.errors import LedgerError, NotFound
from ledger.foundation.postgres.sessions import CONNECTION_LOST

logger = logging.getLogger(__name__)


class Kind(NamedTuple):
    """An error's code in JSON-RPC, its HTTP status, and its names in HTTP+JSON."""

    code: int
    http: int
    status: str
    reason: str


NOT_JSON = Kind(-32700, 400, "INVALID_ARGUMENT", "INVALID_REQUEST")
INVALID_REQUEST = Kind(-32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST")
METHOD_NOT_FOUND = Kind(-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND")
INVALID_PARAMS = Kind(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS")
INTERNAL = Kind(-32603, 500, "INTERNAL", "UNKNOWN_ERROR")
# The database did not answer; JSON-RPC has no code of its own for that.
UNAVAILABLE = Kind(-32603, 503, "UNAVAILABLE", "DATABASE_AWAY")
TASK_NOT_FOUND = Kind(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND")
TASK_NOT_CANCELABLE = Kind(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE")
UNSUPPORTED_OPERATION = Kind(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")
VERSION_NOT_SUPPORTED = Kind(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED")


class ProtocolError(Exception):
    """An error as a client is told; ``data`` is for machines."""

    def __init__(self, kind: Kind, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.data = kind, message, data

    def details(self) -> list[dict[str, Any]]:
        """The error as the typed details of ``google.rpc``."""
        data = self.data if isinstance(self.data, dict) else {}
        info = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.kind.reason,
            "domain": "a2a-protocol.org",
            "metadata": data,
        }
        if self.kind != INVALID_PARAMS or not data.get("errors"):
            return [info]
        violations = [
            {"field": error["field"], "description": error["message"]} for error in data["errors"]
        ]
        kind = "type.googleapis.com/google.rpc.BadRequest"
        return [info, {"@type": kind, "fieldViolations": violations}]


class NotAuthenticated(Exception):
    """The token is not one of ours any more."""


def error_of(failure: Exception, operation: str, *, is_read: bool) -> ProtocolError:
    """The error to answer with after a failure; an unexpected one is logged, and says nothing."""
    match failure:
        case ProtocolError():
            return failure
        case NotFound():
            return ProtocolError(TASK_NOT_FOUND, "Task not found")
        case LedgerError():
            kind = UNSUPPORTED_OPERATION if failure.status == 409 else INVALID_PARAMS
            plain = {k: v for k, v in failure.extra.items() if isinstance(v, str | list)}
            data = {"code": failure.code, "hint": failure.hint, **plain}
            return ProtocolError(kind, failure.detail, data)
        case DataError():
            logger.error("%s was sent what cannot be stored", operation, exc_info=failure)
            return ProtocolError(INVALID_PARAMS, "It holds a value that cannot be stored.")
    if isinstance(failure, CONNECTION_LOST):
        away = database_away(failure, f"A2A {operation}", is_read=is_read)
        data = {"code": away.code, "hint": away.hint, "retryAfter": f"{away.retry_after_s}s"}
        return ProtocolError(UNAVAILABLE, f"{away.title}. {away.detail} {away.hint}", data)
    logger.error("unexpected failure of %s", operation, exc_info=failure)
    detail = "Assent failed; it was logged. Repeat the request with the same key."
    return ProtocolError(INTERNAL, detail)
