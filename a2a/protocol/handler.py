"""The SDK's request handler: its messages in, ours out, one method for each operation.

The SDK's routes call it for every binding. Database work runs in threads.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import DataError

from a2a.cards import cards
from a2a.models import PushConfig
from a2a.protocol import operations, push_configs, task_pages
from a2a.protocol.failures import error_of
from a2a.protocol.operations import Incoming
from a2a.protocol.push_configs import PushFields
from a2a.protocol.stream import TURN_OVER, Reader, follow, until_it_rests
from a2a.protocol.task_pages import TaskQuery
from a2a.protocol.threads import FairThreads, patient, quick
from a2a.wire import sdk
from a2a.wire.sdk import pb
from ledger.agents.callers import Caller
from ledger.errors import LedgerError, NotFound
from ledger.http import unquoted

logger = logging.getLogger(__name__)

R = TypeVar("R")


def with_protocol_errors(operation: Callable[..., R]) -> Callable[..., R]:
    """Raise the protocol's errors for ours; an unexpected one is logged, and says nothing."""

    @functools.wraps(operation)
    def wrapped(*args: Any, **kwargs: Any) -> R:
        with protocol_errors(operation.__name__):
            return operation(*args, **kwargs)

    return wrapped


@contextmanager
def protocol_errors(operation: str) -> Iterator[None]:
    """As ``with_protocol_errors``, for a block."""
    try:
        yield
    except sdk.A2AError:
        raise
    except NotFound:
        raise sdk.TaskNotFoundError from None
    except LedgerError as refusal:
        data = {"code": refusal.code, "hint": refusal.hint, **_plain(refusal.extra)}
        is_conflict = refusal.status == 409
        kind = sdk.UnsupportedOperationError if is_conflict else sdk.InvalidParamsError
        raise kind(refusal.detail, data=data) from None
    except DataError:
        logger.exception("%s was sent what cannot be stored", operation)
        raise sdk.InvalidParamsError("It holds a value that cannot be stored.") from None
    except Exception as failure:
        raise error_of(failure, operation) from None


def _plain(extra: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in extra.items() if isinstance(value, str | list)}


async def _run(threads: FairThreads, caller: Caller, work: Callable[..., R], *args: Any) -> R:
    """The result of ``work(*args)``, once it is the caller's turn."""
    with protocol_errors(getattr(work, "__name__", "an operation")):
        return await threads.run(str(caller.principal), work, *args)


class A2ARequestHandler(sdk.RequestHandler):
    """Stateless: each operation is one query or one verb. Errors are the SDK's."""

    async def on_message_send(
        self, params: pb.SendMessageRequest, context: sdk.ServerCallContext
    ) -> pb.Task:
        caller, config = _caller(context), params.configuration
        task_id = await _run(
            patient, caller, _receive, params, caller, _key(context), _skill(context)
        )
        if not config.return_immediately:
            reader = _reader(context)
            with protocol_errors("a blocking send"):
                is_allowed = await until_it_rests(task_id, settings.BLOCKING_SEND_S, reader)
            if not is_allowed:
                raise sdk.TaskNotFoundError("The token was revoked while the message waited.")
        return await _run(quick, caller, _read, task_id, caller, _history(config))

    async def on_message_send_stream(
        self, params: pb.SendMessageRequest, context: sdk.ServerCallContext
    ) -> AsyncGenerator[Any]:
        caller = _caller(context)
        task_id = await _run(
            patient, caller, _receive, params, caller, _key(context), _skill(context)
        )
        with protocol_errors("a stream"):
            async for update in follow(task_id, _reader(context), until=TURN_OVER):
                yield update

    async def on_subscribe_to_task(
        self, params: pb.SubscribeToTaskRequest, context: sdk.ServerCallContext
    ) -> AsyncGenerator[Any]:
        caller = _caller(context)
        task = await _run(quick, caller, _open_task, params.id, caller)
        with protocol_errors("a stream"):
            async for update in follow(task.pk, _reader(context)):
                yield update

    async def on_get_task(
        self, params: pb.GetTaskRequest, context: sdk.ServerCallContext
    ) -> pb.Task:
        caller = _caller(context)
        return await _run(quick, caller, _read, params.id, caller, _history(params))

    async def on_list_tasks(
        self, params: pb.ListTasksRequest, context: sdk.ServerCallContext
    ) -> pb.ListTasksResponse:
        caller = _caller(context)
        return await _run(quick, caller, _list, params, caller)

    async def on_cancel_task(
        self, params: pb.CancelTaskRequest, context: sdk.ServerCallContext
    ) -> pb.Task:
        caller = _caller(context)
        return await _run(quick, caller, _cancel, params.id, caller)

    async def on_create_task_push_notification_config(
        self, params: pb.TaskPushNotificationConfig, context: sdk.ServerCallContext
    ) -> pb.TaskPushNotificationConfig:
        caller = _caller(context)
        return await _run(quick, caller, _create_push_config, params, caller)

    async def on_get_task_push_notification_config(
        self, params: pb.GetTaskPushNotificationConfigRequest, context: sdk.ServerCallContext
    ) -> pb.TaskPushNotificationConfig:
        caller = _caller(context)
        return await _run(quick, caller, _get_push_config, params, caller)

    async def on_list_task_push_notification_configs(
        self, params: pb.ListTaskPushNotificationConfigsRequest, context: sdk.ServerCallContext
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        caller = _caller(context)
        return await _run(quick, caller, _list_push_configs, params, caller)

    async def on_delete_task_push_notification_config(
        self, params: pb.DeleteTaskPushNotificationConfigRequest, context: sdk.ServerCallContext
    ) -> None:
        caller = _caller(context)
        await _run(quick, caller, _delete_push_config, params, caller)

    async def on_get_extended_agent_card(
        self, params: pb.GetExtendedAgentCardRequest, context: sdk.ServerCallContext
    ) -> pb.AgentCard:
        caller = _caller(context)
        card = await _run(quick, caller, cards.extended_card, caller.tenant, _skill(context))
        if card is None:
            raise sdk.TaskNotFoundError("There is no such skill for you.")
        is_v03 = context.state.get("method") == sdk.V03_EXTENDED_CARD
        return cards.for_v03(card, _skill(context)) if is_v03 else card


# --- what the context and the parameters hold -------------------------------------------------


def _caller(context: sdk.ServerCallContext) -> Caller:
    """The agent of the token. Raises ``InvalidParamsError`` if the request names another tenant."""
    caller: Caller = context.state["caller"]
    if context.tenant not in {"", caller.tenant}:
        raise sdk.InvalidParamsError("The tenant is not the one that the token belongs to.")
    return caller


def _reader(context: sdk.ServerCallContext) -> Reader:
    state = context.state
    return Reader(_caller(context), state["token"], state["address"])


def _key(context: sdk.ServerCallContext) -> str:
    """The Idempotency-Key header, which may be in the metadata or the envelope instead."""
    headers: dict[str, str] = context.state.get("headers", {})
    return unquoted(headers.get("idempotency-key", ""))


def _skill(context: sdk.ServerCallContext) -> str:
    """The skill whose address was called; empty for the address of all skills."""
    skill: str = context.state["skill"]
    return skill


def _history(params: Any) -> int | None:
    return max(0, params.history_length) if params.HasField("history_length") else None


def _push_fields(params: pb.TaskPushNotificationConfig) -> PushFields:
    return PushFields(
        config_id=params.id,
        url=params.url,
        token=params.token,
        scheme=params.authentication.scheme,
        credentials=params.authentication.credentials,
    )


# --- each in a thread -------------------------------------------------------------------------


@with_protocol_errors
def _receive(params: pb.SendMessageRequest, caller: Caller, key: str, address: str) -> UUID:
    message, config = params.message, params.configuration
    if message.role == pb.ROLE_AGENT:
        raise sdk.InvalidParamsError("A client speaks in the role ROLE_USER.")
    wants_push = config.HasField("task_push_notification_config")
    incoming = Incoming(
        message_id=message.message_id,
        task_id=message.task_id,
        context_id=message.context_id,
        parts=sdk.parts_in(message),
        metadata=sdk.struct_in(message.metadata),
        request_metadata=sdk.struct_in(params.metadata),
        envelope=sdk.envelope_in(params),
        push=_push_fields(config.task_push_notification_config) if wants_push else None,
        references=list(message.reference_task_ids),
    )
    return operations.receive(incoming, caller, key, address)


@with_protocol_errors
def _read(task_id: UUID | str, caller: Caller, history: int | None) -> pb.Task:
    return sdk.task_out(operations.read(task_id, caller, history))


_open_task = with_protocol_errors(operations.open_task)


@with_protocol_errors
def _cancel(task_id: str, caller: Caller) -> pb.Task:
    return sdk.task_out(operations.cancel(task_id, caller))


@with_protocol_errors
def _list(params: pb.ListTasksRequest, caller: Caller) -> pb.ListTasksResponse:
    since = params.status_timestamp_after
    has_since = params.HasField("status_timestamp_after")
    query = TaskQuery(
        size=params.page_size if params.HasField("page_size") else task_pages.PAGE,
        page_token=params.page_token,
        context_id=params.context_id,
        state=sdk.STATE_IN.get(params.status, "") if params.status else None,
        changed_since=since.ToDatetime(tzinfo=UTC) if has_since else None,
        history=_history(params) or 0,
        with_artifacts=params.include_artifacts,
    )
    page = task_pages.list_tasks(query, caller)
    return pb.ListTasksResponse(
        tasks=[sdk.task_out(task) for task in page.tasks],
        next_page_token=page.next_token,
        page_size=query.size,
        total_size=page.total,
    )


@with_protocol_errors
def _create_push_config(
    params: pb.TaskPushNotificationConfig, caller: Caller
) -> pb.TaskPushNotificationConfig:
    return _push_out(push_configs.create(params.task_id, _push_fields(params), caller))


@with_protocol_errors
def _get_push_config(
    params: pb.GetTaskPushNotificationConfigRequest, caller: Caller
) -> pb.TaskPushNotificationConfig:
    config = push_configs.of_task(params.task_id, caller).filter(config_id=params.id).first()
    if config is None:
        raise sdk.TaskNotFoundError("There is no such push notification config.")
    return _push_out(config)


@with_protocol_errors
def _list_push_configs(
    params: pb.ListTaskPushNotificationConfigsRequest, caller: Caller
) -> pb.ListTaskPushNotificationConfigsResponse:
    configs = [_push_out(config) for config in push_configs.of_task(params.task_id, caller)]
    return pb.ListTaskPushNotificationConfigsResponse(configs=configs)


@with_protocol_errors
def _delete_push_config(params: pb.DeleteTaskPushNotificationConfigRequest, caller: Caller) -> None:
    push_configs.of_task(params.task_id, caller).filter(config_id=params.id).delete()


def _push_out(config: PushConfig) -> pb.TaskPushNotificationConfig:
    """Without the credentials, which are never returned."""
    shown = pb.TaskPushNotificationConfig(
        task_id=str(config.task_id), id=config.config_id, url=config.url, token=config.token
    )
    if config.scheme:
        shown.authentication.scheme = config.scheme
    return shown
