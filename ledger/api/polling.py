"""How agents wait: long-polls that hold no database connection, and a limit for the impatient."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import connection
from redis import RedisError

from ledger.api.authentication import Caller, visible
from ledger.api.rendering import versioned
from ledger.events import doorbell
from ledger.models import Transaction
from ledger.states import FINAL

logger = logging.getLogger(__name__)

LONGEST_WAIT_S = 60.0
POLL_INTERVAL_S = 2
# Polls of one agent within the interval, before the answer is 429: that many may watch.
POLL_WATCHERS = 4
WITHOUT_END = -1  # Redis' answer for a key that never lapses

Version = tuple[Transaction, dict[str, Any], str]
# A waiting agent takes a thread, so a process lets in this many; the rest are answered at once.
waiting_room = threading.BoundedSemaphore(settings.LONG_POLLS)


Found = TypeVar("Found")


def wait_for_change(caller: Caller, transaction_id: UUID, seen: Version, wait: float) -> Version:
    """The transaction as soon as it is another than ``seen``, or when the time is up."""

    def look() -> Version | None:
        row = visible(caller, transaction_id)
        body, etag = versioned(row)
        return (row, body, etag) if etag != seen[2] or row.state in FINAL else None

    return wait_for(look, doorbell.channel_of(transaction_id), wait) or seen


def wait_for(look: Callable[[], Found | None], channel: str, wait: float) -> Found | None:
    """What ``look`` finds, within ``wait`` seconds; ``None`` at once when too many wait already.

    Sleeps until the bell rings on the channel, and looks at least every second. No database
    connection is held while sleeping. The bell is listened to before the first look, so that
    nothing falls between.
    """
    if not waiting_room.acquire(blocking=False):
        return None
    deadline = time.monotonic() + wait
    try:
        with _bell(channel) as listen:
            while True:
                found = look()
                left = deadline - time.monotonic()
                if found is not None or left <= 0:
                    return found
                _release_connection()
                listen(min(left, POLL_INTERVAL_S / 2))
    finally:
        waiting_room.release()


@contextmanager
def _bell(channel: str) -> Iterator[Any]:
    """A function that sleeps until the bell or a number of seconds, with or without Redis."""
    subscription = doorbell.redis().pubsub(  # type: ignore[no-untyped-call]
        ignore_subscribe_messages=True
    )

    def listen(seconds: float) -> None:
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
            logger.info("waiting without a bell: %s", failure)
            yield lambda seconds: time.sleep(seconds)
            return
        yield listen
    finally:
        subscription.close()


def _release_connection() -> None:
    if not connection.in_atomic_block:
        connection.close()


def polls_too_fast(caller: Caller, subject: UUID) -> str:
    """``""``, ``"slow down"`` or ``"stop"``. Without Redis nobody is slowed down.

    Several watchers of one agent may ask within the interval, so one of them alone is told to stop
    only when it asks more often than all of them together would.
    """
    name = f"assent:poll:{caller.principal}:{subject}"
    try:
        redis = doorbell.redis()
        # A little shorter than the interval: who keeps to it finds the count gone.
        redis.set(name, 0, nx=True, px=POLL_INTERVAL_S * 1000 - 100)
        polls = int(str(redis.incr(name)))
        if polls > 1 and redis.pttl(name) == WITHOUT_END:  # it lapsed between the two
            redis.pexpire(name, POLL_INTERVAL_S * 1000)
    except RedisError:
        return ""
    if polls == 1:
        return ""
    return "stop" if polls > POLL_WATCHERS else "slow down"
