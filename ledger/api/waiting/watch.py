"""The endless tasks of one event loop that find out what changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now
from redis import RedisError

from ledger.models import Event

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
# How far back a watch looks: longer than any of our database transactions takes, and than a client
# waits for the answer to a commit (``sessions.STATEMENT_S`` and a margin).
LOOK_BACK = timedelta(seconds=20)

Work = Callable[[], Coroutine[Any, Any, None]]


class Watch:
    """Endless tasks of one event loop, such as one that listens to the doorbell.

    Each of the ``works`` may end or fail; it is called again a second later.
    """

    def __init__(self, *works: Work) -> None:
        self._works = works
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
        self._tasks = [loop.create_task(_repeat(work)) for work in self._works]
        return True


async def _repeat(work: Work) -> None:
    while True:
        try:
            await work()
        except (RedisError, OSError) as failure:
            logger.info("no doorbell to listen to: %s", failure)
        except Exception:
            logger.warning("watching for events failed; trying again", exc_info=True)
        await asyncio.sleep(LOOK_EVERY_S)


def recent_events() -> QuerySet[Event]:
    """Events that a doorbell may have been lost for."""
    return Event.objects.filter(at__gte=Now() - LOOK_BACK)
