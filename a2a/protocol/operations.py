"""The operations of the protocol, each in JSON: what is read and changed for a call.

``answer`` performs an operation that does not stream. Usual calls go in batches (``fast_path``);
the others run in threads, in turn by agent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.conf import settings

from a2a import builtin, cards, polling, submissions, tasks, wire
from a2a.models import Message, PushConfig, Role
from a2a.protocol import fast_path, task_pages
from a2a.protocol.calls import LARGEST_IN_BATCH, Call, Json, submission_of
from a2a.protocol.errors import (
    INVALID_PARAMS,
    TASK_NOT_CANCELABLE,
    TASK_NOT_FOUND,
    UNSUPPORTED_OPERATION,
    NotAuthenticated,
    ProtocolError,
)
from a2a.protocol.stream import Reader, callers, until_it_rests
from a2a.protocol.task_pages import TaskQuery
from a2a.protocol.threads import patient, quick
from a2a.states import FINAL, TaskState
from a2a.submissions import push_configs
from a2a.wire import sdk
from a2a.wire.sdk import pb
from ledger.agents import Caller
from ledger.principals import Surface

VIA = Surface.A2A
R = TypeVar("R")


async def answer(call: Call) -> bytes:
    """The result as JSON text. Raises ``ProtocolError, NotAuthenticated``, and what a verb does."""
    if (usual := await fast_path.answer(call)) is not None:
        return usual
    call, caller = await prepared(call)
    if call.operation == "SendMessage":
        body = await _send(call, caller)
    else:
        body = await in_turn(quick, OPERATIONS[call.operation].work, call, caller)
    return json.dumps(body).encode()


async def _send(call: Call, caller: Caller) -> Json:
    task_id = await in_turn(patient, receive, call, caller)
    config = call.params.get("configuration", {})
    if not config.get("returnImmediately"):
        reader = Reader(caller, call.token, call.client)
        if not await until_it_rests(task_id, settings.BLOCKING_SEND_S, reader):
            detail = "The token was revoked while the message waited."
            raise ProtocolError(TASK_NOT_FOUND, detail)
    sent = replace(call, params={**config, "id": str(task_id)})
    return {"task": await in_turn(quick, read, sent, caller)}


async def in_turn(threads: Any, work: Callable[[Call, Caller], R], call: Call, caller: Caller) -> R:
    """The result of the work, once it is the caller's turn."""
    result: R = await threads.run(str(caller.principal), work, call, caller)
    return result


async def prepared(call: Call) -> tuple[Call, Caller]:
    """The call with parameters as the protocol has them, and who calls.

    Raises ``NotAuthenticated``, and ``ProtocolError`` for bad parameters and for another tenant.
    """
    caller = await callers.ask(call.token)
    if caller is None:
        raise NotAuthenticated
    if call.size <= LARGEST_IN_BATCH:
        call = _checked(call, caller)
    else:  # a large one would hold up everybody on the event loop
        call = await in_turn(quick, _checked, call, caller)
    if call.params.get("tenant", "") not in {"", caller.tenant}:
        detail = "The tenant is not the one that the token belongs to."
        raise ProtocolError(INVALID_PARAMS, detail)
    return call, caller


def _checked(call: Call, _: Caller) -> Call:
    try:
        params = sdk.normal(OPERATIONS[call.operation].params, call.params)
    except Exception as failure:  # protobuf's parser fails in many ways
        data = {"parseError": str(failure)}
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {failure}", data) from None
    return replace(call, params=params)


# --- messages ---------------------------------------------------------------------------------


def receive(call: Call, caller: Caller) -> UUID:
    """Make a task of the message, or add it to the task that it names; returns the task's id."""
    message = call.params.get("message", {})
    if message.get("role") == "ROLE_AGENT":
        raise ProtocolError(INVALID_PARAMS, "A client speaks in the role ROLE_USER.")
    if not message.get("parts"):
        raise ProtocolError(INVALID_PARAMS, "A message has at least one part.")
    if message.get("taskId"):
        return _continue(message, caller)
    return submissions.submit(submission_of(call), caller=caller, via=VIA).task.pk


def _continue(sent: Json, caller: Caller) -> UUID:
    task = tasks.visible(caller, sent["taskId"])
    if sent.get("contextId", task.context_id) != task.context_id:
        raise ProtocolError(INVALID_PARAMS, "The context is not the one of the task.")
    if task.is_final:
        detail = f"The task is {task.state}; it takes no messages any more."
        raise ProtocolError(UNSUPPORTED_OPERATION, detail)
    message = Message(
        message_id=sent.get("messageId", ""),
        role=Role.USER,
        principal=str(caller.principal),
        principal_name=caller.principal.display_name,
        parts=sent["parts"],
        metadata=sent.get("metadata", {}),
    )
    if task.state == TaskState.INPUT_REQUIRED and task.transaction_id is not None:
        value = _answer_in(sent["parts"], {})
        builtin.answer(task, value, caller=caller, message=message, via=VIA)
        return task.pk
    question = wire.open_question(task)
    is_asked = question is None or question.is_for_client_of(task)
    if task.state == TaskState.INPUT_REQUIRED and is_asked:
        value = _answer_in(sent["parts"], question.form if question else {})
        tasks.answer_as_client(
            task, value, caller=caller, via=VIA, message=message, question=question
        )
    else:
        tasks.add_client_message(task, message, caller=caller, via=VIA)
    return task.pk


def _answer_in(parts: list[Json], form: Json) -> Any:
    """The answer in a message: its first data part, else its text as the form's type."""
    for part in parts:
        if "data" in part:
            data = part["data"]
            is_wrapped = isinstance(data, dict) and set(data) == {"answer"}
            return data["answer"] if is_wrapped else data
    text = "\n".join(part["text"] for part in parts if "text" in part).strip()
    return _text_as(form, text)


def _text_as(form: Json, text: str) -> Any:
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


# --- tasks ------------------------------------------------------------------------------------


def read(call: Call, caller: Caller) -> Json:
    """The task with its last ``historyLength`` messages (left out: all)."""
    task = tasks.visible(caller, call.params.get("id", ""))
    polling.count_reads({task.tenant: 1})
    history = call.params.get("historyLength")
    return wire.render(task, None if history is None else max(0, history))


def list_tasks(call: Call, caller: Caller) -> Json:
    params = call.params
    since, status = params.get("statusTimestampAfter"), params.get("status")
    query = TaskQuery(
        size=params.get("pageSize", task_pages.PAGE),
        page_token=params.get("pageToken", ""),
        context_id=params.get("contextId", ""),
        state=None if status is None else wire.state_named(status),
        changed_since=datetime.fromisoformat(since) if since else None,
        history=max(0, params.get("historyLength", 0)),
        with_artifacts=params.get("includeArtifacts", False),
    )
    page = task_pages.list_tasks(query, caller)
    body = {"tasks": page.tasks, "nextPageToken": page.next_token}
    full = sdk.with_empty_members(
        pb.ListTasksResponse, {**body, "pageSize": query.size, "totalSize": page.total}
    )
    for task in full["tasks"]:
        if not query.with_artifacts:
            del task["artifacts"]
    return full


def cancel(call: Call, caller: Caller) -> Json:
    task = tasks.visible(caller, call.params.get("id", ""))
    if task.state in FINAL:
        raise ProtocolError(TASK_NOT_CANCELABLE, f"The task is {task.state}.")
    tasks.cancel_as_client(task, caller=caller, via=VIA)
    return wire.render(tasks.visible(caller, task.pk))


def open_task(call: Call, caller: Caller) -> UUID:
    """The id of the task, if it can still change."""
    task = tasks.visible(caller, call.params.get("id", ""))
    if task.is_final:
        detail = f"The task is {task.state}; nothing more comes."
        raise ProtocolError(UNSUPPORTED_OPERATION, detail)
    return task.pk


def extended_card(call: Call, caller: Caller) -> Json:
    card = cards.extended_card(caller.tenant, call.skill)
    if card is None:
        raise ProtocolError(TASK_NOT_FOUND, "There is no such skill for you.")
    body: Json = sdk.MessageToDict(card)
    return body


# --- push notification configs ----------------------------------------------------------------


def create_push_config(call: Call, caller: Caller) -> Json:
    task_id = call.params.get("taskId", "")
    return _push_as_json(push_configs.create(task_id, call.params, caller))


def get_push_config(call: Call, caller: Caller) -> Json:
    configs = push_configs.of_task(call.params.get("taskId", ""), caller)
    config = configs.filter(config_id=call.params.get("id", "")).first()
    if config is None:
        raise ProtocolError(TASK_NOT_FOUND, "There is no such push notification config.")
    return _push_as_json(config)


def list_push_configs(call: Call, caller: Caller) -> Json:
    configs = [
        _push_as_json(each) for each in push_configs.of_task(call.params.get("taskId", ""), caller)
    ]
    return {"configs": configs} if configs else {}


def delete_push_config(call: Call, caller: Caller) -> None:
    configs = push_configs.of_task(call.params.get("taskId", ""), caller)
    configs.filter(config_id=call.params.get("id", "")).delete()


def _push_as_json(config: PushConfig) -> Json:
    """Without the credentials, which are never returned."""
    members = {
        "id": config.config_id,
        "taskId": str(config.task_id),
        "url": config.url,
        "token": config.token,
        "authentication": {"scheme": config.scheme} if config.scheme else None,
    }
    return {name: value for name, value in members.items() if value}


class Operation(NamedTuple):
    """The type of the parameters, and the work, which runs in a thread."""

    params: type[Any]
    work: Callable[[Call, Caller], Any]
    is_read: bool = False


OPERATIONS = {
    "SendMessage": Operation(pb.SendMessageRequest, receive),
    "SendStreamingMessage": Operation(pb.SendMessageRequest, receive),
    "GetTask": Operation(pb.GetTaskRequest, read, is_read=True),
    "ListTasks": Operation(pb.ListTasksRequest, list_tasks, is_read=True),
    "CancelTask": Operation(pb.CancelTaskRequest, cancel),
    "SubscribeToTask": Operation(pb.SubscribeToTaskRequest, open_task, is_read=True),
    "CreateTaskPushNotificationConfig": Operation(
        pb.TaskPushNotificationConfig, create_push_config
    ),
    "GetTaskPushNotificationConfig": Operation(
        pb.GetTaskPushNotificationConfigRequest, get_push_config, is_read=True
    ),
    "ListTaskPushNotificationConfigs": Operation(
        pb.ListTaskPushNotificationConfigsRequest, list_push_configs, is_read=True
    ),
    "DeleteTaskPushNotificationConfig": Operation(
        pb.DeleteTaskPushNotificationConfigRequest, delete_push_config
    ),
    "GetExtendedAgentCard": Operation(pb.GetExtendedAgentCardRequest, extended_card, is_read=True),
}
