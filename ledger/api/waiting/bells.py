"""Changes of subjects, for the coroutines of this process that wait for them.

The doorbell wakes them within milliseconds; a query every second finds what the doorbell lost. So
without Redis everything still works, a second slower.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from uuid import NAMESPACE_URL, UUID, uuid5

from django.conf import settings

from ledger.api.waiting.watch import LOOK_BACK, Watch, recent_events
from ledger.foundation import doorbell
from ledger.foundation.batches import in_thread
from ledger.foundation.redis_connections import async_redis, messages_of

FORGET_AFTER_S = 4 * LOOK_BACK.total_seconds()

Listener = Callable[[str], None]


class Bell:
    """The bell that one coroutine waits with. It keeps a ring until the coroutine waits again."""

    __slots__ = ("_is_rung", "_waiting")

    def __init__(self) -> None:
        self._is_rung = False
        self._waiting: asyncio.Future[bool] | None = None

    def ring(self) -> None:
        self._is_rung = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(True)

    async def wait(self, seconds: float) -> bool:
        """True if it was rung since the last wait, or is within ``seconds``."""
        if not self._is_rung:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            timer = loop.call_later(seconds, _give_up, self._waiting)
            try:
                await self._waiting
            finally:
                timer.cancel()
                self._waiting = None
        was_rung, self._is_rung = self._is_rung, False
        return was_rung


def _give_up(waiting: asyncio.Future[bool]) -> None:
    if not waiting.done():
        waiting.set_result(False)


class Changes:
    """Rings the bells of this process: those of a subject, when its chain has grown."""

    def __init__(self) -> None:
        self._bells: dict[UUID, set[Bell]] = {}
        self._watch = Watch(self._listen, self._look)
        self._seen: dict[int, float] = {}
        self._listeners: dict[str, Listener] = {}

    @property
    def number_of_subjects(self) -> int:
        """Number of different subjects that are waited for."""
        return len(self._bells)

    def start(self) -> None:
        """Begin to listen, if this process does not yet."""
        self._watch.start()

    def also_listen(self, prefix: str, listener: Listener) -> None:
        """Call ``listener`` with the rest of the name of each channel with this prefix that rings.

        Call it before the process waits for the first time. What the doorbell loses, the listener
        has to find by itself.
        """
        self._listeners[prefix] = listener

    @contextmanager
    def of(self, subject: UUID) -> Iterator[Bell]:
        """A bell for changes of the subject. Look at the subject only after this began."""
        self.start()
        bell = Bell()
        self._bells.setdefault(subject, set()).add(bell)
        try:
            yield bell
        finally:
            bells = self._bells[subject]
            bells.discard(bell)
            if not bells:
                del self._bells[subject]

    def _ring(self, subject: UUID) -> None:
        for bell in self._bells.get(subject, ()):
            bell.ring()

    async def _listen(self) -> None:
        """Pass on what the doorbell says, until Redis ends the subscription or falls silent."""
        async with async_redis(settings.REDIS_URL) as redis, redis.pubsub() as subscription:
            await subscription.psubscribe(
                doorbell.channel_of("*"), *(f"{prefix}*" for prefix in self._listeners)
            )
            async for message in messages_of(subscription):
                self._pass_on(message["channel"].decode())

    def _pass_on(self, channel: str) -> None:
        for prefix, listener in self._listeners.items():
            if channel.startswith(prefix):
                listener(channel.removeprefix(prefix))
                return
        self._ring(UUID(channel.rpartition(":")[2]))

    async def _look(self) -> None:
        """Ring for events whose signal was lost; for each event once."""
        if not self._bells:
            return
        now = time.monotonic()
        for event_id, subject, tenant in await in_thread(_recent):
            if event_id not in self._seen:
                self._seen[event_id] = now
                self._ring(subject)
                self._ring(topic_of(tenant))
        self._seen = {event: at for event, at in self._seen.items() if now - at < FORGET_AFTER_S}


def _recent() -> list[tuple[int, UUID, str]]:
    return list(recent_events().values_list("pk", "subject", "tenant"))


@lru_cache(maxsize=1_000)
def topic_of(tenant: str) -> UUID:
    """The subject that stands for whatever happens in a tenant, to wait for."""
    return uuid5(NAMESPACE_URL, f"assent:tenant:{tenant}")


changes = Changes()
