"""The SDK: everything of it that Assent uses, and JSON ⇄ its messages. Nobody else imports it."""

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
    build_error_response as build_error_response,
)
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher as JsonRpcDispatcher
from a2a.server.routes.rest_routes import create_rest_routes as create_rest_routes
from a2a.types import a2a_pb2 as pb
from a2a.utils.constants import A2A_JSON_MEDIA_TYPE as A2A_JSON
from a2a.utils.error_handlers import build_rest_error_payload as build_rest_error_payload
from a2a.utils.errors import (
    A2A_ERROR_MAPPING,
    A2A_ERROR_REASONS,
    A2AError as A2AError,
    ContentTypeNotSupportedError as ContentTypeNotSupportedError,
    ErrorMapping,
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


class UnavailableError(A2AError):
    """The database did not answer; JSON-RPC has no code of its own for that, HTTP+JSON has 503."""


UNAVAILABLE = ErrorMapping(503, "UNAVAILABLE", "DATABASE_AWAY")
A2A_ERROR_MAPPING[UnavailableError] = UNAVAILABLE
A2A_ERROR_REASONS[UnavailableError] = UNAVAILABLE.reason


class CallerContextBuilder(DefaultServerCallContextBuilder):
    """Hands on what ``AuthMiddleware`` put into the scope: caller, token, address and skill."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        for name in ("caller", "token", "address", "skill"):
            context.state[name] = request.scope[f"assent.{name}"]
        return context


def dispatcher_for_v03(
    handler: RequestHandler, context_builder: CallerContextBuilder
) -> JsonRpcDispatcher:
    """JSON-RPC of version 0.3, at an address of its own."""
    dispatcher = JsonRpcDispatcher(handler, context_builder, enable_v0_3_compat=True)
    dispatcher._v03_adapter = _Adapter03(handler, context_builder)
    return dispatcher


class _Adapter03(JSONRPC03Adapter):
    """The SDK's adapter, but wrong parameters are not an error of the whole request."""

    def _generate_error_response(self, request_id: Any, error: Any) -> Any:
        # The dispatcher has checked everything but the parameters before this.
        if isinstance(error, CoreInvalidRequestError):
            error = CoreInvalidParamsError(data=error.data)
        return super()._generate_error_response(request_id, error)


def for_v03(card: pb.AgentCard, address: str) -> pb.AgentCard:
    """The card with the address of version 0.3 as its only one, unsigned."""
    plain = pb.AgentCard()
    plain.CopyFrom(card)
    plain.ClearField("signatures")
    plain.ClearField("supported_interfaces")
    plain.supported_interfaces.add(url=address, protocol_binding="JSONRPC", protocol_version="0.3")
    return plain


def v03_card(card: pb.AgentCard, address: str) -> dict[str, Any]:
    """The card as JSON of version 0.3."""
    body: dict[str, Any] = to_compat_agent_card(for_v03(card, address)).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    return body


# --- from the protocol ---------------------------------------------------------------------


def parts_in(message: pb.Message) -> list[dict[str, Any]]:
    return [_tidy(MessageToDict(part)) for part in message.parts]


def struct_in(value: Any) -> dict[str, Any]:
    fields: dict[str, Any] = _tidy(MessageToDict(value))
    return fields


def _tidy(value: Any) -> Any:
    """Whole numbers as integers: protobuf's are doubles, so 42 comes as 42.0."""
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
    """The envelope as sent, in the message's metadata or the request's; ``None``: there is none."""
    for metadata in (request.message.metadata, request.metadata):
        if EXTENSION in metadata.fields:
            return _tidy(MessageToDict(metadata.fields[EXTENSION]))
    return None


def answer_in(parts: list[dict[str, Any]], form: dict[str, Any]) -> Any:
    """The answer in a message: its first data part, else its text as the form's type."""
    for part in parts:
        if "data" in part:
            data = part["data"]
            is_wrapped = isinstance(data, dict) and set(data) == {"answer"}
            return data["answer"] if is_wrapped else data
    text = "\n".join(part["text"] for part in parts if "text" in part).strip()
    return _text_as(form, text)


def _text_as(form: dict[str, Any], text: str) -> Any:
    """The value of a text for a form; the text itself where it is none of the form's type."""
    kind = form.get("type")
    if kind == "object":
        names = list(form.get("properties", {}))
        if len(names) == 1:
            return {names[0]: _text_as(form["properties"][names[0]], text)}
    if kind == "boolean" and text.lower() in {"yes", "no"}:
        return text.lower() == "yes"
    if kind in {"object", "array", "number", "integer", "boolean"}:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


# --- to the protocol -----------------------------------------------------------------------


def task_out(body: dict[str, Any]) -> pb.Task:
    """A task of ``a2a.wire.to_json`` as the SDK's message."""
    task = pb.Task()
    ParseDict(body, task)
    return task


def update_out(body: dict[str, Any]) -> pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent:
    """An event of ``a2a.wire.to_json`` as the SDK's message."""
    response = pb.StreamResponse()
    ParseDict(body, response)
    kind: str = response.WhichOneof("payload")
    update: pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent = getattr(response, kind)
    return update


__all__ = ["A2A_JSON", "EXTENSION", "pb"]
