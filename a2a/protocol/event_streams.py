"""``SubscribeToTask`` and ``SendStreamingMessage``: server-sent events, in each binding.

A stream is one coroutine that sleeps until its task changes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

from a2a.protocol import fast_path, operations, updates
from a2a.protocol.bindings import Binding
from a2a.protocol.calls import Call, Json
from a2a.protocol.errors import error_of
from a2a.protocol.operations import OPERATIONS, in_turn
from a2a.protocol.stream import TURN_OVER, Reader, follow
from a2a.protocol.threads import patient, quick
from a2a.states import FINAL
from ledger.agents import Caller
from ledger.api.waiting import ClientGone, EventStream, Receive, Send, unless_gone
from ledger.errors import LedgerError
from ledger.foundation.batches import Batcher
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.models import id_or_none

logger = logging.getLogger(__name__)

STREAMING = {"SubscribeToTask": FINAL, "SendStreamingMessage": TURN_OVER}
openings = Batcher(updates.openings)
QUIET = b": nothing new\r\n\r\n"


async def answer(call: Call, binding: Binding, receive: Receive, send: Send) -> None:
    """Stream the answer to a call. Raises what refuses it before anything was sent."""
    stream = _Stream(binding, send)
    call, caller = await operations.prepared(call)
    try:
        await _stream(call, caller, stream, receive)
    except Exception as failure:
        if not stream.has_begun and not binding.refuses_in_streams:
            raise
        await stream.fail(failure, call.operation)


async def _stream(call: Call, caller: Caller, stream: _Stream, receive: Receive) -> None:
    first: Json | None = None
    if call.operation == "SubscribeToTask":
        task_id = await _opened(call, caller)
    else:
        first = await _submitted(call, caller)
        task_id = UUID(first["task"]["id"])
    reader = Reader(caller, call.token, call.client)
    bodies = follow(task_id, reader, STREAMING[call.operation])
    try:
        await unless_gone(receive, stream.tell_all(bodies))
    except (ClientGone, TimeoutError):
        logger.info("the stream of task %s ended before its client had read it", task_id)
    except (LedgerError, *CONNECTION_LOST):
        if first is None or stream.has_begun:
            raise
        # The message was received: its client subscribes to the task, or knows that it has ended.
        await stream.tell(first)
        await stream.close()
    finally:
        await bodies.aclose()


async def _opened(call: Call, caller: Caller) -> UUID:
    """The id of the task to follow. Raises what refuses the call."""
    task_id = id_or_none(call.params.get("id", ""))
    if task_id is not None and await openings.ask((call.token, task_id)) is not None:
        return task_id
    return await in_turn(quick, operations.open_task, call, caller)


async def _submitted(call: Call, caller: Caller) -> Json:
    """The task of the message, which is received, as ``{"task": …}``."""
    if "configuration" not in call.params:
        at_once = call.params | {"configuration": {"returnImmediately": True}}
        if (usual := await fast_path.submit(call, at_once)) is not None:
            return dict(json.loads(usual))
    task_id = await in_turn(patient, operations.receive, call, caller)
    params = call.params.get("configuration", {}) | {"id": str(task_id)}
    return {"task": await in_turn(quick, operations.read, replace(call, params=params), caller)}


class _Stream(EventStream):
    """The events of one call, in its binding. Nothing is sent before the first of them."""

    def __init__(self, binding: Binding, send: Send) -> None:
        super().__init__(send)
        self._binding = binding

    async def tell_all(self, bodies: AsyncIterator[Json | None]) -> None:
        async for body in bodies:
            await self.tell(body)
            del body  # nothing is kept while the stream waits for the next one
        await self.close()

    async def tell(self, body: Json | None) -> None:
        await self.write(QUIET if body is None else self._binding.event(body))

    async def fail(self, failure: Exception, operation: str) -> None:
        """End with an error; the client subscribes again."""
        # Where the stream has begun, the message was received.
        is_read = self.has_begun or OPERATIONS[operation].is_read
        error = error_of(failure, operation, is_read=is_read)
        with suppress(TimeoutError):
            await self.write(self._binding.error_event(error))
            await self.close()
