"""Threads that run batches, each on a database session that it keeps from one to the next.

Taking a session from the pool for each batch would cost a check of the session, and statements
that are prepared anew in whichever session comes. In these sessions PostgreSQL plans a statement
once: it would plan a batch at each execution, for milliseconds, if it was small at first. Other
sessions may not do so, since statements of pages need plans for what they ask.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Semaphore
from typing import Any, ParamSpec, TypeVar

from django.db import connection

from ledger.database import sessions

# A thread without a batch for so many seconds gives its session back to the pool.
IDLE_S = 1.0
# A batch that waits for so long, while all threads hang, gets one that is there for it alone.
LATE_S = 0.5

P = ParamSpec("P")
R = TypeVar("R")
Job = tuple[Callable[[], Any], Future[Any]]


class BatchThreads:
    """At most ``most`` threads, which start when they are needed and end with the process.

    While these hang, at most ``late`` others each run one batch that has waited for ``LATE_S``.
    """

    def __init__(self, most: int, late: int = 0) -> None:
        self._most = most
        self._late = Semaphore(late)
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._needed, self._started = 0, 0  # threads

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of ``work``; raises what it raises."""
        future: Future[R] = Future()
        self._need(1)
        self._jobs.put((partial(work, *args, **kwargs), future))
        late = asyncio.get_running_loop().call_later(LATE_S, self._start_late, future)
        try:
            return await asyncio.wrap_future(future)
        finally:
            late.cancel()

    def _need(self, more: int) -> None:
        """Count threads that have something to do, and start one where they are too few."""
        with self._lock:
            self._needed += more
            is_short = self._started < min(self._needed, self._most)
            self._started += is_short
        if is_short:
            threading.Thread(target=self._serve, name="batch", daemon=True).start()

    def _start_late(self, future: Future[Any]) -> None:
        is_waiting = not future.running() and not future.done()
        if is_waiting and self._late.acquire(blocking=False):
            threading.Thread(target=self._serve_late, name="late batch", daemon=True).start()

    def _serve_late(self) -> None:
        """Run the batch that has waited longest; there is none if a thread has come free."""
        try:
            with suppress(Empty):
                _run(*self._jobs.get_nowait())
                self._need(-1)
                _give_back()
        finally:
            self._late.release()

    def _serve(self) -> None:
        while True:
            work, future = self._next()
            _run(work, future)
            self._need(-1)
            del work, future  # of an idle thread nothing is kept

    def _next(self) -> Job:
        try:
            return self._jobs.get(timeout=IDLE_S)
        except Empty:
            self._need(1)  # a session that hangs holds up no batch
            _give_back()
            self._need(-1)
            return self._jobs.get()


def _run(work: Callable[[], Any], future: Future[Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        sessions.end_if_lost()
        _keep_plans()
        result = work()
    except BaseException as failure:
        if connection.errors_occurred:
            sessions.end()
        future.set_exception(failure)
    else:
        future.set_result(result)


def _keep_plans() -> None:
    if connection.connection is None:
        with connection.cursor() as cursor:
            cursor.execute("SET plan_cache_mode = force_generic_plan")


def _give_back() -> None:
    """To the pool, as it came from there."""
    if connection.connection is None:
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("RESET plan_cache_mode")
    except Exception:  # whatever it is, the thread goes on
        sessions.end()
    else:
        connection.close()
