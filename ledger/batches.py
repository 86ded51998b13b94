"""Doing in one query what many requests of this process ask for at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Generic, ParamSpec, TypeVar

from django.db import close_old_connections

THREADS = 8

P = ParamSpec("P")
R = TypeVar("R")
Request = TypeVar("Request")
Result = TypeVar("Result")

_pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="short")


async def in_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a short database operation in a thread of the process's pool for them."""
    return await in_pool(_pool, work, *args, **kwargs)


async def in_pool(pool: Executor, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a database operation in a thread of ``pool``, for those that may take seconds."""
    run = partial(_with_fresh_connection, work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(pool, run)


def _with_fresh_connection(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Closes stale connections, so that an idle thread holds no session of a connection pool."""
    close_old_connections()
    try:
        return work(*args, **kwargs)
    finally:
        close_old_connections()


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
