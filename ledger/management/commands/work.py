"""``manage.py work``: one RQ worker for some or all queues, and the courier of the outbox."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection

from ledger.delivery.couriers import Courier
from ledger.delivery.siem import Siem
from ledger.foundation import doorbell, liveness, stopping
from ledger.foundation.postgres import COURIER_SESSIONS, WORKER_SESSIONS, sessions
from ledger.workers import Calls, QueueThreads, refuse_if_unsafe

POOLS = {
    ("worker",): WORKER_SESSIONS,
    ("courier",): 0,
    ("worker", "courier"): WORKER_SESSIONS + COURIER_SESSIONS,
}
TO_LEAVE_S = 1.2  # for those with nothing in hand: a look into a queue takes a second


class Command(BaseCommand):
    help = "One warm worker, for all queues or for those that are named. Run several."
    requires_system_checks: list[str] = []  # of the source: `make check` makes them

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--only", nargs="+", choices=settings.WORK, default=[])
        parser.add_argument("--but", nargs="+", choices=settings.WORK, default=[])

    def handle(self, *args: Any, **options: Any) -> None:
        """Works until it is told to stop; while Redis is away the sweeper carries the work.

        The main thread only waits for the signal, so nothing that hangs can lose it.
        """
        wanted = options["only"] or list(settings.WORK)
        names = [name for name in wanted if name not in options["but"]]
        kinds = _kinds_of(names)
        refuse_if_unsafe(kinds[-1])  # a courier needs more
        sessions.bound(" and ".join(kinds), pool=POOLS[tuple(kinds)])
        doorbell.ring_in_background()
        liveness.show(*kinds)
        # What the start has made stays: collecting garbage must not look at all of it again.
        gc.collect()
        gc.freeze()
        stop = stopping.on_signals()
        threads = _threads_for(names, stop)
        connection.close()  # that of the checks: each thread has its own
        for each in threads:
            each.start()
        stop.wait()
        leave_at = time.monotonic() + TO_LEAVE_S
        for each in threads:
            each.stop(leave_at)


def _kinds_of(names: list[str]) -> list[str]:
    """A process that serves queues of both kinds is one of each."""
    is_worker = any(name not in settings.COURIER_QUEUES for name in names)
    is_courier = any(name in settings.COURIER_QUEUES for name in names)
    return ["worker"] * is_worker + ["courier"] * is_courier


def _threads_for(
    names: Sequence[str], stop: threading.Event
) -> list[Courier | QueueThreads | Siem]:
    """One thread for the queues that wait for each other, and those of the others."""
    of_their_own = {*settings.QUEUE_THREADS, settings.DELIVER}
    shared = [name for name in names if name not in of_their_own]
    threads: list[Courier | QueueThreads | Siem] = []
    if shared:
        threads.append(QueueThreads(shared, 1, stop, Calls(settings.CALL_THREADS)))
    for name in names:
        if name == settings.DELIVER:
            threads.append(Courier(stop))
            if settings.SIEM_URL:
                threads.append(Siem(stop))
        elif name in of_their_own:
            threads.append(QueueThreads([name], settings.QUEUE_THREADS[name], stop))
    return threads
