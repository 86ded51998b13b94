"""Clients that may leave while something is done for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
Receive = Callable[[], Awaitable[Any]]


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
