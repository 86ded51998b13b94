"""Calls of tools that one process has at work at once: so many of a tool, so many of a tenant.

A tool that hangs keeps its own places and nobody else's. What waits for a place waits as an id that
nobody has claimed: if this process ends, the sweeper finds it in the database.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import wait
from typing import NamedTuple

from django.db import close_old_connections, connection

from ledger.foundation.lanes import Job, Lane
from ledger.foundation.postgres import use_prepared_statements

logger = logging.getLogger(__name__)

QUEUES = frozenset({"commit", "roll_back", "compensate"})  # their jobs call tools


class Subject(NamedTuple):
    tenant: str
    tool: str


class Calls:
    """``places`` is how many calls may be at work; ``begin`` may be called in any thread."""

    def __init__(self, places: int) -> None:
        self._quarter, self._places = max(1, places // 4), places
        self._lane = Lane("calls", places, shares=self._shares, daemon=True)
        self._lock = threading.Lock()
        self._in_hand: dict[str, Job[None]] = {}
        self._is_closed = False

    def _shares(self, subject: Subject) -> Mapping[Hashable, float]:
        """A quarter of the places for a tool of a tenant, three quarters for the tenant."""
        return {subject: self._quarter, subject.tenant: max(1, self._places - self._quarter)}

    def begin(self, name: str, job_id: str, do: Callable[[], None]) -> None:
        """Do it in a thread of its own, or once there is a place; nothing for what is in hand."""
        subject = _subject_of(job_id)
        if subject is None:
            do()  # which finds that out, and says so
            return
        job = f"{name} {job_id}"
        with self._lock:
            if self._is_closed or job in self._in_hand:
                return
            begun = self._in_hand[job] = self._lane.start(subject, do)
        begun.add_done_callback(lambda _: self._forget(job))

    def _forget(self, job: str) -> None:
        with self._lock:
            self._in_hand.pop(job, None)

    def stop(self) -> None:
        """Begin nothing more, and wait for what has begun."""
        with self._lock:
            self._is_closed = True
        self._lane.empty_lines()
        with self._lock:
            left = {job: begun for job, begun in self._in_hand.items() if not begun.done()}
        if left:
            logger.warning("stopping: waits for the jobs in hand, %s", ", ".join(left))
        wait(left.values())


def _subject_of(job_id: str) -> Subject | None:
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute("SELECT tenant, tool FROM ledger_transaction WHERE id = %s", [job_id])
        row = cursor.fetchone()
    close_old_connections()  # its thread may have the session
    return None if row is None else Subject(*row)
