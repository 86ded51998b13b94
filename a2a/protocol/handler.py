"""The protocol's operations over our tables; the SDK's routes call them for every binding."""

from __future__ import annotations

import base64
import binascii
import functools
import logging
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from a2a import polling, submissions, tasks
from a2a.cards import cards
from a2a.models import Message, PushConfig, Question, Role, Task
from a2a.protocol import push
from a2a.protocol.stream import (
    TURN_OVER,
    follow,
    in_patient_thread,
    in_thread,
    until_it_rests,
)
from a2a.states import FINAL, TaskState
from a2a.validation.parts import refuse_unstorable
from a2a.wire import sdk
from a2a.wire.sdk import pb
from a2a.wire.to_json import open_question, render
from ledger.agents.callers import Caller
from ledger.database import keyset_page
from ledger.errors import LedgerError, NotFound
from ledger.http import unquoted
from ledger.principals import Surface

logger = logging.getLogger(__name__)

VIA = Surface.A2A
PAGE, LARGEST_PAGE = 50, 100
R = TypeVar("R")


def refusals_said(operation: Callable[..., R]) -> Callable[..., R]:
    """Every refusal as one of the protocol's errors; whatever else goes wrong says nothing."""

    @functools.wraps(operation)
    def said(*args: Any, **kwargs: Any) -> R:
        try:
            return operation(*args, **kwargs)
        except sdk.A2AError:
            raise
        except NotFound:
            raise sdk.TaskNotFoundError from None
        except LedgerError as refusal:
            data = {"code": refusal.code, "hint": refusal.hint, **_plain(refusal.extra)}
            kind = (
                sdk.UnsupportedOperationError if refusal.status == 409 else (sdk.InvalidParamsError)
            )
            raise kind(refusal.detail, data=data) from None
        except Exception:
            logger.exception("unexpected failure of %s", operation.__name__)
            raise sdk.A2AError("Assent failed; it was logged. Repeat the request.") from None

    return said


def _plain(extra: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in extra.items() if isinstance(value, str | list)}


class TaskHub(sdk.RequestHandler):
    """Nothing lives in this process: each operation is one look or one verb on the tables."""

    async def on_message_send(
        self, params: pb.SendMessageRequest, context: sdk.ServerCallContext
    ) -> pb.Task:
        caller = _caller(context)
        config = params.configuration
        task_id = await in_patient_thread(_receive, params, caller, _key(context), _skill(context))
        if not config.return_immediately:
            await until_it_rests(task_id, settings.BLOCKING_SEND_S)
        return await in_thread(_read, task_id, caller, _history(config))

    async def on_message_send_stream(
        self, params: pb.SendMessageRequest, context: sdk.ServerCallContext
    ) -> AsyncGenerator[Any]:
        task_id = await in_patient_thread(
            _receive, params, _caller(context), _key(context), _skill(context)
        )
        async for update in follow(task_id, until=TURN_OVER):
            yield update

    async def on_subscribe_to_task(
        self, params: pb.SubscribeToTaskRequest, context: sdk.ServerCallContext
    ) -> AsyncGenerator[Any]:
        task = await in_thread(_open_task, params.id, _caller(context))
        async for update in follow(task.pk):
            yield update

    async def on_get_task(
        self, params: pb.GetTaskRequest, context: sdk.ServerCallContext
    ) -> pb.Task:
        return await in_thread(_read, params.id, _caller(context), _history(params))

    async def on_list_tasks(
        self, params: pb.ListTasksRequest, context: sdk.ServerCallContext
    ) -> pb.ListTasksResponse:
        return await in_thread(_list, params, _caller(context))

    async def on_cancel_task(
        self, params: pb.CancelTaskRequest, context: sdk.ServerCallContext
    ) -> pb.Task:
        return await in_thread(_cancel, params, _caller(context))

    async def on_create_task_push_notification_config(
        self, params: pb.TaskPushNotificationConfig, context: sdk.ServerCallContext
    ) -> pb.TaskPushNotificationConfig:
        return await in_thread(_create_push_config, params, _caller(context))

    async def on_get_task_push_notification_config(
        self, params: pb.GetTaskPushNotificationConfigRequest, context: sdk.ServerCallContext
    ) -> pb.TaskPushNotificationConfig:
        return await in_thread(_get_push_config, params, _caller(context))

    async def on_list_task_push_notification_configs(
        self, params: pb.ListTaskPushNotificationConfigsRequest, context: sdk.ServerCallContext
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        return await in_thread(_list_push_configs, params, _caller(context))

    async def on_delete_task_push_notification_config(
        self, params: pb.DeleteTaskPushNotificationConfigRequest, context: sdk.ServerCallContext
    ) -> None:
        await in_thread(_delete_push_config, params, _caller(context))

    async def on_get_extended_agent_card(
        self, params: pb.GetExtendedAgentCardRequest, context: sdk.ServerCallContext
    ) -> pb.AgentCard:
        caller = _caller(context)
        card = await in_thread(cards.extended_card, caller.tenant, _skill(context))
        if card is None:
            raise sdk.TaskNotFoundError("There is no such skill for you.")
        is_v03 = context.state.get("method") == sdk.V03_EXTENDED_CARD
        return cards.for_v03(card, _skill(context)) if is_v03 else card


def _caller(context: sdk.ServerCallContext) -> Caller:
    """Who calls, for the tenant that the token is of; a request may name no other."""
    caller: Caller = context.state["caller"]
    if context.tenant not in {"", caller.tenant}:
        raise sdk.InvalidParamsError("The tenant is not the one that the token belongs to.")
    return caller


def _key(context: sdk.ServerCallContext) -> str:
    """The Idempotency-Key header; in the metadata or the envelope it may stand as well."""
    headers: dict[str, str] = context.state.get("headers", {})
    return unquoted(headers.get("idempotency-key", ""))


def _skill(context: sdk.ServerCallContext) -> str:
    """The one whose address was called, if it was not that of all."""
    skill: str = context.state["skill"]
    return skill


def _history(asked: Any) -> int | None:
    return max(0, asked.history_length) if asked.HasField("history_length") else None


# --- one operation each, in a thread ---------------------------------------------------------


@refusals_said
def _receive(params: pb.SendMessageRequest, caller: Caller, key: str, address: str) -> UUID:
    """Take a message in: a new task, or a word on one that there is."""
    message = params.message
    if message.role == pb.ROLE_AGENT:
        raise sdk.InvalidParamsError("A client speaks in the role ROLE_USER.")
    if not message.parts:
        raise sdk.InvalidParamsError("A message has at least one part.")
    if message.task_id:
        return _continue(message, caller)
    parts = sdk.parts_in(message)
    metadata = sdk.struct_in(message.metadata) | sdk.struct_in(params.metadata)
    submission = submissions.from_message(
        parts=parts,
        metadata=metadata,
        envelope=sdk.envelope_in(params),
        message_id=message.message_id,
        context_id=message.context_id,
        key=key,
        address=address,
    )
    submitted = submissions.submit(submission, caller=caller, via=VIA)
    if params.configuration.HasField("task_push_notification_config"):
        wanted = params.configuration.task_push_notification_config
        _keep_push_config(submitted.task, wanted)
    return submitted.task.pk


def _continue(message: pb.Message, caller: Caller) -> UUID:
    task = tasks.visible(caller, message.task_id)
    if message.context_id and message.context_id != task.context_id:
        raise sdk.InvalidParamsError("The context is not the one of the task.")
    if task.is_final:
        raise sdk.UnsupportedOperationError(
            f"The task is {task.state}; it takes no messages any more."
        )
    parts = sdk.parts_in(message)
    said = Message(
        message_id=message.message_id,
        role=Role.USER,
        principal=str(caller.principal),
        principal_name=caller.principal.display_name,
        parts=parts,
        metadata=sdk.struct_in(message.metadata),
    )
    question = open_question(task)
    if task.state == TaskState.INPUT_REQUIRED and (
        question is None or question.is_for_client_of(task)
    ):
        value = sdk.answer_in(parts, question.form if question else {})
        tasks.answer_as_client(task, value, caller=caller, via=VIA, message=said, question=question)
        return task.pk
    tasks.add_client_message(task, said, caller=caller, via=VIA)
    return task.pk


@refusals_said
def _read(task_id: UUID | str, caller: Caller, history: int | None) -> pb.Task:
    task = tasks.visible(caller, task_id)
    polling.count_reads({task.tenant: 1})
    return sdk.task_out(render(task, history))


@refusals_said
def _open_task(task_id: str, caller: Caller) -> Task:
    task = tasks.visible(caller, task_id)
    if task.is_final:
        raise sdk.UnsupportedOperationError(f"The task is {task.state}; nothing more comes.")
    return task


@refusals_said
def _cancel(params: pb.CancelTaskRequest, caller: Caller) -> pb.Task:
    task = tasks.visible(caller, params.id)
    if task.state in FINAL:
        raise sdk.TaskNotCancelableError(f"The task is {task.state}.")
    tasks.cancel_as_client(task, caller=caller, via=VIA)
    return sdk.task_out(render(tasks.visible(caller, task.pk)))


@refusals_said
def _list(params: pb.ListTasksRequest, caller: Caller) -> pb.ListTasksResponse:
    size = params.page_size if params.HasField("page_size") else PAGE
    if not 1 <= size <= LARGEST_PAGE:
        raise sdk.InvalidParamsError(f"pageSize lies between 1 and {LARGEST_PAGE}.")
    refuse_unstorable([params.context_id, params.page_token])
    rows = Task.objects.visible_to(caller)
    if params.context_id:
        rows = rows.filter(context_id=params.context_id)
    if params.status:
        rows = rows.filter(_in_state(sdk.STATE_IN.get(params.status, "")))
    if params.HasField("status_timestamp_after"):
        after = params.status_timestamp_after.ToDatetime(tzinfo=UTC)
        rows = rows.filter(updated_at__gte=after)
    total = rows.count()
    before = _position(params.page_token) if params.page_token else None
    page = keyset_page(rows, size, before=before, by=("updated_at", "id"))
    history = _history(params)
    with_artifacts = params.include_artifacts
    return pb.ListTasksResponse(
        tasks=[sdk.task_out(render(task, history or 0, with_artifacts)) for task in page.rows],
        next_page_token=_token_of(page.last) if page.last else "",
        page_size=size,
        total_size=total,
    )


def _in_state(state: str) -> Q:
    """As ``speech.state_for_client`` says it."""
    for_people = Q(pk__in=Question.objects.waiting().for_people_only().values("task"))
    if state == TaskState.INPUT_REQUIRED:
        return Q(state=state) & ~for_people
    return Q(state=state) | for_people if state == TaskState.WORKING else Q(state=state)


def _token_of(task: Task) -> str:
    return base64.urlsafe_b64encode(f"{task.updated_at.isoformat()} {task.pk}".encode()).decode()


def _position(token: str) -> tuple[datetime, UUID]:
    """Of the last task of the page before. Raises ``InvalidParamsError``."""
    try:
        at, _, pk = base64.urlsafe_b64decode(token.encode()).decode().partition(" ")
        return datetime.fromisoformat(at), UUID(pk)
    except (ValueError, binascii.Error):
        raise sdk.InvalidParamsError("The page token is not one of ours.") from None


# --- push notification configs ---------------------------------------------------------------


def _own_task(task_id: str, caller: Caller) -> Task:
    task = tasks.visible(caller, task_id)
    tasks.require_submitter(task, caller)
    return task


def _keep_push_config(task: Task, wanted: pb.TaskPushNotificationConfig) -> PushConfig:
    return push.keep(
        task,
        config_id=wanted.id,
        url=wanted.url,
        token=wanted.token,
        scheme=wanted.authentication.scheme,
        credentials=wanted.authentication.credentials,
    )


@refusals_said
def _create_push_config(
    params: pb.TaskPushNotificationConfig, caller: Caller
) -> pb.TaskPushNotificationConfig:
    return _push_out(_keep_push_config(_own_task(params.task_id, caller), params))


@refusals_said
def _get_push_config(
    params: pb.GetTaskPushNotificationConfigRequest, caller: Caller
) -> pb.TaskPushNotificationConfig:
    task = _own_task(params.task_id, caller)
    found = task.push_configs.filter(config_id=params.id).first()
    if found is None:
        raise sdk.TaskNotFoundError("There is no such push notification config.")
    return _push_out(found)


@refusals_said
def _list_push_configs(
    params: pb.ListTaskPushNotificationConfigsRequest, caller: Caller
) -> pb.ListTaskPushNotificationConfigsResponse:
    task = _own_task(params.task_id, caller)
    configs = [_push_out(config) for config in task.push_configs.order_by("pk")]
    return pb.ListTaskPushNotificationConfigsResponse(configs=configs)


@refusals_said
def _delete_push_config(params: pb.DeleteTaskPushNotificationConfigRequest, caller: Caller) -> None:
    _own_task(params.task_id, caller).push_configs.filter(config_id=params.id).delete()


def _push_out(config: PushConfig) -> pb.TaskPushNotificationConfig:
    """Credentials are not shown again."""
    found = pb.TaskPushNotificationConfig(
        task_id=str(config.task_id), id=config.config_id, url=config.url, token=config.token
    )
    if config.scheme:
        found.authentication.scheme = config.scheme
    return found
