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
from contextvars import copy_context
from functools import partial
from queue import Empty, Queue
from typing import Any, Generic, ParamSpec, TypeVar

from django.db import close_old_connections, connections

from ledger.foundation.postgres import sessions

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
Work = TypeVar("Work")


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


class Places(Generic[Work]):
    """So many at work at once, and of each only so many; the others stand in line.

    Those in line are served in turn: one of each. Whoever shares it between threads has a lock.
    """

    def __init__(
        self,
        number: float,
        shares: Shares,
        *,
        most_waiting: float = math.inf,
        most_waiting_of_one: float = math.inf,
    ) -> None:
        self._number, self._shares = number, shares
        self._most_waiting, self._most_waiting_of_one = most_waiting, most_waiting_of_one
        self._taken = 0
        self._taken_by: Counter[Hashable] = Counter()
        # Those who wait, each with a line; who is served next comes first.
        self._lines: dict[Hashable, deque[Work]] = {}

    def take(self, whose: Hashable) -> bool:
        """Take a place, if there is room."""
        if not self._has_room(whose):
            return False
        self._taken += 1
        self._taken_by.update(self._shares(whose).keys())
        return True

    def give_back(self, whose: Hashable) -> None:
        self._taken -= 1
        for each in self._shares(whose):
            self._taken_by[each] -= 1
            if not self._taken_by[each]:
                del self._taken_by[each]

    def line_up(self, whose: Hashable, work: Work) -> bool:
        """Put the work in line, if there is room to wait."""
        of_one = len(self._lines.get(whose, ()))
        every = sum(map(len, self._lines.values())) if self._most_waiting < math.inf else 0
        if of_one >= self._most_waiting_of_one or every >= self._most_waiting:
            return False
        self._lines.setdefault(whose, deque()).append(work)
        return True

    def next(self) -> Work | None:
        """Take a place for the first in line who has room now; the rest of that line is last."""
        for whose in self._lines:
            if self.take(whose):
                line = self._lines.pop(whose)
                work = line.popleft()
                if line:
                    self._lines[whose] = line
                return work
        return None

    def leave_line(self, whose: Hashable, work: Work) -> None:
        line = self._lines.get(whose, deque())
        if work in line:
            line.remove(work)
        if not line:
            self._lines.pop(whose, None)

    def waiting(self) -> list[Work]:
        return [work for line in self._lines.values() for work in line]

    def _has_room(self, whose: Hashable) -> bool:
        return self._taken < self._number and all(
            self._taken_by[each] < most for each, most in self._shares(whose).items()
        )


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
        self._places = Places[Job[Any]](
            threads,
            shares or (lambda whose: {whose: most_of_one}),
            most_waiting=most_waiting,
            most_waiting_of_one=most_waiting_of_one,
        )
        self._resting = 0  # threads that wait for more work, without those that are handed some
        # Where several wait with a time limit, one of SimpleQueue (CPython 3.11) may wait for ever.
        self._handed: Queue[Job[Any]] = Queue()
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
        job = Job(whose, partial(copy_context().run, work, *args, **kwargs))
        with self._lock:
            if self._places.take(whose):
                try:
                    self._begin(job)
                except BaseException:  # the system has no thread left
                    self._places.give_back(whose)
                    raise
                return job
            if not self._places.line_up(whose, job):
                raise self._refusal()
        job.add_done_callback(lambda _: self._leave_line(job))
        return job

    def _begin(self, job: Job[Any]) -> None:
        if self._resting:
            self._resting -= 1
            self._handed.put(job)
        else:
            threading.Thread(
                target=self._serve, args=[[job]], name=self.name, daemon=self._daemon
            ).start()

    def _leave_line(self, job: Job[Any]) -> None:
        if job.cancelled():
            with self._lock:
                self._places.leave_line(job.whose, job)

    # --- in the threads --------------------------------------------------------------------------

    def _serve(self, first: list[Job[Any]]) -> None:
        job: Job[Any] | None = first.pop()  # the thread keeps its arguments for as long as it lives
        while job is not None:
            whose, hand_over = job.whose, _do(job)
            if not self._keeps_session:
                self._give_back(close_old_connections)
            with self._lock:
                self._places.give_back(whose)
                job = self._places.next()
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
    except StopIteration as failure:
        return partial(job.set_exception, _as_error(failure))
    except BaseException as failure:
        return partial(job.set_exception, failure)
    finally:
        del job  # which the failure would keep in a circle


def _as_error(failure: StopIteration) -> RuntimeError:
    """A future of asyncio does not take StopIteration: whoever waited for it would for ever."""
    error = RuntimeError("The work raised StopIteration.")
    error.__cause__ = failure
    return error
