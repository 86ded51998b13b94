"""Doing in one query what many requests of this process ask for at the same time.

A batch runs on a database session that its thread keeps for the next one. Taking a session from the
pool for each batch would cost a check of the session, and statements that are prepared anew in
whichever session comes. In these sessions PostgreSQL plans a statement once: it would plan a batch
at each execution, for milliseconds, if it was small at first. Other sessions may not do so, since
statements of pages need plans for what they ask.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from django.db import InterfaceError, OperationalError, connection
from redis import RedisError

from ledger.foundation.lanes import Busy, Lane
from ledger.foundation.postgres import may_change_session, sessions
from ledger.foundation.postgres.sessions import CONNECTION_LOST

# Clients that were answered together often ask again together: after a small batch of several
# requests the next one begins once as many have come again, or this much later, because one batch
# costs less than two.
GATHER_S, GATHER_UP_TO = 0.005, 16
MOST_IN_BATCH = 200
# A service did not answer: asking again for each request would only take longer.
OUTAGES = (InterfaceError, OperationalError, RedisError, OSError)
# A session that the server ended fails at once, one to a database that stands still after seconds.
AT_ONCE_S = 2.0

P = ParamSpec("P")
R = TypeVar("R")
Request = TypeVar("Request")
Result = TypeVar("Result")

_short = Lane("short", 8)


async def in_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a short database operation in a thread of the process's lane for them.

    Whose token it is and what watchers look for is read here. What an agent asks for is not: as
    many of its requests as it likes would wait here, and everybody behind them.
    """
    return await _short.run("", work, *args, **kwargs)


def _give_back() -> None:
    """Give this thread's session back to the pool, as it came from there."""
    if connection.connection is None:
        return
    if may_change_session():
        connection.close()
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("RESET plan_cache_mode")
    except Exception:  # whatever it is, the thread goes on
        sessions.end()
    else:
        connection.close()


class BatchLanes(NamedTuple):
    """Few threads for batches, and more for batches that waited while all of these hung."""

    usual: Lane
    late: Lane

    async def run(self, work: Callable[[], R]) -> R:
        """Return what ``work`` returns; raise what it raises."""
        run = partial(_on_kept_session, work)
        try:
            return await self.usual.run("", run)
        except Busy:
            return await self.late.run("", run)


def batch_lanes(most: int, late: int, *, late_s: float = 0.5, idle_s: float = 1.0) -> BatchLanes:
    """``late`` batches at most have a thread for them alone, each once it waited ``late_s``.

    A thread without a batch for ``idle_s`` gives its session back.
    """
    keeping: dict[str, Any] = {"keeps_session": True, "at_rest": _give_back, "daemon": True}
    return BatchLanes(
        Lane("batch", most, within=late_s, stays_s=idle_s, **keeping),
        Lane("late batch", late, **keeping),
    )


def _on_kept_session(work: Callable[[], R]) -> R:
    try:
        _keep_plans()
        return work()
    except BaseException:
        if connection.errors_occurred:
            sessions.end()
        raise


def _keep_plans() -> None:
    if connection.connection is None and not may_change_session():
        with connection.cursor() as cursor:
            cursor.execute("SET plan_cache_mode = force_generic_plan")


# A batch that waits for a lock delays none of another kind, of which there are sixteen at most.
_lanes = batch_lanes(4, late=12)


class Batcher(Generic[Request, Result]):
    """Collects the requests that come in while a batch runs, and runs them as the next batch.

    ``run_all`` runs in a thread; it returns one result for each request, in the same order. When
    it fails for several requests, each is run alone, so that none fails because of another.
    """

    def __init__(
        self,
        run_all: Callable[[list[Request]], list[Result]],
        *,
        may_repeat: bool = True,
    ) -> None:
        """``may_repeat``: running a request again does no harm, whatever was done at first."""
        self._run_all, self._may_repeat = run_all, may_repeat
        self._waiting: list[tuple[Request, asyncio.Future[Result]]] = []
        self._running: asyncio.Task[None] | None = None
        self._gathered: asyncio.Future[None] | None = None
        self._expected = 0

    async def ask(self, request: Request) -> Result:
        """The result of one request. Raises what ``run_all`` raises for it."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((request, result))
        if self._running is None or self._running.done():
            # In a task of its own: if the first caller is cancelled, the others still get results.
            self._running = loop.create_task(self._run())
            self._gathered = None
        if self._gathered is not None and len(self._waiting) >= self._expected:
            self._gathered.set_result(None)
            self._gathered = None
        return await result

    async def _run(self) -> None:
        while self._waiting:
            batch = self._waiting[:MOST_IN_BATCH]
            self._waiting = self._waiting[MOST_IN_BATCH:]
            await self._run_batch(batch)
            asked = len(batch) + len(self._waiting)
            if 1 < asked <= GATHER_UP_TO:
                await self._gather(asked)

    async def _gather(self, expected: int) -> None:
        self._expected = expected
        self._gathered = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._gathered], timeout=GATHER_S)
        self._gathered = None

    async def _run_batch(self, batch: list[tuple[Request, asyncio.Future[Result]]]) -> None:
        """Gives each request its result, or what was raised; raises only what ends the process."""
        try:
            results = await self._results([request for request, _ in batch])
        except Exception as failure:
            if len(batch) > 1 and self._may_repeat and not isinstance(failure, OUTAGES):
                await self._run_alone(batch)
            else:
                _fail(batch, failure)
        except BaseException as failure:
            _fail(batch, failure)
            raise
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)

    async def _results(self, requests: list[Request]) -> list[Result]:
        """Runs the batch once more, on a fresh session, if its session was ended just now.

        A database that stands still is not asked a second time by those who waited for it already.
        """
        began = time.monotonic()
        try:
            return await _lanes.run(partial(self._run_all, requests))
        except CONNECTION_LOST as failure:
            is_slow = time.monotonic() - began > AT_ONCE_S
            if is_slow and sessions.is_standstill(failure):
                waiting, self._waiting = self._waiting, []
                _fail(waiting, failure)
            if is_slow or not self._may_repeat or not sessions.may_have_committed(failure):
                raise
        return await _lanes.run(partial(self._run_all, requests))

    async def _run_alone(self, batch: list[tuple[Request, asyncio.Future[Result]]]) -> None:
        for number, waiting in enumerate(batch):
            try:
                if not waiting[1].done():
                    await self._run_batch([waiting])
            except BaseException as failure:
                _fail(batch[number:], failure)
                raise


def _fail(batch: list[tuple[Request, asyncio.Future[Result]]], failure: BaseException) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(failure)
