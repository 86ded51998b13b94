"""Rows → dictionaries of the protocol's JSON (A2A 1.0)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from a2a.models import Artifact, Message, Question, QuestionState, Task
from a2a.models.builtin_skills import ASK_A_PERSON
from a2a.states import FINAL, TaskEventKind, TaskState
from a2a.tasks import text_of
from a2a.wire.plain_json import (
    outcome_of_row,
    question_about,
    question_as_json,
    reason_and_details,
    reason_as_json,
    requests_of,
)
from ledger.api import render_token
from ledger.api.http import address_of
from ledger.models import Event

# Key of Assent's own facts about a task, in its metadata.
FACTS = "urn:assent:a2a:task:1"
LONGEST_IN_STATUS = 10_000  # characters; the artifact has all of a result
Json = dict[str, Any]


def render(task: Task, history: int | None = None, artifacts: bool = True) -> Json:
    """The task with its last ``history`` messages; ``None``: all of them."""
    messages = [] if history == 0 else list(task.messages.order_by("-pk")[:history])[::-1]
    shown = list(task.artifacts.order_by("pk")) if artifacts else []
    return task_to_json(task, messages, shown, open_question(task))


def open_question(task: Task) -> Question | None:
    if task.state != TaskState.INPUT_REQUIRED:
        return None
    return task.questions.filter(state=QuestionState.OPEN).first()


def state_for_client(task: Task, question: Question | None) -> TaskState:
    """The state that the client is told: WORKING while a question is open that only people answer.

    INPUT_REQUIRED would ask the client for a message, and close its stream before the answer.
    """
    if task.state == TaskState.INPUT_REQUIRED and question is not None:
        return TaskState.INPUT_REQUIRED if question.is_for_client_of(task) else TaskState.WORKING
    return TaskState(task.state)


def task_to_json(
    task: Task, history: list[Message], artifacts: list[Artifact], question: Question | None
) -> Json:
    body: Json = {
        "id": str(task.pk),
        "contextId": task.context_id,
        "status": status_to_json(task, question),
    }
    if artifacts:
        body["artifacts"] = [artifact_to_json(artifact) for artifact in artifacts]
    if history:
        body["history"] = [message_to_json(message, task) for message in history]
    body["metadata"] = {**task.metadata, FACTS: facts_of(task)}
    return body


def facts_of(task: Task) -> Json:
    """Assent's own facts about a task, version 1; ``a2a.cards.published`` has their schema."""
    facts: Json = {
        "skill": task.skill_slug,
        "owner": task.owner,
        "depth": task.depth,
        "trace_id": task.trace_id,
        "created_at": task.created_at.isoformat(),
    }
    if task.parent_id:
        facts["parent_task"] = str(task.parent_id)
    if task.revises_id:
        facts["revises"] = str(task.revises_id)
    if task.percent is not None or task.stage:
        facts["progress"] = {"stage": task.stage, "percent": task.percent, "message": task.note}
    if task.expires_at:
        facts["expires_at"] = task.expires_at.isoformat()
    if task.content_erased_at:
        facts["content_erased_at"] = task.content_erased_at.isoformat()
    if reason := reason_as_json(task):
        facts["reason"] = reason
    if task.cost:
        facts["cost"] = task.cost
    if task.transaction is not None:
        facts["outcome"] = outcome_of_row(task.transaction)
    if proposal := requests_of(task):
        facts["proposal"] = proposal
    return facts


def status_to_json(task: Task, question: Question | None) -> Json:
    parts: list[Json] = []
    if question is not None and task.state == TaskState.INPUT_REQUIRED:
        parts = [{"text": _asked(question, task)}, {"data": _question_data(question)}]
    elif (asked := question_about(task)) is not None:
        parts = [{"text": asked["text"]}, {"data": {"question": _steady(asked)}}]
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
    elif text := _result_in_words(task):
        parts = [{"text": text}]
    elif task.note or task.stage:
        parts = [{"text": task.note or task.stage}]
    state = state_for_client(task, question)
    return _status(task, state, task.updated_at, parts, f"status-{task.pk}")


def _asked(question: Question, task: Task) -> str:
    """The question, and where people answer it if the client does not."""
    if question.is_for_client_of(task):
        return question.text
    address = address_of(f"/questions/{question.pk}/")
    asked = f"A person was asked: {address}"
    # The client's own question is known to it.
    return asked if task.skill_slug == ASK_A_PERSON.id else f"{asked}\n{question.text}"


def _result_in_words(task: Task) -> str:
    """The text that the result begins with, for clients that read the last status only."""
    if task.state != TaskState.COMPLETED or not task.reads_text or task.result is None:
        return ""
    text = text_of(task.result)
    return text if len(text) <= LONGEST_IN_STATUS else f"{text[:LONGEST_IN_STATUS]}…"


def _question_data(question: Question) -> Json:
    return {"question": _steady(question_as_json(question))}


def _steady(question: Json) -> Json:
    """Without the seconds left and the like, so that an unchanged task renders the same."""
    left_out = {"expires_in", "answer", "answered_by", "answered_via", "task_id", "description"}
    return {name: value for name, value in question.items() if name not in left_out}


def _status(task: Task, state: str, at: datetime, parts: list[Json], message_id: str) -> Json:
    status: Json = {"state": _state(state)}
    if parts:
        status["message"] = {
            "messageId": message_id,
            "contextId": task.context_id,
            "taskId": str(task.pk),
            "role": "ROLE_AGENT",
            "parts": parts,
        }
    status["timestamp"] = _timestamp(at)
    return status


def _state(state: str) -> str:
    return f"TASK_STATE_{TaskState(state).name}"


def state_in(body: Json) -> TaskState:
    """The state that the JSON of a task says."""
    return TaskState[body["status"]["state"].removeprefix("TASK_STATE_")]


def state_named(name: Any) -> str:
    """The state that the protocol names so; empty for one that no task is in."""
    return TaskState.__members__.get(str(name).removeprefix("TASK_STATE_"), "")


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
    body: Json = {
        "messageId": message.message_id,
        "contextId": task.context_id,
        "taskId": str(task.pk),
        "role": f"ROLE_{message.role.upper()}",
        "parts": message.parts,
    }
    if message.metadata:
        body["metadata"] = message.metadata
    return body


def artifact_to_json(artifact: Artifact) -> Json:
    body: Json = {"artifactId": artifact.artifact_id, "parts": artifact.parts}
    if artifact.name:
        body["name"] = artifact.name
    if artifact.description:
        body["description"] = artifact.description
    return body


def event_to_json(
    event: Event, task: Task, added: Artifact | None, questions: dict[UUID, Question]
) -> Json | None:
    """An event as a stream shows it: ``statusUpdate`` or ``artifactUpdate``.

    ``added`` is the artifact with the parts that the event added, and no others. ``None`` for an
    event that clients are not told of.
    """
    details = json.loads(event.details)
    ids = {"taskId": str(task.pk), "contextId": task.context_id}
    if event.kind == TaskEventKind.MESSAGE_ADDED:
        return None
    if event.kind == TaskEventKind.ARTIFACT_ADDED:
        if added is None:
            return None
        flags = {"append": details["append"], "lastChunk": details["last"]}
        return {"artifactUpdate": {**ids, "artifact": artifact_to_json(added), **flags}}
    question = _question_asked(event, details, questions)
    parts = _parts_of(event, task, question)
    is_for_people = question is not None and not question.is_for_client_of(task)
    state = TaskState.WORKING if is_for_people else event.to_state
    status = _status(task, state, event.at, parts, f"event-{task.pk}-{event.seq}")
    facts = {"kind": event.kind, "seq": event.seq, "by": event.principal}
    if event.to_state in FINAL and task.transaction is not None:
        facts["outcome"] = outcome_of_row(task.transaction)
        facts |= {"proposal": proposal} if (proposal := requests_of(task)) else {}
    return {"statusUpdate": {**ids, "status": status, "metadata": {FACTS: facts}}}


def _question_asked(
    event: Event, details: Json, questions: dict[UUID, Question]
) -> Question | None:
    """The question that the event asks; ``None`` for any other event."""
    question_id = Question.named_in(details) if event.kind == TaskEventKind.ASKED else None
    return None if question_id is None else questions.get(question_id)


def _parts_of(event: Event, task: Task, question: Question | None) -> list[Json]:
    reason, details = reason_and_details(event)
    if event.kind == TaskEventKind.ASKED:
        form = [{"data": _question_data(question)}] if question else []
        return [{"text": _asked(question, task) if question else event.reason}, *form]
    if event.to_state == TaskState.COMPLETED and (text := _result_in_words(task)):
        return [{"text": text}]
    if event.kind == TaskEventKind.PROGRESSED:
        text = details.get("message") or details.get("stage") or ""
        return [*([{"text": text}] if text else []), {"data": {"progress": details}}]
    if "code" in details:
        data = {"reason": {"code": details["code"], "detail": reason}}
        return [{"text": reason}, {"data": data}]
    return [{"text": reason}] if reason else []
