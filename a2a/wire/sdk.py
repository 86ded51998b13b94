"""Rows ⇄ the protocol's messages. Only this module imports the SDK."""

from __future__ import annotations

import json
import math
from typing import Any

from a2a.client.card_resolver import parse_agent_card as parse_agent_card
from a2a.client.client import Client as Client, ClientConfig as ClientConfig
from a2a.client.client_factory import ClientFactory as ClientFactory
from a2a.server.context import ServerCallContext as ServerCallContext
from a2a.server.jsonrpc_models import (
    InvalidParamsError as CoreInvalidParamsError,
    InvalidRequestError as CoreInvalidRequestError,
)
from a2a.server.request_handlers.request_handler import RequestHandler as RequestHandler
from a2a.server.request_handlers.response_helpers import (
    agent_card_to_dict as agent_card_to_dict,
)
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher as JsonRpcDispatcher
from a2a.server.routes.rest_routes import create_rest_routes as create_rest_routes
from a2a.types import a2a_pb2 as pb
from a2a.utils.constants import A2A_JSON_MEDIA_TYPE as A2A_JSON
from a2a.utils.errors import (
    A2AError as A2AError,
    ContentTypeNotSupportedError as ContentTypeNotSupportedError,
    InvalidParamsError as InvalidParamsError,
    TaskNotCancelableError as TaskNotCancelableError,
    TaskNotFoundError as TaskNotFoundError,
    UnsupportedOperationError as UnsupportedOperationError,
)
from a2a.utils.signing import create_agent_card_signer as create_agent_card_signer
from google.protobuf.json_format import MessageToDict as MessageToDict, ParseDict as ParseDict
from starlette.requests import Request

from a2a.compat.v0_3.conversions import to_compat_agent_card
from a2a.compat.v0_3.jsonrpc_adapter import JSONRPC03Adapter
from a2a.states import TaskState
from a2a.submissions.envelope import EXTENSION

V03_EXTENDED_CARD = "agent/getAuthenticatedExtendedCard"
STATE_OUT = {
    TaskState.SUBMITTED: pb.TASK_STATE_SUBMITTED,
    TaskState.WORKING: pb.TASK_STATE_WORKING,
    TaskState.INPUT_REQUIRED: pb.TASK_STATE_INPUT_REQUIRED,
    TaskState.AUTH_REQUIRED: pb.TASK_STATE_AUTH_REQUIRED,
    TaskState.COMPLETED: pb.TASK_STATE_COMPLETED,
    TaskState.FAILED: pb.TASK_STATE_FAILED,
    TaskState.CANCELED: pb.TASK_STATE_CANCELED,
    TaskState.REJECTED: pb.TASK_STATE_REJECTED,
}
STATE_IN = {number: state for state, number in STATE_OUT.items()}


class CallerContextBuilder(DefaultServerCallContextBuilder):
    """Hands on who calls, as the door in front of us found out."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state["caller"] = request.scope["assent.caller"]
        context.state["skill"] = request.scope["assent.skill"]
        return context


def dispatcher_for_v03(
    handler: RequestHandler, context_builder: CallerContextBuilder
) -> JsonRpcDispatcher:
    """Version 0.3, at an address of its own."""
    dispatcher = JsonRpcDispatcher(handler, context_builder, enable_v0_3_compat=True)
    dispatcher._v03_adapter = _Adapter03(handler, context_builder)
    return dispatcher


class _Adapter03(JSONRPC03Adapter):
    """The SDK's, but for what it calls an error of the whole request."""

    def _generate_error_response(self, request_id: Any, error: Any) -> Any:
        # The dispatcher has checked all but the params before it comes here.
        if isinstance(error, CoreInvalidRequestError):
            error = CoreInvalidParamsError(data=error.data)
        return super()._generate_error_response(request_id, error)


def for_v03(card: pb.AgentCard, address: str) -> pb.AgentCard:
    """The card for the address of version 0.3. It is not signed."""
    plain = pb.AgentCard()
    plain.CopyFrom(card)
    plain.ClearField("signatures")
    plain.ClearField("supported_interfaces")
    plain.supported_interfaces.add(url=address, protocol_binding="JSONRPC", protocol_version="0.3")
    return plain


def v03_card(card: pb.AgentCard, address: str) -> dict[str, Any]:
    """The card as version 0.3 has it."""
    said: dict[str, Any] = to_compat_agent_card(for_v03(card, address)).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    return said


# --- from the protocol ---------------------------------------------------------------------


def parts_in(message: pb.Message) -> list[dict[str, Any]]:
    return [_tidy(MessageToDict(part)) for part in message.parts]


def struct_in(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = _tidy(MessageToDict(value))
    return found


def _tidy(value: Any) -> Any:
    """The protocol's numbers are doubles: 42 comes as 42.0, and is written down as 42."""
    if isinstance(value, dict):
        return {key: _tidy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidParamsError("A number is not finite.")
    return value


def value_in(value: Any) -> Any:
    """A protobuf value as JSON has it."""
    return _tidy(MessageToDict(value))


def envelope_in(request: pb.SendMessageRequest) -> Any:
    """As sent: in the message's metadata, or in the request's."""
    for metadata in (request.message.metadata, request.metadata):
        if EXTENSION in metadata.fields:
            return _tidy(MessageToDict(metadata.fields[EXTENSION]))
    return None


def answer_in(parts: list[dict[str, Any]], form: dict[str, Any]) -> Any:
    """The answer that a message gives to a question, in the shape that its form asks for."""
    for part in parts:
        if "data" in part:
            data = part["data"]
            is_wrapped = isinstance(data, dict) and set(data) == {"answer"}
            return data["answer"] if is_wrapped else data
    text = "\n".join(part["text"] for part in parts if "text" in part).strip()
    return _as_asked(text, form)


def _as_asked(text: str, form: dict[str, Any]) -> Any:
    kind = form.get("type")
    if kind == "object":
        names = list(form.get("properties", {}))
        if len(names) == 1:
            return {names[0]: _as_asked(text, form["properties"][names[0]])}
    if kind in {"object", "array", "number", "integer", "boolean"}:
        if kind == "boolean" and text.lower() in {"yes", "no"}:
            return text.lower() == "yes"
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


# --- to the protocol -----------------------------------------------------------------------


def task_out(said: dict[str, Any]) -> pb.Task:
    """What ``a2a.wire.to_json`` says of a task, as the SDK's message."""
    task = pb.Task()
    ParseDict(said, task)
    return task


def update_out(said: dict[str, Any]) -> pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent:
    """What ``a2a.wire.to_json`` says of an event."""
    response = pb.StreamResponse()
    ParseDict(said, response)
    kind: str = response.WhichOneof("payload")
    update: pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent = getattr(response, kind)
    return update


__all__ = ["A2A_JSON", "EXTENSION", "pb"]
