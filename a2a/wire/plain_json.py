"""Rows → JSON of the plain dialect: tasks, questions, work, messages, events."""

from __future__ import annotations

import json
from typing import Any

from django.utils import timezone

from a2a.models import Artifact, Message, Question, QuestionState, Task
from a2a.models.answerers import CLIENT
from a2a.states import TaskEventKind, TaskState
from ledger.api import render_token
from ledger.api.http import address_of
from ledger.models import Event, Transaction
from ledger.tools import acts_itself
from ledger.transactions import outcome_of
from ledger.transactions.coordinator import requests_to_agent

# Characters of JSON of all artifacts of an earlier task that go along with its revision.
LARGEST_REVISED = 1024 * 1024


def outcome_of_row(row: Transaction) -> dict[str, Any]:
    return outcome_of(row, acts_itself=acts_itself(row)).as_json()


def task_as_json(task: Task, retry_after_s: int | None = None) -> dict[str, Any]:
    path = f"/api/v1/tasks/{task.pk}"
    proposed = task.transaction
    return {
        "task_id": str(task.pk),
        # Clients of this dialect take auth-required for the end: of the task, or of their token.
        "state": TaskState.WORKING if task.state == TaskState.AUTH_REQUIRED else task.state,
        "skill": task.skill_slug,
        "result": task.result,
        "reason": reason_as_json(task),
        "cost": task.cost,
        "outcome": (
            {"transaction_id": str(proposed.pk), **outcome_of_row(proposed)} if proposed else None
        ),
        "proposal": requests_of(task),
        "token_of_intent": json.loads(render_token(proposed, None)) if proposed else None,
        "input_required": _open_question(task),
        "progress": {"stage": task.stage, "percent": task.percent, "message": task.note},
        "artifacts": [artifact_as_json(artifact) for artifact in task.artifacts.all()],
        "context_id": task.context_id,
        "submitted_by": task.submitted_by,
        "owner": task.owner,
        "parent_task": str(task.parent_id) if task.parent_id else None,
        "depth": task.depth,
        "revises": str(task.revises_id) if task.revises_id else None,
        "revision": task.revision or 0,
        "trace_id": task.trace_id,
        "created_at": task.created_at.isoformat(),
        "updated_at": task.updated_at.isoformat(),
        "ended_at": task.ended_at.isoformat() if task.ended_at else None,
        "expires_at": task.expires_at.isoformat() if task.expires_at else None,
        "content_erased_at": (
            task.content_erased_at.isoformat() if task.content_erased_at else None
        ),
        "retry_after_s": None if task.is_final else retry_after_s,
        "links": {
            "self": address_of(path),
            "resolve": address_of(f"{path}/resolve"),
            "cancel": address_of(f"{path}/cancel"),
            "desk": address_of(f"/tasks/{task.pk}/"),
            "transaction": (
                address_of(f"/api/v1/transactions/{proposed.pk}") if proposed else None
            ),
        },
    }


def reason_as_json(task: Task) -> dict[str, Any] | None:
    if not task.reason_code:
        return None
    return {"code": task.reason_code, "detail": task.reason, "errors": task.errors}


def _open_question(task: Task) -> dict[str, Any] | None:
    opened = [question for question in task.questions.all() if question.state == QuestionState.OPEN]
    return question_as_json(opened[0]) if opened else question_about(task)


def question_about(task: Task) -> dict[str, Any] | None:
    """The question of people about the transaction that the task proposed, which its client
    answers."""
    row = task.transaction
    if task.state != TaskState.INPUT_REQUIRED or row is None:
        return None
    asked = requests_to_agent(row)["question"]
    if asked is None:
        return None
    question = Question(
        id=row.pk,
        task=task,
        text=asked["text"],
        may_answer=[CLIENT],
        expires_at=row.expires_at,
    )
    return question_as_json(question) | {"desk": address_of(f"/transactions/{row.pk}/")}


def requests_of(task: Task) -> dict[str, Any] | None:
    """The changes of people to what the task proposed, and what they want of its client; ``None``
    where another agent has proposed it."""
    row = task.transaction
    if row is None or row.proposed_by != task.submitted_by:
        return None
    return {"transaction_id": str(row.pk), **requests_to_agent(row)}


def question_as_json(question: Question) -> dict[str, Any]:
    left = (question.expires_at - timezone.now()).total_seconds()
    return {
        "question_id": str(question.pk),
        "task_id": str(question.task_id),
        "state": question.state,
        "text": question.text,
        "description": question.text,
        "form": question.form,
        "evidence": question.evidence,
        "may_answer": question.may_answer,
        "expires_at": question.expires_at.isoformat(),
        "expires_in": max(0.0, round(left, 3)),
        "answer": question.answer,
        "answered_by": question.answered_by_name,
        "answered_via": question.answered_via,
        "desk": address_of(f"/questions/{question.pk}/"),
    }


def artifact_as_json(artifact: Artifact) -> dict[str, Any]:
    return {
        "artifact_id": artifact.artifact_id,
        "name": artifact.name,
        "description": artifact.description,
        "parts": artifact.parts,
        "is_complete": artifact.is_complete,
    }


def work_as_json(task: Task) -> dict[str, Any]:
    """The facts that a worker needs to begin, or to continue after another stopped responding."""
    lease = task.skill.lease.total_seconds() if task.skill else 60.0
    answered = task.questions.filter(state=QuestionState.ANSWERED).order_by("pk")
    messages = list(task.messages.order_by("pk"))
    return {
        "task_id": str(task.pk),
        "fencing_token": task.fencing_token,
        "lease_s": lease,
        "lease_expires_at": task.lease_expires_at.isoformat() if task.lease_expires_at else None,
        "attempt": task.attempts,
        "skill": task.skill_slug,
        "input": task.input,
        "messages": [message_as_json(message) for message in messages],
        "messages_cursor": str(messages[-1].pk if messages else 0),
        "answers": [question_as_json(question) for question in answered],
        "revises": _revised_as_json(task.revises) if task.revises else None,
        "change_request": change_request_of(task, messages),
        "context_id": task.context_id,
        "trace_id": task.trace_id,
        "depth": task.depth,
        "submitted_by": task.submitted_by,
        "expires_at": task.expires_at.isoformat() if task.expires_at else None,
    }


def _revised_as_json(task: Task) -> dict[str, Any]:
    """The earlier task, with its artifacts as far as they fit into one response."""
    artifacts, left_out, size = [], [], 0
    for artifact in task.artifacts.order_by("pk").iterator(chunk_size=10):
        rendered = artifact_as_json(artifact)
        size += len(json.dumps(rendered))
        if size <= LARGEST_REVISED:
            artifacts.append(rendered)
        else:
            left_out.append(artifact.artifact_id)
    return {
        "task_id": str(task.pk),
        "state": task.state,
        "input": task.input,
        "result": task.result,
        "reason": reason_as_json(task),
        "artifacts": artifacts,
        "left_out": left_out,
    }


def change_request_of(task: Task, messages: list[Message]) -> str:
    """The changes a revision is to make: the texts of the message that asked for it."""
    if task.revises_id is None or not messages:
        return ""
    return "\n".join(part["text"] for part in messages[0].parts if "text" in part)


def message_as_json(message: Message) -> dict[str, Any]:
    return {
        "message_id": message.message_id,
        "role": message.role,
        "principal": message.principal,
        "parts": message.parts,
        "metadata": message.metadata,
        "at": message.at.isoformat(),
    }


# Texts that clients read in the details of an event. They are stored as its reason, because details
# are sealed and a reason can be erased.
TEXT_OF: dict[str, str] = {TaskEventKind.PROGRESSED: "message", TaskEventKind.ANSWERED: "answer"}


def reason_and_details(event: Event) -> tuple[str, dict[str, Any]]:
    """The reason and the details of an event as clients read them."""
    details: dict[str, Any] = json.loads(event.details)
    name = TEXT_OF.get(event.kind)
    if name is None:
        return event.reason, details
    return "", {**details, name: event.reason} if event.reason else details


def event_as_json(event: Event) -> dict[str, Any]:
    reason, details = reason_and_details(event)
    return {
        "seq": event.seq,
        "kind": event.kind,
        "from_state": event.from_state,
        "to_state": event.to_state,
        "principal": event.principal,
        "via": event.via,
        "reason": reason,
        "details": details,
        "at": event.at.isoformat(),
    }
