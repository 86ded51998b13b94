"""Calls of tools that one process has at work at once: so many of a tool, address and tenant.

A tool that hangs keeps its own places and nobody else's. What waits for a place, or for its turn at
an address that does not answer, waits as an id that nobody has claimed: the sweeper finds it in the
database.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from typing import NamedTuple
from uuid import UUID

from django.db import close_old_connections, connection

from ledger.execution import Executions
from ledger.foundation.lanes import Lane, Places
from ledger.foundation.postgres import on_one_line, use_prepared_statements
from ledger.models import TransactionRow
from ledger.states import State
from ledger.tools import silent_addresses, tool_of
from ledger.tools.silent_addresses import Address

logger = logging.getLogger(__name__)

MOST_WAITING = 10_000  # for one tool of a tenant
COMMIT = "commit"
QUEUES = frozenset({COMMIT, "roll_back", "compensate"})  # their jobs call tools
MOST_TIMERS = 200
TOGETHER = 16  # transactions that are claimed in one statement

JobName = tuple[str, str]  # the queue and the id


class Subject(NamedTuple):
    tenant: str
    tool: str
    runs_at: str  # empty: in this process


class Call(NamedTuple):
    """The call that a job is about to make; without an address it makes none.

    ``is_first``: the transaction was signed off, and nobody has called its tool.
    """

    subject: Subject
    address: Address | None
    timeout: timedelta
    is_first: bool
    wait_s: float = 0.0  # its approval can be withdrawn for so long


class _InHand(NamedTuple):
    call: Call
    do: Callable[[], None]
    has_place: bool


class Calls:
    """``places`` is how many calls may be at work; ``begin_each`` may be called in any thread.

    Approved transactions are carried out together (``Executions``); any other job has a thread.
    """

    def __init__(self, places: int, name: str = "calls") -> None:
        self._number = places
        self._places = Places[JobName](places, self._shares, most_waiting_of_one=MOST_WAITING)
        self._threads = Lane(name, math.inf, daemon=True)
        self._executions = Executions(lambda ids: self._end([(COMMIT, str(pk)) for pk in ids]))
        self._changed = threading.Condition()
        self._in_hand: dict[JobName, _InHand] = {}  # at work, or waiting for a place
        self._timers: set[threading.Timer] = set()
        self._is_closed = False

    def _shares(self, subject: Subject) -> Mapping[Hashable, float]:
        """A quarter of the places for a tool of a tenant, half for an address, three quarters for
        the tenant."""
        quarter = max(1, self._number // 4)
        shares: dict[Hashable, float] = {
            (subject.tenant, subject.tool): quarter,
            subject.tenant: max(1, self._number - quarter),
        }
        if subject.runs_at:
            shares["at", subject.runs_at] = max(1, self._number // 2)
        return shares

    def begin_each(self, name: str, work: Mapping[str, Callable[[], None]]) -> None:
        """Begin the work of each of these jobs, at once or when there is a place.

        Does nothing for what is in hand already, nor where another finds out first whether the
        address answers.
        """
        calls = _calls_of(work)
        unknown = work.keys() - calls.keys()
        for job_id in [each for each, call in calls.items() if call.wait_s > 0]:
            self._begin_later(name, job_id, work[job_id], calls.pop(job_id).wait_s)
        not_now = silent_addresses.read() if calls else frozenset()
        self._begin(
            [
                (name, job_id)
                for job_id, call in calls.items()
                if call.address not in not_now
                and self._take_place((name, job_id), call, work[job_id])
            ]
        )
        for job_id in unknown:
            work[job_id]()  # which finds out that there is no such row, and says so
        self._end([])  # begins who waits although there is room: no thread could be started before
        close_old_connections()  # the threads may have the session

    def _begin_later(self, name: str, job_id: str, do: Callable[[], None], wait_s: float) -> None:
        """Come back to it once nobody can undo it any more. If this process ends before, or too
        many wait already, the sweeper finds it."""
        with self._changed:
            self._timers = {each for each in self._timers if each.is_alive()}
            if self._is_closed or len(self._timers) >= MOST_TIMERS:
                return
            timer = threading.Timer(wait_s, self._begin_in_thread, [name, {job_id: do}])
            timer.daemon = True
            self._timers.add(timer)
            timer.start()

    def _begin_in_thread(self, name: str, work: Mapping[str, Callable[[], None]]) -> None:
        try:
            self.begin_each(name, work)
        except Exception as failure:
            logger.info("%s not begun; the sweeper comes back to it: %s", [*work], failure)
        finally:
            connection.close()

    def _take_place(self, job: JobName, call: Call, do: Callable[[], None]) -> bool:
        """True if it has a place; else it waits in line, unless too many do."""
        with self._changed:
            if self._is_closed or job in self._in_hand:
                return False
            has_place = self._places.take(call.subject)
            if has_place or self._places.line_up(call.subject, job):
                self._in_hand[job] = _InHand(call, do, has_place)
                return has_place
        tool, tenant = call.subject.tool, call.subject.tenant
        logger.info("too many wait for %s of %s; the sweeper comes back to it", tool, tenant)
        return False

    def _begin(self, jobs: Sequence[JobName]) -> None:
        """Begin those that have a place: together where they can be, else each in a thread."""
        together = [UUID(job[1]) for job in jobs if self._can_be_together(job)]
        begun: set[UUID] = set()
        try:
            begun = self._executions.begin(together)
        except Exception as failure:
            logger.info("%d at once failed, each goes on alone: %s", len(together), failure)
            connection.close()
        for job in jobs:
            if not (job[0] == COMMIT and UUID(job[1]) in begun):
                self._start(partial(self._do_alone, job), [job])

    def _start(self, work: Callable[[], None], jobs: Sequence[JobName]) -> None:
        try:
            self._threads.start("", work)
        except RuntimeError:  # the system has no thread left; the sweeper comes back to them
            logger.exception("no thread for %s", jobs)
            self._end(jobs, is_followed=False)

    def _can_be_together(self, job: JobName) -> bool:
        call = self._in_hand[job].call
        is_first = job[0] == COMMIT and call.is_first
        return is_first and not (call.address and silent_addresses.is_silent(call.address))

    def _do_alone(self, job: JobName) -> None:
        """Its address may have become silent while it waited for a place."""
        call, do, _ = self._in_hand[job]
        try:
            with _turn(call) as may_call:
                if may_call:
                    do()
        finally:
            self._end([job])

    def _end(self, jobs: Sequence[JobName], *, is_followed: bool = True) -> None:
        """Give their places to those that are next in line."""
        following: list[JobName] = []
        with self._changed:
            for job in jobs:
                ended = self._in_hand.get(job)
                if ended is not None and ended.has_place:
                    del self._in_hand[job]
                    self._places.give_back(ended.call.subject)
            while is_followed and not self._is_closed and (first := self._places.next()):
                self._in_hand[first] = self._in_hand[first]._replace(has_place=True)
                following.append(first)
            self._changed.notify_all()
        for at in range(0, len(following), TOGETHER):
            jobs = following[at : at + TOGETHER]
            self._start(partial(self._begin, jobs), jobs)

    def stop(self) -> list[JobName]:
        """Begin nothing more, and wait for what has begun; returns what was waiting for a place."""
        with self._changed:
            self._is_closed = True
            waiting = [job for job, each in self._in_hand.items() if not each.has_place]
            for job in waiting:
                del self._in_hand[job]
            if self._in_hand:
                names = ", ".join(" ".join(job) for job in self._in_hand)
                logger.warning("stopping: waits for the jobs in hand, %s", names)
            self._changed.wait_for(lambda: not self._in_hand)
        return waiting


def _turn(call: Call) -> AbstractContextManager[bool]:
    if call.address is None:
        return nullcontext(True)
    return silent_addresses.turn(call.address, call.timeout)


_COLUMNS = (
    "id",
    "tenant",
    "tool",
    "tool_version",
    "state",
    "lease_expires_at",
    "next_attempt_at",
)
_WAIT_S = f"""
    CASE WHEN state = '{State.APPROVED}' AND next_attempt_at > statement_timestamp()
    THEN extract(epoch FROM next_attempt_at - statement_timestamp())::float8 ELSE 0 END
"""
_BY_ID = on_one_line(
    f"SELECT {', '.join(_COLUMNS)}, {_WAIT_S} FROM ledger_transaction WHERE id = ANY (%s::uuid[])"
)


def _calls_of(job_ids: Iterable[str]) -> dict[str, Call]:
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(_BY_ID, [list(job_ids)])
        rows = [
            (TransactionRow(**dict(zip(_COLUMNS, values, strict=True))), wait_s)
            for *values, wait_s in cursor.fetchall()
        ]
    return {str(row.pk): _call_of(row, wait_s) for row, wait_s in rows}


def _call_of(row: TransactionRow, wait_s: float) -> Call:
    tool = tool_of(row)
    runs_at, timeout = (tool.runs_at, tool.contract.call_timeout) if tool else ("", timedelta(0))
    subject = Subject(row.tenant, row.tool, runs_at)
    is_first = row.state == State.APPROVED
    return Call(subject, silent_addresses.next_call_of(row), timeout, is_first, wait_s)
