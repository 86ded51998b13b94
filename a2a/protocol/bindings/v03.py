"""JSON-RPC 0.3: its requests as those of 1.0, and the results of 1.0 as its own."""

from __future__ import annotations

import json
from typing import Any

from a2a import cards
from a2a.protocol.bindings.json_rpc import JsonRpc
from a2a.protocol.calls import Json
from a2a.protocol.errors import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    VERSION_NOT_SUPPORTED,
    ProtocolError,
)
from a2a.protocol.operations import OPERATIONS
from a2a.wire import sdk
from a2a.wire.sdk import pb, v03, v03_types as types

# Method → operation, the type of its request, and the SDK's function that makes one of 1.0 of it.
METHODS: dict[str, tuple[str, Any, str]] = {
    "message/send": ("SendMessage", types.SendMessageRequest, "send_message"),
    "message/stream": ("SendStreamingMessage", types.SendStreamingMessageRequest, "send_message"),
    "tasks/get": ("GetTask", types.GetTaskRequest, "get_task"),
    "tasks/cancel": ("CancelTask", types.CancelTaskRequest, "cancel_task"),
    "tasks/resubscribe": (
        "SubscribeToTask",
        types.TaskResubscriptionRequest,
        "subscribe_to_task",
    ),
    "agent/getAuthenticatedExtendedCard": (
        "GetExtendedAgentCard",
        types.GetAuthenticatedExtendedCardRequest,
        "get_extended_agent_card",
    ),
} | {
    f"tasks/pushNotificationConfig/{old.lower()}": (
        f"{new}TaskPushNotificationConfig{plural}",
        getattr(types, f"{old}TaskPushNotificationConfigRequest"),
        f"{new.lower()}_task_push_notification_config",
    )
    for old, new, plural in (
        ("Set", "Create", ""),
        ("Get", "Get", ""),
        ("List", "List", "s"),
        ("Delete", "Delete", ""),
    )
}


class JsonRpcOfV03(JsonRpc):
    version = "0.3"
    refuses_in_streams = True

    def read(self, body: bytes, scope: Any) -> tuple[str, Any]:
        self._skill: str = scope["assent.skill"]
        return super().read(body, scope)

    def _call_in(self, request: Json) -> tuple[str, Any]:
        if request["method"] in OPERATIONS:
            detail = "That is a method of version 1.0, which has another address."
            raise ProtocolError(VERSION_NOT_SUPPORTED, detail)
        if request["method"] not in METHODS:
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found")
        operation, kind, name = METHODS[request["method"]]
        try:
            of_v1 = getattr(v03, f"to_core_{name}_request")
            params = sdk.json_of(of_v1(kind.model_validate(request)))
        except (ValueError, TypeError) as failure:
            raise ProtocolError(INVALID_PARAMS, "Invalid params", str(failure)) from None
        return operation, params

    def result(self, operation: str, result: bytes) -> bytes:
        body = _of_v1(operation, json.loads(result), self._skill)
        return super().result(operation, json.dumps(body).encode())

    def event(self, body: Json) -> bytes:
        message = sdk.message(pb.StreamResponse, body)
        return super().event(_as_json(v03.to_compat_stream_response(message).result))

    def _data_of(self, error: ProtocolError) -> Any:
        return error.data


def _of_v1(operation: str, body: Any, skill: str) -> Any:
    """The result of an operation as version 0.3 has it."""
    match operation:
        case "SendMessage":
            return _task(body["task"])
        case "GetTask" | "CancelTask":
            return _task(body)
        case "CreateTaskPushNotificationConfig" | "GetTaskPushNotificationConfig":
            return _push_config(body)
        case "ListTaskPushNotificationConfigs":
            return [_push_config(config) for config in body.get("configs", [])]
        case "GetExtendedAgentCard":
            return cards.v03_card(sdk.message(pb.AgentCard, body), skill)
    return None


def _task(body: Json) -> Json:
    return _as_json(v03.to_compat_task(sdk.message(pb.Task, body)))


def _push_config(body: Json) -> Json:
    message = sdk.message(pb.TaskPushNotificationConfig, body)
    return _as_json(v03.to_compat_task_push_notification_config(message))


def _as_json(value: Any) -> Json:
    body: Json = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return body
