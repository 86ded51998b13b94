"""Calls of tools that one process has at work at once: so many of a tool, address and tenant.

A tool that hangs keeps its own places and nobody else's. What waits for a place, or for its turn at
an address that does not answer, waits as an id that nobody has claimed: the sweeper finds it in the
database.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import wait
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from django.db import close_old_connections, connection

from ledger.foundation.lanes import Busy, Job, Lane
from ledger.foundation.postgres import use_prepared_statements
from ledger.models import TransactionRow
from ledger.tools import silent_addresses, tool_of
from ledger.tools.silent_addresses import Address

logger = logging.getLogger(__name__)

MOST_WAITING = 10_000  # for one tool of a tenant
QUEUES = frozenset({"commit", "roll_back", "compensate"})  # their jobs call tools

JobName = tuple[str, str]  # the queue and the id


class Subject(NamedTuple):
    tenant: str
    tool: str
    runs_at: str  # empty: in this process


class Call(NamedTuple):
    """The call that a job is about to make; ``None`` where it makes none."""

    subject: Subject
    address: Address | None
    timeout: timedelta


class Calls:
    """``places`` is how many calls may be at work; ``begin_each`` may be called in any thread."""

    def __init__(self, places: int, name: str = "calls") -> None:
        self._places = places
        self._lane = Lane(
            name, places, shares=self._shares, most_waiting_of_one=MOST_WAITING, daemon=True
        )
        self._lock = threading.Lock()
        self._in_hand: dict[JobName, Job[None]] = {}
        self._is_closed = False

    def _shares(self, subject: Subject) -> Mapping[Hashable, float]:
        """A quarter of the places for a tool of a tenant, half for an address, three quarters for
        the tenant."""
        quarter = max(1, self._places // 4)
        shares: dict[Hashable, float] = {
            (subject.tenant, subject.tool): quarter,
            subject.tenant: max(1, self._places - quarter),
        }
        if subject.runs_at:
            shares["at", subject.runs_at] = max(1, self._places // 2)
        return shares

    def begin_each(self, name: str, work: Mapping[str, Callable[[], None]]) -> None:
        """Do the work of each of these jobs in a thread of its own, at once or when there is a
        place. Does nothing for what is in hand already, nor where another finds out first whether
        the address answers."""
        calls = _calls_of(work)
        not_now = silent_addresses.read() if calls else frozenset()
        for job_id, do in work.items():
            call = calls.get(job_id)
            if call is None:
                do()  # which finds out that there is no such row, and says so
            elif call.address not in not_now:
                self._begin((name, job_id), call.subject, partial(_do_in_turn, call, do))
        close_old_connections()  # their threads may have the session

    def _begin(self, job: JobName, subject: Subject, do: Callable[[], None]) -> None:
        with self._lock:
            if self._is_closed or job in self._in_hand:
                return
            try:
                begun = self._in_hand[job] = self._lane.start(subject, do)
            except Busy:
                logger.info(
                    "too many wait for %s of %s; the sweeper comes back to it",
                    subject.tool,
                    subject.tenant,
                )
                return
        begun.add_done_callback(lambda _: self._forget(job))

    def _forget(self, job: JobName) -> None:
        with self._lock:
            self._in_hand.pop(job, None)

    def stop(self) -> list[JobName]:
        """Begin nothing more, and wait for what has begun; returns what was waiting for a place."""
        with self._lock:
            self._is_closed = True
            jobs = dict(self._in_hand)
        self._lane.empty_lines()
        left = {job: begun for job, begun in jobs.items() if not begun.done()}
        if left:
            names = ", ".join(" ".join(job) for job in left)
            logger.warning("stopping: waits for the jobs in hand, %s", names)
        wait(left.values())
        return [job for job, begun in jobs.items() if begun.cancelled()]


def _do_in_turn(call: Call, do: Callable[[], None]) -> None:
    """Its address may have become silent while it waited for a place."""
    if call.address is None:
        do()
        return
    with silent_addresses.turn(call.address, call.timeout) as may_call:
        if may_call:
            do()


_COLUMNS = (
    "id",
    "tenant",
    "tool",
    "tool_version",
    "state",
    "lease_expires_at",
    "next_attempt_at",
)
_BY_ID = f"SELECT {', '.join(_COLUMNS)} FROM ledger_transaction WHERE id = ANY (%s::uuid[])"


def _calls_of(job_ids: Iterable[str]) -> dict[str, Call]:
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(_BY_ID, [list(job_ids)])
        rows = [
            TransactionRow(**dict(zip(_COLUMNS, values, strict=True)))
            for values in cursor.fetchall()
        ]
    return {str(row.pk): _call_of(row) for row in rows}


def _call_of(row: TransactionRow) -> Call:
    tool = tool_of(row)
    runs_at, timeout = (tool.runs_at, tool.contract.call_timeout) if tool else ("", timedelta(0))
    subject = Subject(row.tenant, row.tool, runs_at)
    return Call(subject, silent_addresses.next_call_of(row), timeout)
