"""What each operation of the protocol does, in plain types; ``handler`` adapts the SDK's to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from a2a import polling, submissions, tasks
from a2a.models import Message, Role, Task
from a2a.protocol.push_configs import PushFields, store
from a2a.states import FINAL, TaskState
from a2a.validation.parts import Part
from a2a.wire import sdk, to_json
from ledger.agents.callers import Caller
from ledger.principals import Surface

VIA = Surface.A2A
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message of a client. ``task_id`` and ``context_id`` are empty for a new task."""

    message_id: str
    task_id: str
    context_id: str
    parts: list[Part]
    metadata: Json
    request_metadata: Json
    envelope: Any
    push: PushFields | None
    references: list[str] = field(default_factory=list)  # ids of tasks


def receive(incoming: Incoming, caller: Caller, key: str, address: str) -> UUID:
    """Make a task of the message, or add it to the task that it names; returns the task's id.

    ``key`` is the Idempotency-Key, ``address`` the skill whose address was called.
    """
    if not incoming.parts:
        raise sdk.InvalidParamsError("A message has at least one part.")
    if incoming.task_id:
        return _continue(incoming, caller)
    submission = submissions.from_message(
        parts=incoming.parts,
        metadata=incoming.metadata | incoming.request_metadata,
        envelope=incoming.envelope,
        message_id=incoming.message_id,
        context_id=incoming.context_id,
        key=key,
        address=address,
        references=incoming.references,
    )
    submitted = submissions.submit(submission, caller=caller, via=VIA)
    if incoming.push is not None:
        store(submitted.task, incoming.push)
    return submitted.task.pk


def _continue(incoming: Incoming, caller: Caller) -> UUID:
    task = tasks.visible(caller, incoming.task_id)
    if incoming.context_id and incoming.context_id != task.context_id:
        raise sdk.InvalidParamsError("The context is not the one of the task.")
    if task.is_final:
        raise sdk.UnsupportedOperationError(
            f"The task is {task.state}; it takes no messages any more."
        )
    message = Message(
        message_id=incoming.message_id,
        role=Role.USER,
        principal=str(caller.principal),
        principal_name=caller.principal.display_name,
        parts=incoming.parts,
        metadata=incoming.metadata,
    )
    question = to_json.open_question(task)
    is_asked = question is None or question.is_for_client_of(task)
    if task.state == TaskState.INPUT_REQUIRED and is_asked:
        value = sdk.answer_in(incoming.parts, question.form if question else {})
        tasks.answer_as_client(
            task, value, caller=caller, via=VIA, message=message, question=question
        )
    else:
        tasks.add_client_message(task, message, caller=caller, via=VIA)
    return task.pk


def read(task_id: UUID | str, caller: Caller, history: int | None) -> Json:
    """The task as JSON, with its last ``history`` messages (``None``: all)."""
    task = tasks.visible(caller, task_id)
    polling.count_reads({task.tenant: 1})
    return to_json.render(task, history)


def open_task(task_id: str, caller: Caller) -> Task:
    """The task, if it can still change. Raises ``UnsupportedOperationError`` otherwise."""
    task = tasks.visible(caller, task_id)
    if task.is_final:
        raise sdk.UnsupportedOperationError(f"The task is {task.state}; nothing more comes.")
    return task


def cancel(task_id: str, caller: Caller) -> Json:
    """Cancel the task; returns it as JSON. Raises ``TaskNotCancelableError`` after its end."""
    task = tasks.visible(caller, task_id)
    if task.state in FINAL:
        raise sdk.TaskNotCancelableError(f"The task is {task.state}.")
    tasks.cancel_as_client(task, caller=caller, via=VIA)
    return to_json.render(tasks.visible(caller, task.pk))
