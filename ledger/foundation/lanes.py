"""Lanes: the threads of one kind of work each, so that no kind of work waits for another.

A lane bounds how much runs at once, how much of that is one agent's (or address's, or tool's), how
much waits, and for how long. Those who wait are served in turn. Work that has begun is never
stopped: it keeps its place until it returns, even if nobody waits for its result any more.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

from django.db import close_old_connections, connections

from ledger.foundation.postgres import sessions

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


class Busy(Exception):
    """There is no room in the lane, or none came free in time; nothing was done."""


class Job(Future[R], Generic[R]):
    """Work in a lane. ``cancel`` takes it out of the line, unless it has begun.

    Callbacks run in the lane's thread, which counts as free by then: they have to be short.
    """

    def __init__(self, whose: Hashable, work: Callable[[], R]) -> None:
        super().__init__()
        self.whose, self.work = whose, work


# The most of each that may run, of everything that somebody's work counts for.
Shares = Callable[[Any], Mapping[Hashable, float]]

# The lanes of this process by name; where one is made anew, the first.
every: dict[str, Lane] = {}


class Lane:
    """At most ``threads`` threads, which start when they are needed and end when they are not."""

    def __init__(
        self,
        name: str,
        threads: float,
        *,
        most_of_one: float = math.inf,
        shares: Shares | None = None,
        most_waiting: float = math.inf,
        most_waiting_of_one: float = math.inf,
        within: float | None = None,
        refusal: Callable[[], Exception] = Busy,
        stays_s: float = 1.0,
        keeps_session: bool = False,
        at_rest: Callable[[], Any] = connections.close_all,
        daemon: bool = False,
    ) -> None:
        """``shares`` says of whoever has work what that counts for, and how much of each may run;
        without it that is ``most_of_one`` of each.

        ``within`` is how many seconds work may wait; ``refusal`` makes what is raised then.

        A thread ends when it had no work for ``stays_s``, and calls ``at_rest`` then. After each
        work it gives its database session back to the pool, unless it ``keeps_session`` until it
        ends. At its own end the process does not wait for work of a ``daemon`` lane.
        """
        self.name, self.threads, self.within = name, threads, within
        self.most_of_one, self._refusal = most_of_one, refusal
        self.most_waiting, self.most_waiting_of_one = most_waiting, most_waiting_of_one
        self._stays_s, self._daemon = stays_s, daemon
        self._keeps_session, self._at_rest = keeps_session, at_rest
        self._lock = threading.Lock()
        self._shares: Shares = shares or (lambda whose: {whose: most_of_one})
        self._at_work = 0
        self._running: Counter[Hashable] = Counter()
        # Those who wait, each with a line; who is served next comes first.
        self._lines: dict[Hashable, deque[Job[Any]]] = {}
        self._resting = 0  # threads that wait for more work, without those that are handed some
        self._handed: SimpleQueue[Job[Any]] = SimpleQueue()
        every.setdefault(name, self)

    # --- for those who have work -----------------------------------------------------------------

    async def run(
        self, whose: Hashable, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Return what ``work`` returns, or raise what it raises, or ``refusal``."""
        job = self.start(whose, work, *args, **kwargs)
        finished = asyncio.wrap_future(job)
        patience = (
            asyncio.get_running_loop().call_later(self.within, job.cancel)
            if self.within is not None
            else None
        )
        try:
            await asyncio.wait([finished])
        finally:
            if patience is not None:
                patience.cancel()
            finished.cancel()
        if finished.cancelled():
            raise self._refusal()
        return finished.result()

    def run_sync(self, whose: Hashable, work: Callable[[], R], *, timeout: float) -> R:
        """As ``run``, from a thread. Raises ``TimeoutError`` for work that takes too long."""
        job = self.start(whose, work)
        patience = timeout if self.within is None else min(self.within, timeout)
        try:
            return job.result(patience)
        except TimeoutError:
            if job.cancel():
                raise self._refusal() from None
            return job.result(timeout - patience)

    def start(
        self, whose: Hashable, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Job[R]:
        """Begin the work, or put it in line. Raises ``refusal``."""
        job = Job(whose, partial(work, *args, **kwargs))
        with self._lock:
            if self._has_room(whose):
                self._begin(job)
                return job
            if not self._has_room_to_wait(whose):
                raise self._refusal()
            self._lines.setdefault(whose, deque()).append(job)
        job.add_done_callback(lambda _: self._leave_line(job))
        return job

    def empty_lines(self) -> None:
        """Cancel what waits; what has begun goes on."""
        with self._lock:
            waiting = [job for line in self._lines.values() for job in line]
        for job in waiting:
            job.cancel()

    # --- places, with the lock -------------------------------------------------------------------

    def _has_room(self, whose: Hashable) -> bool:
        shares = self._shares(whose).items()
        return self._at_work < self.threads and all(
            self._running[each] < most for each, most in shares
        )

    def _has_room_to_wait(self, whose: Hashable) -> bool:
        if len(self._lines.get(whose, ())) >= self.most_waiting_of_one:
            return False
        return sum(map(len, self._lines.values())) < self.most_waiting

    def _begin(self, job: Job[Any]) -> None:
        if self._resting:
            self._resting -= 1
            self._handed.put(job)
        else:
            threading.Thread(
                target=self._serve, args=[[job]], name=self.name, daemon=self._daemon
            ).start()
        self._count(job.whose)

    def _count(self, whose: Hashable) -> None:
        self._at_work += 1
        self._running.update(self._shares(whose).keys())

    def _end(self, whose: Hashable) -> None:
        self._at_work -= 1
        for each in self._shares(whose):
            self._running[each] -= 1
            if not self._running[each]:
                del self._running[each]

    def _next(self) -> Job[Any] | None:
        """Take the first job that has room now out of its line, which becomes the last."""
        for whose in self._lines:
            if self._has_room(whose):
                line = self._lines.pop(whose)
                job = line.popleft()
                if line:
                    self._lines[whose] = line
                self._count(whose)
                return job
        return None

    def _leave_line(self, job: Job[Any]) -> None:
        if not job.cancelled():
            return
        with self._lock:
            line = self._lines.get(job.whose, deque())
            if job in line:
                line.remove(job)
            if not line:
                self._lines.pop(job.whose, None)

    # --- in the threads --------------------------------------------------------------------------

    def _serve(self, first: list[Job[Any]]) -> None:
        job: Job[Any] | None = first.pop()  # the thread keeps its arguments for as long as it lives
        while job is not None:
            whose, hand_over = job.whose, _do(job)
            if not self._keeps_session:
                self._give_back(close_old_connections)
            with self._lock:
                self._end(whose)
                job = self._next()
                if job is None:
                    self._resting += 1  # before anybody knows of the result, and has more work
            hand_over()
            del whose, hand_over  # of a thread that rests nothing is kept
            job = job or self._rest()

    def _rest(self) -> Job[Any] | None:
        """Wait for more work; ``None`` if the thread is to end."""
        with suppress(Empty):
            return self._handed.get(timeout=self._stays_s)
        with self._lock:
            with suppress(Empty):
                return self._handed.get_nowait()  # handed over just now
            self._resting -= 1
        self._give_back(self._at_rest)
        return None

    def _give_back(self, close: Callable[[], Any]) -> None:
        try:
            close()
        except Exception:
            logger.exception("a thread of %s could not give back what it had", self.name)


def _do(job: Job[Any]) -> Callable[[], None]:
    """Do the work; returns what hands over its result."""
    if not job.set_running_or_notify_cancel():
        return lambda: None
    try:
        sessions.end_if_lost()
        return partial(job.set_result, job.work())
    except BaseException as failure:
        return partial(job.set_exception, failure)
    finally:
        del job  # which the failure would keep in a circle
