"""The courier: delivers what is in the outbox, many deliveries at once.

The table is the truth. A bell in Redis and a look every second say when to claim; nobody enqueues
deliveries. HTTP runs in one event loop over kept connections; database work in one thread, a
batch at a time; channels that are not plain HTTP in a few threads. A receiver that
has not answered in time lately has one place, and all of those together have half: they delay no
other, however many there are.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from django.conf import settings
from django.db import close_old_connections, connections
from redis import RedisError

from ledger.events import outbox
from ledger.events.outbox import HttpChannel, NotNow
from ledger.foundation import doorbell, http_out
from ledger.foundation.http_out import Post
from ledger.foundation.lanes import Lane
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.foundation.redis_connections import async_redis, messages_of
from ledger.models import Delivery

logger = logging.getLogger(__name__)

BELL = "assent:deliver"
LOOK_EVERY_S = 1.0
MOST_POSTS = 128  # in flight in one process
POSTS_OF_EACH = 8  # to one recipient
MOST_TO_UNPROVEN = MOST_POSTS // 2  # to receivers whose last answer did not come in time, or none
THREADS = 4  # for channels that are not plain HTTP
REMEMBERED = 10_000  # recipients whose receiver is known, and receivers that answered in time
LEAVE_AFTER_S = 5.0  # what is in flight then is delivered again, with the same id

Recipient = tuple[str, str]  # channel and recipient
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Parcel:
    """A claimed delivery; ``post`` is its request where it is plain HTTP."""

    delivery: Delivery
    post: Post | None

    @property
    def recipient(self) -> Recipient:
        return self.delivery.channel, self.delivery.recipient


def ring() -> None:
    """Let couriers look at once. Raises ``redis.RedisError``."""
    doorbell.bell().publish(BELL, "")


class Courier:
    """Delivers until ``stopping`` is set, in a thread of its own."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stop = stopping
        self._thread = threading.Thread(target=self._main, name="courier", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, leave_at: float = 0.0) -> None:
        """Wait for what is in flight, beyond ``leave_at`` for a moment only."""
        self._stop.set()
        self._thread.join(max(0.0, leave_at - time.monotonic()) + LEAVE_AFTER_S)

    def _main(self) -> None:
        while not self._stop.is_set():
            try:
                asyncio.run(_Round(self._stop).run())
            except Exception:
                logger.exception("the courier failed; it begins again")
                time.sleep(LOOK_EVERY_S)


class _Round:
    """The courier's event loop, from its start to its stop."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._look = asyncio.Event()
        self._database = Lane("courier database", 1, stays_s=2 * LOOK_EVERY_S, keeps_session=True)
        self._threads = Lane("courier", THREADS)
        self._connections = http_out.Connections()
        self._tasks: set[asyncio.Task[None]] = set()
        self._done: list[Delivery] = []
        self._failed: list[tuple[Delivery, Exception]] = []
        self._posts = _Posts()
        self._others: Counter[Recipient] = Counter()

    async def run(self) -> None:
        listening = asyncio.create_task(self._listen())
        try:
            while not self._stop.is_set():
                await self._step()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=LEAVE_AFTER_S)
            await self._record()
        finally:
            listening.cancel()
            await self._connections.close()

    async def _step(self) -> None:
        """Record what has ended, claim what there is room for, and wait for more of either."""
        self._look.clear()
        try:
            await self._record()
            claimed = await self._claim()
        except CONNECTION_LOST as failure:
            logger.warning("the courier waits for the database: %s", failure)
            claimed = 0
            await asyncio.sleep(LOOK_EVERY_S)
        except Exception:
            # The round goes on: what is in flight would be delivered again.
            logger.exception("the courier could not record or claim; it tries again")
            claimed = 0
            await asyncio.sleep(LOOK_EVERY_S)
        if not claimed:
            await self._connections.close_idle()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._look.wait()

    # --- the database, in its thread -------------------------------------------------------------

    async def _claim(self) -> int:
        """Claim what there is room for and begin to send it; how many deliveries were claimed."""
        http = {name for name, each in outbox.channels.items() if isinstance(each, HttpChannel)}
        others = set(outbox.channels) - http
        claimed = await self._claim_of(http, MOST_POSTS - self._posts.number, self._posts.full())
        return claimed + await self._claim_of(
            others, 2 * THREADS - self._others.total(), list(self._others)
        )

    async def _claim_of(self, names: set[str], room: int, full: list[Recipient]) -> int:
        if room <= 0 or not names:
            return 0
        claimed, parcels = await self._in_database(lambda: _collect(names, room, full))
        for parcel in parcels:
            carry = self._post if parcel.post is not None else self._send
            task = asyncio.create_task(carry(parcel))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
        return claimed

    async def _record(self) -> None:
        """Record what has ended since; what could not be recorded is kept for the next time."""
        done, failed = self._done, self._failed
        if not done and not failed:
            return
        self._done, self._failed = [], []
        try:
            await self._in_database(lambda: _record(done, failed))
        except Exception:
            self._done, self._failed = done + self._done, failed + self._failed
            raise

    async def _in_database(self, work: Callable[[], T]) -> T:
        return await self._database.run("", _with_connection, work)

    # --- sending ---------------------------------------------------------------------------------

    async def _post(self, parcel: Parcel) -> None:
        assert parcel.post is not None
        origin = _origin_of(parcel.post)
        if not self._posts.enter(parcel.recipient, origin):
            wait = timedelta(seconds=random.uniform(1, 3))
            self._fail(parcel, NotNow(wait, "Its receiver has not answered in time lately."))
            return
        try:
            await self._connections.deliver("/".join(parcel.recipient), parcel.post)
        except Exception as failure:
            self._posts.leave(parcel.recipient, origin, answered=not _is_silent(failure))
            self._fail(parcel, failure)
        else:
            self._posts.leave(parcel.recipient, origin, answered=True)
            self._done.append(parcel.delivery)

    async def _send(self, parcel: Parcel) -> None:
        channel = outbox.channels[parcel.delivery.channel]
        self._others[parcel.recipient] += 1
        try:
            await self._threads.run("", channel.send, parcel.delivery)
        except Exception as failure:
            self._fail(parcel, failure)
        else:
            self._done.append(parcel.delivery)
        finally:
            _subtract(self._others, parcel.recipient)

    def _fail(self, parcel: Parcel, failure: Exception) -> None:
        self._failed.append((parcel.delivery, failure))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._look.set()

    async def _listen(self) -> None:
        """Look whenever the bell rings; without Redis the look of every second is enough."""
        while True:
            try:
                async with (
                    async_redis(settings.REDIS_URL, socket_connect_timeout=2) as redis,
                    redis.pubsub() as subscription,
                ):
                    await subscription.subscribe(BELL)
                    async for _ in messages_of(subscription):
                        self._look.set()
            except (RedisError, OSError) as failure:
                logger.info("the courier hears no bell: %s", failure)
            await asyncio.sleep(LOOK_EVERY_S)


class _Posts:
    """Posts in flight, and the receivers that are proven: their last answer was in time.

    Anybody can name a new receiver at each delivery, so what is unproven is not remembered.
    """

    def __init__(self) -> None:
        self.number = 0
        self._to_unproven = 0
        self._of_recipient: Counter[Recipient] = Counter()
        self._of_origin: Counter[str] = Counter()
        self._proven: OrderedDict[str, None] = OrderedDict()
        self._origins: OrderedDict[Recipient, str] = OrderedDict()

    def enter(self, recipient: Recipient, origin: str) -> bool:
        """Take a place; ``False`` if there is none for an unproven receiver."""
        _remember(self._origins, recipient, origin)
        if origin not in self._proven:
            if self._of_origin[origin] or self._to_unproven >= MOST_TO_UNPROVEN:
                return False
            self._to_unproven += 1
        self.number += 1
        self._of_recipient[recipient] += 1
        self._of_origin[origin] += 1
        return True

    def leave(self, recipient: Recipient, origin: str, *, answered: bool) -> None:
        self.number -= 1
        self._doubt(origin)
        _subtract(self._of_recipient, recipient)
        _subtract(self._of_origin, origin)
        self._to_unproven -= 1
        if answered:
            self._prove(origin)

    def _prove(self, origin: str) -> None:
        self._to_unproven -= self._in_flight_to(origin)
        for forgotten in _remember(self._proven, origin, None):
            self._to_unproven += self._in_flight_to(forgotten)

    def _doubt(self, origin: str) -> None:
        if origin in self._proven:
            del self._proven[origin]
            self._to_unproven += self._in_flight_to(origin)

    def _in_flight_to(self, origin: str) -> int:
        return self._of_origin.get(origin, 0)

    def full(self) -> list[Recipient]:
        """Those to whom nothing more can be sent now."""
        full = [to for to, number in self._of_recipient.items() if number >= POSTS_OF_EACH]
        if not self._to_unproven:
            return full
        has_room = self._to_unproven < MOST_TO_UNPROVEN
        return full + [
            to
            for to, origin in self._origins.items()
            if origin not in self._proven and not (has_room and origin not in self._of_origin)
        ]


def _remember(table: OrderedDict[K, V], key: K, value: V) -> list[K]:
    """Put an entry last; the keys of those that the table has no room for are removed."""
    table[key] = value
    table.move_to_end(key)
    return [table.popitem(last=False)[0] for _ in range(len(table) - REMEMBERED)]


def _subtract(counter: Counter[T], key: T) -> None:
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]


def _collect(names: set[str], room: int, full: list[Recipient]) -> tuple[int, list[Parcel]]:
    """Claim deliveries, address those without a recipient, and make the requests of the others."""
    claimed = outbox.claim_due(names, room, of_each=POSTS_OF_EACH, except_for=full)
    outbox.address_all([delivery for delivery in claimed if not delivery.recipient])
    parcels: list[Parcel] = []
    nothing_to_do: list[Delivery] = []
    for delivery in claimed:
        if not delivery.recipient:
            continue
        channel = outbox.channels[delivery.channel]
        try:
            post = channel.request(delivery) if isinstance(channel, HttpChannel) else None
        except CONNECTION_LOST:
            raise
        except Exception as failure:
            _record_failure(delivery, failure)
            continue
        if post is None and isinstance(channel, HttpChannel):
            nothing_to_do.append(delivery)
        else:
            parcels.append(Parcel(delivery, post))
    outbox.record_done(nothing_to_do)
    return len(claimed), parcels


def _record(done: list[Delivery], failed: list[tuple[Delivery, Exception]]) -> None:
    """Record each that can be; raises ``CONNECTION_LOST``."""
    _record_done(done)
    outbox.record_accepted(done)
    for delivery, failure in failed:
        _record_failure(delivery, failure)


def _record_done(done: list[Delivery]) -> None:
    try:
        outbox.record_done(done)
    except CONNECTION_LOST:
        raise
    except Exception:
        logger.exception("a batch of %s deliveries is recorded one by one", len(done))
        for delivery in done:
            with _skipped(delivery):
                outbox.record_done([delivery])


def _record_failure(delivery: Delivery, failure: Exception) -> None:
    with _skipped(delivery):
        outbox.record_failure(delivery, failure)


@contextmanager
def _skipped(delivery: Delivery) -> Iterator[None]:
    """Go on without a delivery that cannot be recorded: it is due again when its claim lapses."""
    try:
        yield
    except CONNECTION_LOST:
        raise
    except Exception:
        logger.exception("the result of delivery %s could not be recorded", delivery.pk)


def _with_connection(work: Callable[[], T]) -> T:
    close_old_connections()
    try:
        return work()
    except CONNECTION_LOST:
        connections.close_all()
        raise


def _origin_of(post: Post) -> str:
    try:
        target = http_out.parse(post.url)
    except http_out.AddressRefused:
        return ""
    return f"{target.scheme}://{target.netloc.decode('ascii')}"


def _is_silent(failure: Exception) -> bool:
    """True if the receiver held a place for long: it, or its name server, did not answer."""
    return isinstance(failure, http_out.Silent)
