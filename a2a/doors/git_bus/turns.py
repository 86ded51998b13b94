"""Turns of the buses in threads, some at the same time: a server that hangs stops its own bus only.

A thread gives its database session back at the end of a turn.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import wait
from contextlib import suppress
from urllib.parse import urlsplit

from django.db import connection
from django.db.models.functions import Now

from a2a.doors.git_bus import listening, repository
from a2a.doors.git_bus.models import GitBus
from ledger.foundation.crypto.encryption import SecretUnreadable
from ledger.foundation.lanes import Busy, Job, Lane
from ledger.foundation.postgres.sessions import CONNECTION_LOST

logger = logging.getLogger(__name__)

AT_ONCE = 4  # turns; each has a database session
OF_ONE_HOST = AT_ONCE - 1  # a host of which every repository hangs leaves a place to others
MOST_DUE = 500  # that are looked at, the ones that have waited longest
LOOK_EVERY_S = 1.0
# What a process that is told to stop gives to its turns, and then to their last statements.
PATIENCE_S, LAST_S = 4.0, 2.0


class Turns:
    """Begins a turn of each bus that is due, in a thread of its own, until it is told to stop."""

    def __init__(self) -> None:
        self._running: dict[int, Job[None]] = {}  # by the key of the bus
        self._lane = Lane(
            "bus turns", AT_ONCE, most_of_one=OF_ONE_HOST, most_waiting=0, daemon=True
        )

    def run(self, stop: threading.Event) -> None:
        """Return when ``stop`` is set. Turns that last are ended; the next process repeats them."""
        while not stop.is_set():
            self._begin_due()
            stop.wait(LOOK_EVERY_S)
        wait(self._running.values(), PATIENCE_S)
        repository.end_calls()
        wait(self._running.values(), LAST_S)

    def _begin_due(self) -> None:
        """Begin the turns that there are places for, and not too many of one host."""
        self._running = {pk: turn for pk, turn in self._running.items() if not turn.done()}
        if len(self._running) == AT_ONCE:
            return
        for pk, url in _due(but=set(self._running)):
            with suppress(Busy):
                self._running[pk] = self._lane.start(host_of(url), _turn, pk)


def host_of(url: str) -> str:
    """The name of the git host, however the address is written; empty for this machine."""
    if "://" not in url:
        return "" if url.startswith("/") else url.partition(":")[0].rpartition("@")[2].lower()
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _due(*, but: set[int]) -> list[tuple[int, str]]:
    """Key and address of the buses whose turn it is, the one that has waited longest first.

    None without database.
    """
    try:
        due = GitBus.objects.filter(listening.DUE).exclude(pk__in=but).order_by("look_at", "pk")
        return list(due.values_list("pk", "url")[:MOST_DUE])
    except CONNECTION_LOST as failure:
        logger.warning("the buses that are due are not known: %s", failure)
        return []
    finally:
        connection.close()


def _turn(pk: int) -> None:
    try:
        listening.serve(pk)
    except CONNECTION_LOST as failure:
        logger.warning("bus %s: the database was lost: %s", pk, failure)
    except SecretUnreadable as failure:
        _note(pk, str(failure))
    except Exception as failure:
        logger.exception("bus %s: a pass failed", pk)
        _note(pk, f"A pass failed, which the log of the process shows: {type(failure).__name__}.")


def _note(pk: int, error: str) -> None:
    """Show why the bus stands still; the next turn is when its hold ends."""
    try:
        GitBus.objects.filter(pk=pk).update(error=error, look_at=Now())
    except CONNECTION_LOST as failure:
        logger.warning("bus %s: %s, and the database was lost: %s", pk, error, failure)
