"""Assent as a client of A2A: cards and tasks of remote agents, in types of our own.

Everything here was sent by a stranger. Texts are cleaned; the rest is checked where it is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from a2a.states import TaskState
from a2a.validation import cost_in
from a2a.wire import sdk
from a2a.wire.sdk import pb
from a2a.wire.to_json import FACTS
from ledger.foundation import characters

Json = dict[str, Any]
BINDINGS = ("JSONRPC", "HTTP+JSON")
CAPABILITIES = ("streaming", "push_notifications", "extended_agent_card")
TEXT_MAX = 8000  # characters


@dataclass(frozen=True, slots=True)
class RemoteSkill:
    id: str
    name: str
    description: str
    tags: list[str]
    input_modes: list[str]
    output_modes: list[str]
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RemoteCard:
    """The content of an agent card. ``extensions``: the parameters of each, by its URI."""

    name: str
    version: str
    skills: list[RemoteSkill]
    bindings: frozenset[str]
    capabilities: frozenset[str]
    input_modes: list[str]
    extensions: dict[str, Json] = field(default_factory=dict)


def card_from_json(card: Json) -> RemoteCard:
    """Parse an agent card of any version that the SDK reads. Raises what its parser raises."""
    parsed = _parsed_card(card)
    return RemoteCard(
        name=parsed.name,
        version=parsed.version,
        skills=[
            RemoteSkill(
                skill.id,
                skill.name,
                skill.description,
                list(skill.tags),
                list(skill.input_modes),
                list(skill.output_modes),
                [example[:2000] for example in skill.examples[:10]],
            )
            for skill in parsed.skills
        ],
        bindings=frozenset(face.protocol_binding for face in parsed.supported_interfaces),
        capabilities=frozenset(name for name in CAPABILITIES if getattr(parsed.capabilities, name)),
        input_modes=list(parsed.default_input_modes),
        extensions={
            extension.uri: sdk.json_of(extension.params)
            for extension in parsed.capabilities.extensions
        },
    )


def _parsed_card(card: Json) -> pb.AgentCard:
    # A copy: the SDK's parser changes what it is given.
    parsed: pb.AgentCard = sdk.parse_agent_card(json.loads(json.dumps(card)))
    return parsed


@dataclass(frozen=True, slots=True)
class RemoteTask:
    """A task as the remote agent describes it; ``digest`` differs whenever anything changed.

    ``form`` and ``evidence`` are those of a question, from agents that use Assent's data parts;
    ``cost`` is in the metadata, under its own name or among Assent's facts.
    """

    id: str
    context_id: str
    state: TaskState
    text: str
    form: Json
    evidence: list[Any]
    artifacts: list[Json]
    digest: str
    cost: Json | None = None


def _task(theirs: pb.Task) -> RemoteTask:
    fields = sdk.MessageToDict(theirs)
    metadata = sdk.json_of(theirs.metadata)
    form, evidence = _question(theirs.status)
    return RemoteTask(
        id=theirs.id,
        context_id=theirs.context_id,
        state=sdk.STATE_IN.get(theirs.status.state, TaskState.WORKING),
        text=_text(theirs.status),
        form=form,
        evidence=evidence,
        artifacts=[sdk.MessageToDict(artifact) for artifact in theirs.artifacts],
        digest=hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest(),
        cost=cost_in(metadata) or cost_in(metadata.get(FACTS)),
    )


def _text(status: pb.TaskStatus) -> str:
    """The texts of a status, without characters that could mislead a reader."""
    texts = [part.text for part in status.message.parts if part.WhichOneof("content") == "text"]
    plain = "\n".join(texts).replace("\r\n", "\n")
    return characters.cleaned(plain).strip()[:TEXT_MAX]


def _question(status: pb.TaskStatus) -> tuple[Json, list[Any]]:
    for part in status.message.parts:
        if part.WhichOneof("content") != "data":
            continue
        data = sdk.json_of(part.data)
        question = data.get("question") if isinstance(data, dict) else None
        if isinstance(question, dict):
            form, evidence = question.get("form"), question.get("evidence")
            return (
                form if isinstance(form, dict) else {},
                evidence if isinstance(evidence, list) else [],
            )
    return {}, []


class TaskUnknown(Exception):
    """The remote agent does not know the task, or not any more."""


class Connection:
    """Requests to one remote agent over an HTTP client.

    Its methods raise ``TaskUnknown``, and what the SDK and httpx raise.
    """

    def __init__(self, http: httpx.AsyncClient, card: Json) -> None:
        config = sdk.ClientConfig(
            streaming=False,
            polling=True,
            httpx_client=http,
            supported_protocol_bindings=list(BINDINGS),
        )
        self._client = sdk.ClientFactory(config).create(_parsed_card(card))

    async def send(self, message: Json, push: Json | None = None) -> tuple[RemoteTask, Json]:
        """Send a message; the task that they made of it, and the message as it was sent.

        ``push`` is a push notification config, ``{"url": …, "token": …}``.
        """
        request = pb.SendMessageRequest()
        sdk.ParseDict({"message": message}, request)
        request.configuration.return_immediately = True
        if push:
            config = request.configuration.task_push_notification_config
            config.url, config.token = push["url"], push["token"]
        return _task(await self._sent(request)), sdk.MessageToDict(request.message)

    async def _sent(self, request: pb.SendMessageRequest) -> pb.Task:
        with _errors_of_ours():
            async for response in self._client.send_message(request):
                kind = response.WhichOneof("payload")
                if kind == "task":
                    return response.task
                if kind == "message":
                    return _task_of_message(response.message)
        raise httpx.RemoteProtocolError("The remote agent answered without a task.")

    async def get(self, task_id: str) -> RemoteTask:
        with _errors_of_ours():
            return _task(await self._client.get_task(pb.GetTaskRequest(id=task_id)))

    async def cancel(self, task_id: str) -> None:
        """Cancel the task there; nothing if it has ended there by itself."""
        with _errors_of_ours(), suppress(sdk.A2AError):
            await self._client.cancel_task(pb.CancelTaskRequest(id=task_id))


@contextmanager
def _errors_of_ours() -> Iterator[None]:
    try:
        yield
    except sdk.TaskNotFoundError:
        raise TaskUnknown from None
    except httpx.HTTPStatusError as failure:
        if failure.response.status_code == 404:
            raise TaskUnknown from None
        raise


def _task_of_message(message: pb.Message) -> pb.Task:
    """An agent that answers with a message instead of a task has done the task by that."""
    status = pb.TaskStatus(state=pb.TASK_STATE_COMPLETED)
    task = pb.Task(id=message.message_id, context_id=message.context_id, status=status)
    artifact = task.artifacts.add(artifact_id="answer", name="Answer")
    artifact.parts.extend(message.parts)
    return task
