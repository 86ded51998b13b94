"""Waiting for an event: the doorbell wakes within milliseconds, and a query every second backs it.

``wait_for`` is for threads: a long-poll, for one subject. ``Watch`` is for asynchronous processes:
one listener for all waiters of the process. Without Redis both still work, a second slower.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Now
from redis import RedisError

from ledger import doorbell
from ledger.models import Event

logger = logging.getLogger(__name__)

LONGEST_WAIT_S = 60.0
LOOK_EVERY_S = 1.0
# How far back a watch looks: longer than any of our database transactions takes.
LOOK_BACK = timedelta(seconds=5)

# A long-poll takes a thread, so a process lets in this many; the rest are answered at once.
waiting_room = threading.BoundedSemaphore(settings.LONG_POLLS)

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, None]]


def wait_for(look: Callable[[], T | None], channel: str, wait_s: float) -> T | None:
    """What ``look`` returns within ``wait_s`` seconds; ``None`` at once when too many wait already.

    Sleeps until the doorbell rings on the channel, and looks at least every second. No database
    connection is held while sleeping. Listening begins before the first look, so no event is
    missed in between.
    """
    if not waiting_room.acquire(blocking=False):
        return None
    deadline = time.monotonic() + wait_s
    try:
        with _doorbell(channel) as sleep:
            while True:
                result = look()
                left = deadline - time.monotonic()
                if result is not None or left <= 0:
                    return result
                _release_connection()
                sleep(min(left, LOOK_EVERY_S))
    finally:
        waiting_room.release()


@contextmanager
def _doorbell(channel: str) -> Iterator[Callable[[float], None]]:
    """A function that sleeps for some seconds or until the doorbell, with or without Redis."""
    subscription: Any = doorbell.redis().pubsub(  # type: ignore[no-untyped-call]
        ignore_subscribe_messages=True
    )

    def sleep(seconds: float) -> None:
        until = time.monotonic() + seconds
        try:
            while (left := until - time.monotonic()) > 0:
                if subscription.get_message(timeout=left) is not None:
                    return
        except (RedisError, OSError):
            time.sleep(max(0.0, until - time.monotonic()))

    try:
        try:
            subscription.subscribe(channel)
        except RedisError as failure:
            logger.info("waiting without the doorbell: %s", failure)
            yield time.sleep
            return
        yield sleep
    finally:
        subscription.close()


def _release_connection() -> None:
    if not connection.in_atomic_block:
        connection.close()


class Watch:
    """Endless tasks of one event loop: one listens to the doorbell, one looks every second.

    ``listen`` passes on what the doorbell says, for as long as Redis answers; ``look`` finds in the
    database what the doorbell lost. Either may fail; it is called again a second later. ``also``
    is repeated without a pause, so it must sleep itself.
    """

    def __init__(self, listen: Work, look: Work, *also: Work) -> None:
        self._works = [
            (listen, LOOK_EVERY_S),
            (look, LOOK_EVERY_S),
            *((work, 0.0) for work in also),
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> bool:
        """Begin on the running loop; ``False`` where that was done already."""
        loop = asyncio.get_running_loop()
        is_same_loop = self._loop is loop
        if is_same_loop and self._tasks and not any(task.done() for task in self._tasks):
            return False
        if is_same_loop:
            for task in self._tasks:
                task.cancel()
        self._loop = loop
        self._tasks = [loop.create_task(_repeat(work, pause_s)) for work, pause_s in self._works]
        return True


async def _repeat(work: Work, pause_s: float) -> None:
    while True:
        try:
            await work()
        except (RedisError, OSError) as failure:
            logger.info("no doorbell to listen to: %s", failure)
        except Exception:
            logger.warning("watching for events failed; trying again", exc_info=True)
        await asyncio.sleep(pause_s)


def recent_events() -> QuerySet[Event]:
    """Events that a doorbell may have been lost for."""
    return Event.objects.filter(at__gte=Now() - LOOK_BACK)
