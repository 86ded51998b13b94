"""Doing in one query what many requests ask for at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from a2a.protocol.stream import in_thread

Request = TypeVar("Request")
Result = TypeVar("Result")


class Batcher(Generic[Request, Result]):
    """Collects the requests that come in while a batch runs, and runs them as the next batch.

    ``run_all`` runs in a thread; it returns one result for each request, in the same order.
    """

    def __init__(self, run_all: Callable[[list[Request]], list[Result]]) -> None:
        self._run_all = run_all
        self._waiting: list[tuple[Request, asyncio.Future[Result]]] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, request: Request) -> Result:
        """The result of one request. Raises what its batch raises."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((request, result))
        if self._running is None or self._running.done():
            # In a task of its own: if the first caller is cancelled, the others still get results.
            self._running = loop.create_task(self._run())
        return await result

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            await self._run_batch(batch)

    async def _run_batch(self, batch: list[tuple[Request, asyncio.Future[Result]]]) -> None:
        try:
            results = await in_thread(self._run_all, [request for request, _ in batch])
        except BaseException as failure:
            for _, future in batch:
                if not future.done():
                    future.set_exception(failure)
            if not isinstance(failure, Exception):
                raise
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)
