"""Rows ⇄ the protocol's messages. Only this module imports the SDK."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any

from a2a.client.card_resolver import parse_agent_card as parse_agent_card
from a2a.client.client import Client as Client
from a2a.client.client import ClientConfig as ClientConfig
from a2a.client.client_factory import ClientFactory as ClientFactory
from a2a.server.context import ServerCallContext as ServerCallContext
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
)
from a2a.utils.errors import (
    ContentTypeNotSupportedError as ContentTypeNotSupportedError,
)
from a2a.utils.errors import (
    InvalidParamsError as InvalidParamsError,
)
from a2a.utils.errors import (
    TaskNotCancelableError as TaskNotCancelableError,
)
from a2a.utils.errors import (
    TaskNotFoundError as TaskNotFoundError,
)
from a2a.utils.errors import (
    UnsupportedOperationError as UnsupportedOperationError,
)
from a2a.utils.signing import create_agent_card_signer as create_agent_card_signer
from google.protobuf.json_format import MessageToDict as MessageToDict
from google.protobuf.json_format import ParseDict as ParseDict
from starlette.requests import Request

from a2a.compat.v0_3.conversions import to_compat_agent_card
from a2a.envelope import EXTENSION
from a2a.models import Artifact, Message, Question, QuestionState, Task
from a2a.rendering import question_as_json, reason_as_json
from a2a.states import TaskState
from ledger.intents import UNSAFE
from ledger.models import Event
from ledger.rendering import render_token

# What our own facts about a task travel under, in its metadata.
FACTS = "urn:assent:a2a:task:1"

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
ROLE_OUT = {"user": pb.ROLE_USER, "agent": pb.ROLE_AGENT}


class CallerContextBuilder(DefaultServerCallContextBuilder):
    """Hands on who calls, as the door in front of us found out."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state["caller"] = request.scope["assent.caller"]
        return context


def dispatcher_for_v03(
    handler: RequestHandler, context_builder: CallerContextBuilder
) -> JsonRpcDispatcher:
    """Version 0.3, at an address of its own."""
    return JsonRpcDispatcher(handler, context_builder, enable_v0_3_compat=True)


def v03_card(card: pb.AgentCard, address: str) -> dict[str, Any]:
    """The card as version 0.3 has it, for its own address. It is not signed."""
    plain = pb.AgentCard()
    plain.CopyFrom(card)
    plain.ClearField("signatures")
    plain.ClearField("supported_interfaces")
    plain.supported_interfaces.add(url=address, protocol_binding="JSONRPC", protocol_version="0.3")
    said: dict[str, Any] = to_compat_agent_card(plain).model_dump(
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


def envelope_in(request: pb.SendMessageRequest) -> Any:
    """As sent: in the message's metadata, or in the request's."""
    for metadata in (request.message.metadata, request.metadata):
        if EXTENSION in metadata.fields:
            return _tidy(MessageToDict(metadata.fields[EXTENSION]))
    return None


def skill_and_input(
    parts: list[dict[str, Any]], metadata: dict[str, Any], envelope: Any
) -> tuple[str, Any]:
    """What a message asks for.

    Either a data part ``{"skill": …, "input": …}``; or the skill in the metadata (or the
    envelope's ``capability``), and the input in the first data part, or the text.
    """
    data = next((part["data"] for part in parts if "data" in part), None)
    if isinstance(data, dict) and isinstance(data.get("skill"), str) and set(data) <= _ASKING:
        return data["skill"], data.get("input")
    named = metadata.get("skill") or metadata.get("skillId")
    if not named and isinstance(envelope, dict):
        named = envelope.get("capability")
    text = "\n".join(part["text"] for part in parts if "text" in part)
    return str(named or ""), data if data is not None else {"text": text}


_ASKING = {"skill", "input"}


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


def said_in(status: pb.TaskStatus) -> str:
    """The words of a remote agent, without what could mislead their reader."""
    texts = [part.text for part in status.message.parts if part.WhichOneof("content") == "text"]
    plain = "\n".join(texts).replace("\r\n", "\n")
    return UNSAFE.sub("\N{REPLACEMENT CHARACTER}", plain).strip()[:8000]


def question_in(status: pb.TaskStatus) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Form and evidence of a question, from an agent that speaks as we do; else nothing."""
    for part in status.message.parts:
        if part.WhichOneof("content") != "data":
            continue
        data = _tidy(MessageToDict(part.data))
        question = data.get("question") if isinstance(data, dict) else None
        if isinstance(question, dict):
            form, evidence = question.get("form"), question.get("evidence")
            return (
                form if isinstance(form, dict) else {},
                evidence if isinstance(evidence, list) else [],
            )
    return {}, []


def task_of_message(message: pb.Message) -> pb.Task:
    """An agent that answers with a message has done its task by that."""
    task = pb.Task(id=message.message_id, context_id=message.context_id)
    task.status.state = pb.TASK_STATE_COMPLETED
    artifact = task.artifacts.add(artifact_id="answer", name="Answer")
    artifact.parts.extend(message.parts)
    return task


# --- to the protocol -----------------------------------------------------------------------


def task_out(
    task: Task, history: list[Message], artifacts: list[Artifact], question: Question | None
) -> pb.Task:
    found = pb.Task(id=str(task.pk), context_id=task.context_id)
    found.status.CopyFrom(status_out(task, question))
    found.history.extend(message_out(message, task) for message in history)
    found.artifacts.extend(artifact_out(artifact) for artifact in artifacts)
    ParseDict({**task.metadata, FACTS: facts_of(task)}, found.metadata)
    return found


def facts_of(task: Task) -> dict[str, Any]:
    """Version 1 of what we say about a task; docs/a2a.md has its schema."""
    facts: dict[str, Any] = {
        "skill": task.skill_slug,
        "owner": task.owner,
        "depth": task.depth,
        "trace_id": task.trace_id,
        "created_at": task.created_at.isoformat(),
    }
    if task.parent_id:
        facts["parent_task"] = str(task.parent_id)
    if task.percent is not None or task.stage:
        facts["progress"] = {"stage": task.stage, "percent": task.percent, "message": task.note}
    if task.expires_at:
        facts["expires_at"] = task.expires_at.isoformat()
    if reason := reason_as_json(task):
        facts["reason"] = reason
    return facts


def status_out(task: Task, question: Question | None) -> pb.TaskStatus:
    said: list[dict[str, Any]] = []
    if question is not None and task.state == TaskState.INPUT_REQUIRED:
        said = [{"text": question.text}, {"data": _question_data(question)}]
    elif task.state == TaskState.AUTH_REQUIRED and task.transaction is not None:
        token = json.loads(render_token(task.transaction, None))
        said = [{"text": f"Waiting for sign-off: {token['action_summary']}"},
                {"data": {"token_of_intent": token}}]  # fmt: skip
    elif reason := reason_as_json(task):
        said = [{"text": task.reason}, {"data": {"reason": reason}}]
    elif task.note or task.stage:
        said = [{"text": task.note or task.stage}]
    return _status(task, task.state, task.updated_at, said, f"status-{task.pk}")


def _question_data(question: Question) -> dict[str, Any]:
    """Without what passes: the seconds left would make every look another one."""
    said = question_as_json(question)
    for name in ("expires_in", "answer", "answered_by", "answered_via", "task_id"):
        said.pop(name)
    return {"question": said}


def _status(
    task: Task, state: str, at: datetime, said: list[dict[str, Any]], message_id: str
) -> pb.TaskStatus:
    status = pb.TaskStatus(state=STATE_OUT[TaskState(state)])
    status.timestamp.FromDatetime(at)
    if said:
        message = status.message
        message.message_id, message.role = message_id, pb.ROLE_AGENT
        message.task_id, message.context_id = str(task.pk), task.context_id
        message.parts.extend(ParseDict(part, pb.Part()) for part in said)
    return status


def message_out(message: Message, task: Task) -> pb.Message:
    found = pb.Message(
        message_id=message.message_id,
        role=ROLE_OUT[message.role],
        task_id=str(task.pk),
        context_id=task.context_id,
    )
    found.parts.extend(ParseDict(part, pb.Part()) for part in message.parts)
    if message.metadata:
        ParseDict(message.metadata, found.metadata)
    return found


def artifact_out(artifact: Artifact, start: int = 0, count: int | None = None) -> pb.Artifact:
    end = None if count is None else start + count
    found = pb.Artifact(
        artifact_id=artifact.artifact_id, name=artifact.name, description=artifact.description
    )
    found.parts.extend(ParseDict(part, pb.Part()) for part in artifact.parts[start:end])
    return found


def event_out(
    event: Event, task: Task, artifacts: dict[str, Artifact], questions: dict[str, Question]
) -> pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent | None:
    """One event of the audit chain, as those who watch the task are told of it."""
    details = json.loads(event.details)
    if event.kind == "task_message_added":
        return None
    if event.kind == "task_artifact_added":
        artifact = artifacts.get(details["artifact_id"])
        if artifact is None:
            return None
        return pb.TaskArtifactUpdateEvent(
            task_id=str(task.pk),
            context_id=task.context_id,
            artifact=artifact_out(artifact, details["from"], details["parts"]),
            append=details["append"],
            last_chunk=details["last"],
        )
    update = pb.TaskStatusUpdateEvent(task_id=str(task.pk), context_id=task.context_id)
    said = _said_by(event, details, questions)
    update.status.CopyFrom(
        _status(task, event.to_state, event.at, said, f"event-{task.pk}-{event.seq}")
    )
    facts = {"kind": event.kind, "seq": event.seq, "by": event.principal}
    ParseDict({FACTS: facts}, update.metadata)
    return update


def _said_by(
    event: Event, details: dict[str, Any], questions: dict[str, Question]
) -> list[dict[str, Any]]:
    if event.kind == "task_asked":
        question = questions.get(event.reason)
        data = [{"data": _question_data(question)}] if question else []
        return [{"text": event.reason}, *data]
    if event.kind == "task_progressed":
        text = details.get("message") or details.get("stage") or ""
        return [*([{"text": text}] if text else []), {"data": {"progress": details}}]
    if "code" in details:
        reason = {"code": details["code"], "detail": event.reason}
        return [{"text": event.reason}, {"data": {"reason": reason}}]
    return [{"text": event.reason}] if event.reason else []


def render(task: Task, history: int | None = None, artifacts: bool = True) -> pb.Task:
    """The protocol's task; ``history`` as the protocol counts it: ``None`` is all, 0 is none."""
    messages = [] if history == 0 else list(task.messages.order_by("-pk")[:history])[::-1]
    found = list(task.artifacts.order_by("pk")) if artifacts else []
    return task_out(task, messages, found, open_question(task))


def open_question(task: Task) -> Question | None:
    if task.state != TaskState.INPUT_REQUIRED:
        return None
    return task.questions.filter(state=QuestionState.OPEN).first()


__all__ = ["A2A_JSON", "EXTENSION", "pb"]
