"""Clients that may leave, send or read slowly while something is done for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
# Seconds for which a client may leave an event unread.
SLOW_S = 30.0
EVENTS = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store, no-transform"),
        (b"x-accel-buffering", b"no"),
    ],
}


class ClientGone(Exception):
    """The client closed its connection before it was answered."""


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do the work; raises ``ClientGone`` as soon as the client closes its connection.

    The body of the request must have been read: what comes after it is only its end.
    """
    worker = asyncio.current_task()
    is_gone = False

    async def watch() -> None:
        nonlocal is_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        is_gone = True
        if worker is not None:
            worker.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if not is_gone:
            raise
        if worker is not None:
            worker.uncancel()
        raise ClientGone from None
    finally:
        watching.cancel()


async def read_body(receive: Receive, most: int) -> bytes | None:
    """The body of a request; ``None`` if it has more than ``most`` bytes. Raises ``ClientGone``."""
    chunks, size = [], 0
    while True:
        part = await receive()
        if part["type"] != "http.request":
            raise ClientGone
        chunks.append(part.get("body", b""))
        size += len(chunks[-1])
        if size > most:
            return None
        if not part.get("more_body"):
            return b"".join(chunks)


class EventStream:
    """A response of server-sent events, which begins with the first of them."""

    def __init__(self, send: Send) -> None:
        self._send, self.has_begun = send, False

    async def write(self, event: bytes) -> None:
        """Raises ``TimeoutError`` for a client that does not read."""
        async with asyncio.timeout(SLOW_S):
            if not self.has_begun:
                self.has_begun = True
                await self._send(EVENTS)
            await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def close(self) -> None:
        if self.has_begun:
            await self._send({"type": "http.response.body", "body": b""})
