"""HTTP+JSON 1.0: the method and the path name the operation."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from starlette.responses import JSONResponse, Response

from a2a.protocol.bindings.bodies import parse
from a2a.protocol.bindings.json_rpc import as_event
from a2a.protocol.calls import Json
from a2a.protocol.errors import INVALID_REQUEST, UNAVAILABLE, ProtocolError
from a2a.wire.sdk import A2A_JSON
from ledger.errors import DatabaseAway

CONFIGS = "/tasks/{taskId}/pushNotificationConfigs"
# HTTP method, path with names of parameters, and operation.
ROUTES = (
    ("POST", "/message:send", "SendMessage"),
    ("POST", "/message:stream", "SendStreamingMessage"),
    ("POST", "/tasks/{id}:cancel", "CancelTask"),
    ("GET", "/tasks/{id}:subscribe", "SubscribeToTask"),
    ("POST", "/tasks/{id}:subscribe", "SubscribeToTask"),
    ("GET", "/tasks/{id}", "GetTask"),
    ("GET", CONFIGS + "/{id}", "GetTaskPushNotificationConfig"),
    ("DELETE", CONFIGS + "/{id}", "DeleteTaskPushNotificationConfig"),
    ("POST", CONFIGS, "CreateTaskPushNotificationConfig"),
    ("GET", CONFIGS, "ListTaskPushNotificationConfigs"),
    ("GET", "/tasks", "ListTasks"),
    ("GET", "/extendedAgentCard", "GetExtendedAgentCard"),
)
WITH_BODY = {"SendMessage", "SendStreamingMessage", "CreateTaskPushNotificationConfig"}
WITH_QUERY = {"GetTask", "ListTasks", "ListTaskPushNotificationConfigs"}


class HttpJson:
    """One request, and what is sent for it."""

    version = "1.0"
    media_type = A2A_JSON.encode()
    refuses_in_streams = False

    def __init__(self, operation: str) -> None:
        self._operation = operation

    def read(self, body: bytes, scope: Any) -> tuple[str, Any]:
        """The operation, and its parameters. Raises ``ProtocolError``."""
        sent: Any = {}
        if self._operation in WITH_BODY:
            sent = parse(body, is_strict=True)
        elif self._operation in WITH_QUERY:
            sent = _query(scope)
        if not isinstance(sent, dict):
            raise ProtocolError(INVALID_REQUEST, "The body is one JSON object.")
        sent.pop("tenant", None)  # it stands in the path
        return self._operation, sent | scope["path_params"]

    def result(self, operation: str, result: bytes) -> bytes:
        return b"{}" if result == b"null" else result

    def error(self, error: ProtocolError) -> Response:
        is_away = error.kind == UNAVAILABLE
        headers = {"Retry-After": str(DatabaseAway.retry_after_s)} if is_away else None
        return JSONResponse(_error_as_json(error), error.kind.http, headers)

    def event(self, body: Json) -> bytes:
        return as_event(body)

    def error_event(self, error: ProtocolError) -> bytes:
        return b"event: error\r\n" + as_event(_error_as_json(error))


def _error_as_json(error: ProtocolError) -> Json:
    fields = {"code": error.kind.http, "status": error.kind.status, "message": error.message}
    return {"error": {**fields, "details": error.details()}}


def _query(scope: Any) -> Json:
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    sent: Json = dict(query)
    if "includeArtifacts" in sent:
        sent["includeArtifacts"] = sent["includeArtifacts"].lower() == "true"
    return sent
