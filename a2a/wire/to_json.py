"""Rows as the protocol's JSON (A2A 1.0). Pure dicts; ``a2a.wire.sdk`` makes messages of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from a2a.models import Artifact, Message, Question, QuestionState, Task
from a2a.states import TaskEventKind, TaskState
from a2a.wire.plain_json import question_as_json, reason_and_details, reason_as_json
from ledger.api.rendering import render_token
from ledger.models import Event

# What our own facts about a task travel under, in its metadata.
FACTS = "urn:assent:a2a:task:1"
Json = dict[str, Any]


def render(task: Task, history: int | None = None, artifacts: bool = True) -> Json:
    """The protocol's task; ``history`` as the protocol counts it: ``None`` is all, 0 is none."""
    messages = [] if history == 0 else list(task.messages.order_by("-pk")[:history])[::-1]
    found = list(task.artifacts.order_by("pk")) if artifacts else []
    return task_to_json(task, messages, found, open_question(task))


def open_question(task: Task) -> Question | None:
    if task.state != TaskState.INPUT_REQUIRED:
        return None
    return task.questions.filter(state=QuestionState.OPEN).first()


def state_for_client(task: Task, question: Question | None) -> TaskState:
    """A question that only people may answer asks nothing of the client: to it the task is at work.

    INPUT_REQUIRED would tell it to speak, and would close its stream before the answer is there.
    """
    if task.state == TaskState.INPUT_REQUIRED and question is not None:
        return TaskState.INPUT_REQUIRED if question.is_for_client_of(task) else TaskState.WORKING
    return TaskState(task.state)


def task_to_json(
    task: Task, history: list[Message], artifacts: list[Artifact], question: Question | None
) -> Json:
    said: Json = {
        "id": str(task.pk),
        "contextId": task.context_id,
        "status": status_to_json(task, question),
    }
    if artifacts:
        said["artifacts"] = [artifact_to_json(artifact) for artifact in artifacts]
    if history:
        said["history"] = [message_to_json(message, task) for message in history]
    said["metadata"] = {**task.metadata, FACTS: facts_of(task)}
    return said


def facts_of(task: Task) -> Json:
    """Version 1 of what we say about a task; docs/a2a.md has its schema."""
    facts: Json = {
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
    if task.content_erased_at:
        facts["content_erased_at"] = task.content_erased_at.isoformat()
    if reason := reason_as_json(task):
        facts["reason"] = reason
    return facts


def status_to_json(task: Task, question: Question | None) -> Json:
    parts: list[Json] = []
    if question is not None and task.state == TaskState.INPUT_REQUIRED:
        parts = [{"text": question.text}, {"data": _question_data(question)}]
    elif task.state == TaskState.AUTH_REQUIRED and task.transaction is not None:
        token = json.loads(render_token(task.transaction, None))
        parts = [
            {"text": f"Waiting for sign-off: {token['action_summary']}"},
            {"data": {"token_of_intent": token}},
        ]
    elif task.content_erased_at is not None:
        at = f"{task.content_erased_at:%Y-%m-%d}"
        parts = [{"text": f"The content of this task was erased on {at} under retention."}]
    elif reason := reason_as_json(task):
        parts = [{"text": task.reason}, {"data": {"reason": reason}}]
    elif task.note or task.stage:
        parts = [{"text": task.note or task.stage}]
    state = state_for_client(task, question)
    return _status(task, state, task.updated_at, parts, f"status-{task.pk}")


def _question_data(question: Question) -> Json:
    """Without what passes: the seconds left would make every look another one."""
    said = question_as_json(question)
    for name in ("expires_in", "answer", "answered_by", "answered_via", "task_id", "description"):
        said.pop(name)
    return {"question": said}


def _status(task: Task, state: str, at: datetime, parts: list[Json], message_id: str) -> Json:
    said: Json = {"state": _state(state)}
    if parts:
        said["message"] = {
            "messageId": message_id,
            "contextId": task.context_id,
            "taskId": str(task.pk),
            "role": "ROLE_AGENT",
            "parts": parts,
        }
    said["timestamp"] = _timestamp(at)
    return said


def _state(state: str) -> str:
    return f"TASK_STATE_{TaskState(state).name}"


def _timestamp(at: datetime) -> str:
    """As protobuf's JSON writes it: UTC, with no, three or six decimals."""
    plain = at.astimezone(UTC)
    precision = (
        "seconds"
        if not plain.microsecond
        else ("microseconds" if plain.microsecond % 1000 else "milliseconds")
    )
    return plain.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def message_to_json(message: Message, task: Task) -> Json:
    said: Json = {
        "messageId": message.message_id,
        "contextId": task.context_id,
        "taskId": str(task.pk),
        "role": f"ROLE_{message.role.upper()}",
        "parts": message.parts,
    }
    if message.metadata:
        said["metadata"] = message.metadata
    return said


def artifact_to_json(artifact: Artifact, start: int = 0, count: int | None = None) -> Json:
    end = None if count is None else start + count
    said: Json = {"artifactId": artifact.artifact_id, "parts": artifact.parts[start:end]}
    if artifact.name:
        said["name"] = artifact.name
    if artifact.description:
        said["description"] = artifact.description
    return said


def event_to_json(
    event: Event, task: Task, artifacts: dict[str, Artifact], questions: dict[UUID, Question]
) -> Json | None:
    """One event of the audit chain as a stream says it: ``statusUpdate`` or ``artifactUpdate``."""
    details = json.loads(event.details)
    where = {"taskId": str(task.pk), "contextId": task.context_id}
    if event.kind == TaskEventKind.MESSAGE_ADDED:
        return None
    if event.kind == TaskEventKind.ARTIFACT_ADDED:
        artifact = artifacts.get(details["artifact_id"])
        if artifact is None:
            return None
        said = artifact_to_json(artifact, details["from"], details["parts"])
        flags = {"append": details["append"], "lastChunk": details["last"]}
        return {"artifactUpdate": {**where, "artifact": said, **flags}}
    question = _question_asked(event, details, questions)
    parts = _parts_of(event, question)
    is_for_people = question is not None and not question.is_for_client_of(task)
    state = TaskState.WORKING if is_for_people else event.to_state
    status = _status(task, state, event.at, parts, f"event-{task.pk}-{event.seq}")
    facts = {"kind": event.kind, "seq": event.seq, "by": event.principal}
    return {"statusUpdate": {**where, "status": status, "metadata": {FACTS: facts}}}


def _question_asked(
    event: Event, details: Json, questions: dict[UUID, Question]
) -> Question | None:
    """The question that this event put; ``None`` for an event that puts none."""
    asked = Question.named_in(details) if event.kind == TaskEventKind.ASKED else None
    return None if asked is None else questions.get(asked)


def _parts_of(event: Event, question: Question | None) -> list[Json]:
    reason, details = reason_and_details(event)
    if event.kind == TaskEventKind.ASKED:
        data = [{"data": _question_data(question)}] if question else []
        return [{"text": event.reason}, *data]
    if event.kind == TaskEventKind.PROGRESSED:
        text = details.get("message") or details.get("stage") or ""
        return [*([{"text": text}] if text else []), {"data": {"progress": details}}]
    if "code" in details:
        why = {"code": details["code"], "detail": reason}
        return [{"text": reason}, {"data": {"reason": why}}]
    return [{"text": reason}] if reason else []
