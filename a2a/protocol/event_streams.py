"""``SubscribeToTask`` and ``SendStreamingMessage`` without the SDK, as server-sent events.

A stream is one coroutine that sleeps until its task changes. Only requests of the usual form are
handled here; every other one, and every one that is refused, goes through the SDK.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

from a2a.protocol import failures, fast_path, updates
from a2a.protocol.stream import TURN_OVER, Reader, follow_as_json
from a2a.states import FINAL
from ledger.batches import Batcher
from ledger.database.sessions import CONNECTION_LOST
from ledger.errors import LedgerError
from ledger.waiting.clients import ClientGone, Receive, unless_gone

logger = logging.getLogger(__name__)
Send = Callable[[Any], Awaitable[None]]

openings = Batcher(updates.openings)
# Seconds for which a client may leave an event unread.
SLOW_S = 30.0
HEAD = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ],
}
QUIET = b": nothing new\r\n\r\n"


async def answer(
    request: Any, scope: Any, receive: Receive, send: Send, token: str, headers: dict[bytes, bytes]
) -> bool:
    """Stream the answer to a JSON-RPC request; false, and nothing was done, if the SDK has to."""
    if not fast_path.is_usual_request(request, headers):
        return False
    client = scope.get("client")
    if request["method"] == "SubscribeToTask":
        task_id, until, first = fast_path.task_id_of(request["params"]), FINAL, None
    elif request["method"] == "SendStreamingMessage":
        first = await _submitted(request["params"], token, headers, scope["assent.skill"])
        task_id, until = (UUID(first["task"]["id"]) if first else None), TURN_OVER
    else:
        return False
    try:
        caller = await openings.ask((token, task_id)) if task_id is not None else None
    except CONNECTION_LOST:
        if first is None:
            raise
        caller = None
    if task_id is None or caller is None:
        # A task that has ended at once is told all the same.
        return first is not None and await _tell_once(first, request, send)
    reader = Reader(caller, token, str(client[0]) if client else "")
    stream = _Stream(request["id"], send)
    bodies = follow_as_json(task_id, reader, until)
    try:
        await unless_gone(receive, stream.send_all(bodies))
    except (ClientGone, TimeoutError):
        logger.info("the stream of task %s ended before its client had read it", task_id)
    except LedgerError:
        return first is not None and await _tell_once(first, request, send)
    except CONNECTION_LOST as failure:
        if stream.has_begun:
            await stream.fail(failure)
        elif first is None or not await _tell_once(first, request, send):
            raise
    finally:
        await bodies.aclose()
    return True


async def _submitted(
    params: dict[str, Any], token: str, headers: dict[bytes, bytes], skill: str
) -> dict[str, Any] | None:
    """The new task of a message as ``{"task": …}``; ``None`` for an unusual message."""
    if params.get("configuration", {}) != {}:
        return None
    as_sent = {**params, "configuration": {"returnImmediately": True}}
    result = await fast_path.submit(as_sent, token, headers, skill)
    return None if result is None else dict(json.loads(result))


async def _tell_once(body: dict[str, Any], request: Any, send: Send) -> bool:
    """The task and nothing more: the client subscribes to it, or knows that it has ended."""
    stream = _Stream(request["id"], send)
    await stream.send(body)
    await stream.close()
    return True


class _Stream:
    """Server-sent events of one JSON-RPC request. Nothing is sent before the first of them."""

    def __init__(self, request_id: str | int, send: Send) -> None:
        self._id, self._send, self.has_begun = request_id, send, False

    async def send_all(self, bodies: AsyncIterator[dict[str, Any] | None]) -> None:
        """Raises ``TimeoutError`` when the client does not read."""
        async for body in bodies:
            async with asyncio.timeout(SLOW_S):
                await self.send(body)
            del body  # nothing is kept while the stream waits for the next one
        await self.close()

    async def send(self, body: dict[str, Any] | None) -> None:
        if not self.has_begun:
            self.has_begun = True
            await self._send(HEAD)
        text = QUIET
        if body is not None:
            text = _event({"jsonrpc": "2.0", "id": self._id, "result": body})
        await self._send({"type": "http.response.body", "body": text, "more_body": True})

    async def fail(self, failure: Exception) -> None:
        """End with an error; the client subscribes again."""
        error = failures.error_of(failure, "SubscribeToTask")
        text = _event(failures.rpc_body(error, self._id))
        with suppress(TimeoutError):
            async with asyncio.timeout(SLOW_S):
                await self._send({"type": "http.response.body", "body": text, "more_body": True})
                await self.close()

    async def close(self) -> None:
        if self.has_begun:
            await self._send({"type": "http.response.body", "body": b""})


def _event(body: Any) -> bytes:
    return f"data: {json.dumps(body)}\r\n\r\n".encode()
