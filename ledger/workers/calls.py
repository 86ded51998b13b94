"""Calls of tools that one process has at work at once: so many of a tool, so many of a tenant.

A tool that hangs keeps its own places and nobody else's. What waits for a place waits as an id that
nobody has claimed: if this process ends, the sweeper finds it in the database.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import wait
from typing import NamedTuple

from django.db import close_old_connections, connection

from ledger.foundation.lanes import Busy, Job, Lane
from ledger.foundation.postgres import use_prepared_statements

logger = logging.getLogger(__name__)

MOST_WAITING = 10_000  # for one tool of a tenant
QUEUES = frozenset({"commit", "roll_back", "compensate"})  # their jobs call tools


JobName = tuple[str, str]  # the queue and the id


class Subject(NamedTuple):
    tenant: str
    tool: str


class Calls:
    """``places`` is how many calls may be at work; ``begin_each`` may be called in any thread."""

    def __init__(self, places: int, name: str = "calls") -> None:
        self._quarter, self._places = max(1, places // 4), places
        self._lane = Lane(
            name, places, shares=self._shares, most_waiting_of_one=MOST_WAITING, daemon=True
        )
        self._lock = threading.Lock()
        self._in_hand: dict[JobName, Job[None]] = {}
        self._is_closed = False

    def _shares(self, subject: Subject) -> Mapping[Hashable, float]:
        """A quarter of the places for a tool of a tenant, three quarters for the tenant."""
        return {subject: self._quarter, subject.tenant: max(1, self._places - self._quarter)}

    def begin_each(self, name: str, work: Mapping[str, Callable[[], None]]) -> None:
        """Do the work of each of these jobs in a thread of its own, at once or when there is a
        place. Does nothing for what is in hand already."""
        subjects = _subjects_of(work)
        for job_id, do in work.items():
            if job_id in subjects:
                self._begin((name, job_id), subjects[job_id], do)
            else:
                do()  # which finds out that there is no such row, and says so

    def _begin(self, job: JobName, subject: Subject, do: Callable[[], None]) -> None:
        with self._lock:
            if self._is_closed or job in self._in_hand:
                return
            try:
                begun = self._in_hand[job] = self._lane.start(subject, do)
            except Busy:
                logger.info("too many wait for %s of %s; the sweeper comes back to it", *subject)
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


def _subjects_of(job_ids: Iterable[str]) -> dict[str, Subject]:
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, tenant, tool FROM ledger_transaction WHERE id = ANY (%s::uuid[])",
            [list(job_ids)],
        )
        subjects = {str(pk): Subject(tenant, tool) for pk, tenant, tool in cursor.fetchall()}
    close_old_connections()  # their threads may have the session
    return subjects
