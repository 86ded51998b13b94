"""The SDK: everything of it that Assent uses, and JSON ⇄ its messages. Nobody else imports it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from a2a.client.card_resolver import parse_agent_card as parse_agent_card
from a2a.client.client import Client as Client, ClientConfig as ClientConfig
from a2a.client.client_factory import ClientFactory as ClientFactory
from a2a.server.request_handlers.response_helpers import agent_card_to_dict as agent_card_to_dict
from a2a.types import a2a_pb2 as pb
from a2a.utils.constants import A2A_JSON_MEDIA_TYPE as A2A_JSON
from a2a.utils.errors import (
    A2AError as A2AError,
    InvalidParamsError as InvalidParamsError,
    TaskNotFoundError as TaskNotFoundError,
)
from a2a.utils.signing import create_agent_card_signer as create_agent_card_signer
from google.protobuf.json_format import MessageToDict as MessageToDict, ParseDict as ParseDict
from google.protobuf.message import Message

from a2a.compat.v0_3 import conversions as v03, types as v03_types
from a2a.states import TaskState

M = TypeVar("M", bound=Message)
STATE_IN = {pb.TaskState.Value(f"TASK_STATE_{state.name}"): state for state in TaskState}


def _for_v03(card: pb.AgentCard, address: str) -> pb.AgentCard:
    """The card with the address of version 0.3 as its only one, unsigned."""
    plain = pb.AgentCard()
    plain.CopyFrom(card)
    plain.ClearField("signatures")
    plain.ClearField("supported_interfaces")
    plain.supported_interfaces.add(url=address, protocol_binding="JSONRPC", protocol_version="0.3")
    return plain


def v03_card(card: pb.AgentCard, address: str) -> dict[str, Any]:
    """The card as JSON of version 0.3."""
    body: dict[str, Any] = v03.to_compat_agent_card(_for_v03(card, address)).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    return body


def json_of(message: Any) -> Any:
    """One of the SDK's messages, or a value of protobuf, as JSON."""
    return _tidy(MessageToDict(message))


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


def message(kind: Callable[[], M], body: Any) -> M:
    """The SDK's message of that JSON; members that it does not know are left out."""
    parsed: M = ParseDict(body, kind(), ignore_unknown_fields=True)
    return parsed


def normal(kind: Callable[[], M], body: Any) -> dict[str, Any]:
    """JSON as the protocol has it: known members under their own names, each of its type.

    Raises what protobuf's parser raises for JSON that is no such message.
    """
    fields: dict[str, Any] = json_of(message(kind, body))
    return fields


def with_empty_members(kind: Callable[[], M], body: Any) -> dict[str, Any]:
    """The JSON with all members that are empty."""
    full: dict[str, Any] = MessageToDict(
        message(kind, body), always_print_fields_with_no_presence=True
    )
    return full


__all__ = ["A2A_JSON", "pb", "v03", "v03_types"]
