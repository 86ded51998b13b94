"""The doorbell: a signal after commit. Losing it costs about a second, never more.

Listeners either work in the database of this process or tell others by Redis. Processes that
answer people and agents leave the latter to one thread: see ``ring_in_background``.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.dispatch import Signal
from redis import Redis, RedisError
from redis.client import Pipeline

logger = logging.getLogger(__name__)

# event_id: int, subject: UUID (whose chain grew), tenant: str, kind: str, is_first: bool,
# is_supervised: bool, deliveries: Sequence[int]
event_committed = Signal()
# The same arguments; its listeners only tell others, by Redis.
bell_due = Signal()

MOST_TOGETHER = 100  # events that the thread rings for in one message
MOST_BELLS = 10_000  # that wait for the thread; what is more, the sweeper finds


def register_listener(listener: Callable[..., None]) -> None:
    """Call it after each event is committed, in the process that wrote the event.

    Called in ``AppConfig.ready()``. The listener takes the signal's arguments by keyword, and
    ``**_`` for those that it does not need.
    """
    event_committed.connect(listener)


def register_bell(bell: Callable[..., None]) -> None:
    """The same for what talks to Redis and to nothing else: it may be called in a thread.

    It writes by ``bell()``. It asks no database: nobody ends a session of that thread once the
    server has dropped it.
    """
    bell_due.connect(bell)


def ring(
    event_id: int,
    subject: UUID,
    tenant: str,
    kind: str,
    deliveries: Sequence[int] = (),
    *,
    is_first: bool = False,
    is_supervised: bool = False,
) -> None:
    """Call the listeners of this process. One that raises stops neither the caller nor the others.

    ``is_first`` says that the event is the first of its subject, ``is_supervised`` that the
    subject waits for a supervising agent from now on.
    """
    event = {
        "event_id": event_id,
        "subject": subject,
        "tenant": tenant,
        "kind": kind,
        "is_first": is_first,
        "is_supervised": is_supervised,
        "deliveries": deliveries,
    }
    event_committed.send_robust(sender=None, **event)
    if _background is None:
        bell_due.send_robust(sender=None, **event)
    else:
        _background.ring(event)


class _Background:
    """One thread that rings, in the order of the events."""

    def __init__(self) -> None:
        self._events: queue.Queue[dict[str, Any]] = queue.Queue(MOST_BELLS)
        self._pid = 0
        self._lock = threading.Lock()

    def ring(self, event: dict[str, Any]) -> None:
        """Return at once. With too many waiting the event is not rung for."""
        if self._pid != os.getpid():
            self._start()
        try:
            self._events.put_nowait(event)
        except queue.Full:
            logger.info("no doorbell for %s: too many wait", event["subject"])

    def _start(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                return
            try:
                threading.Thread(target=self._run, name="doorbell", daemon=True).start()
            except RuntimeError:  # the system has no thread left; the next event tries again
                logger.exception("no thread to ring the doorbell")
            else:
                self._pid = os.getpid()

    def _run(self) -> None:
        while True:
            events = [self._events.get()]
            with suppress(queue.Empty):
                while len(events) < MOST_TOGETHER:
                    events.append(self._events.get_nowait())
            _ring_together(events)


def _ring_together(events: Sequence[dict[str, Any]]) -> None:
    """In one message to Redis for all bells."""
    _line.pipeline = pipeline = redis().pipeline(transaction=False)
    try:
        for event in events:
            bell_due.send_robust(sender=None, **event)
        pipeline.execute(raise_on_error=False)
    except RedisError as failure:
        logger.info("no doorbell for %d events: %s", len(events), failure)
    finally:
        _line.pipeline = None


class _Line(threading.local):
    pipeline: Pipeline | None = None


_line = _Line()
_background: _Background | None = None


def ring_in_background() -> None:
    """Let a thread of this process ring from now on: no request waits for Redis.

    For processes that run on. What has not been rung for when one ends, the sweeper finds.
    """
    global _background
    _background = _Background()


@lru_cache(maxsize=1)
def redis() -> Redis:
    """A Redis client that waits for nothing for long."""
    return Redis(connection_pool=settings.REDIS_POOL)


def bell() -> Redis:
    """The client that bells write to Redis with; they must not wait for its answers."""
    return _line.pipeline or redis()


def channel_of(subject: UUID | str) -> str:
    """The Redis channel for changes of a subject; with ``"*"``, the pattern for all subjects."""
    return f"assent:subject:{subject}"


def wake_waiting_agents(subject: UUID, kind: str, is_first: bool = False, **_: object) -> None:
    """End the long-polls on this subject, in whichever process they wait."""
    if is_first:
        return  # the subject did not exist before, so no poll waits for it
    try:
        bell().publish(channel_of(subject), kind)
    except RedisError as failure:
        logger.info("no doorbell for %s: %s", subject, failure)
