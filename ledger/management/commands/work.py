"""``manage.py work``: one RQ worker for some or all queues, and the courier of the outbox."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from redis import RedisError
from rq.exceptions import StopRequested

from ledger.delivery.couriers import Courier
from ledger.foundation import doorbell, liveness
from ledger.foundation.postgres import sessions
from ledger.workers import LOOK_AGAIN_S, QueueThreads, refuse_if_unsafe, work

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "One warm worker, for all queues or for those that are named. Run several."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--only", nargs="+", choices=settings.WORK, default=[])
        parser.add_argument("--but", nargs="+", choices=settings.WORK, default=[])

    def handle(self, *args: Any, **options: Any) -> None:
        """Works until it is told to stop; while Redis is away the sweeper carries the work."""
        refuse_if_unsafe("worker")
        wanted = options["only"] or list(settings.WORK)
        names = [name for name in wanted if name not in options["but"]]
        kinds = _kinds_of(names)
        sessions.bound(" and ".join(kinds))
        doorbell.ring_in_background()
        liveness.show(*kinds)
        # What the start has made stays: collecting garbage must not look at all of it again.
        gc.collect()
        gc.freeze()
        beside = {name: each for name in names if (each := _beside(name)) is not None}
        for number in (signal.SIGINT, signal.SIGTERM):  # until the worker has its own handlers
            signal.signal(number, lambda *_: sys.exit())
        try:
            for each in beside.values():
                each.start()
            _work_on([name for name in names if name not in beside])
        finally:
            for each in beside.values():
                each.stop()


def _kinds_of(names: list[str]) -> list[str]:
    """A process that serves queues of both kinds is one of each."""
    is_worker = any(name not in settings.COURIER_QUEUES for name in names)
    is_courier = any(name in settings.COURIER_QUEUES for name in names)
    return ["worker"] * is_worker + ["courier"] * is_courier


def _beside(name: str) -> Courier | QueueThreads | None:
    """The worker of this name with threads of its own; else the main thread does the work."""
    if name == settings.DELIVER:
        return Courier()
    number = settings.QUEUE_THREADS.get(name)
    return QueueThreads(name, number) if number else None


def _work_on(queues: list[str]) -> None:
    if not queues:
        _wait_until_stopped()
        return
    while True:
        try:
            work(queues)
            return
        except RedisError as failure:
            logger.info("Redis cannot be reached: %s", failure)
        try:
            time.sleep(LOOK_AGAIN_S)
        except StopRequested:
            return


def _wait_until_stopped() -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()
