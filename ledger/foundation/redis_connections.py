"""Redis within a time limit, and not at all while it does not answer.

Redis is only the doorbell, so nobody may wait long for it. Each answer has a time limit. After
the first failure every call of this process fails at once (``RedisIsAway``), until a thread of its
own got an answer again: a hung Redis costs a process one time limit, however much it would ring.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from redis import ConnectionError, Redis, RedisError, TimeoutError
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.client import PubSub
from redis.asyncio.connection import (
    Connection as AsyncConnection,
    ConnectionPool as AsyncConnectionPool,
    parse_url as parse_async_url,
)
from redis.backoff import NoBackoff
from redis.connection import (
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)
from redis.retry import Retry

from ledger.foundation.breakers import Breaker

CONNECT_S = 0.2
ANSWER_S = 0.5
# A subscription that is silent for so long is asked for a sign of life, which must come as soon.
SILENT_S = 5.0
LIMITS: dict[str, Any] = {
    "socket_connect_timeout": CONNECT_S,
    "socket_timeout": ANSWER_S,
    "retry": Retry(NoBackoff(), 0),
}


class RedisIsAway(ConnectionError):
    """Redis did not answer a moment ago, so it was not asked."""


def _breaker_of(url: str) -> Breaker:
    def gives_sign() -> bool:
        try:
            with Redis.from_url(url, **LIMITS) as redis:
                return bool(redis.ping())
        except (RedisError, OSError):
            return False

    return Breaker("Redis", gives_sign, RedisIsAway)


@contextmanager
def _watching(breaker: Breaker) -> Iterator[None]:
    """Opens the breaker when Redis fails within the block."""
    try:
        yield
    except RedisIsAway:
        raise
    except (ConnectionError, TimeoutError) as failure:
        breaker.open(failure)
        raise


class _Guarded:
    """Behaviour of the connections below beside that of the library."""

    breaker: Breaker

    def connect_check_health(self, *args: Any, **options: Any) -> Any:
        self.breaker.refuse()
        with _watching(self.breaker):
            return super().connect_check_health(*args, **options)  # type: ignore[misc]

    def send_packed_command(self, *args: Any, **options: Any) -> Any:
        self.breaker.refuse()
        with _watching(self.breaker):
            return super().send_packed_command(*args, **options)  # type: ignore[misc]

    def read_response(self, *args: Any, **options: Any) -> Any:
        if "timeout" in options:  # a subscription, which may hear nothing for long
            return super().read_response(*args, **options)  # type: ignore[misc]
        with _watching(self.breaker):
            return super().read_response(*args, **options)  # type: ignore[misc]


def limited(url: str) -> str:
    """The URL with the time limits in its query, for code that connects by itself."""
    limits = f"socket_connect_timeout={CONNECT_S}&socket_timeout={ANSWER_S}"
    return f"{url}{'&' if '?' in url else '?'}{limits}"


def pool_of(url: str) -> ConnectionPool:
    """A pool of guarded connections to the Redis of this URL. Connects when first used."""
    from_url: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
    options = {"connection_class": Connection, **from_url}
    kind = options.pop("connection_class")
    assert kind in {Connection, SSLConnection, UnixDomainSocketConnection}
    guarded = type(f"Guarded{kind.__name__}", (_Guarded, kind), {"breaker": _breaker_of(url)})
    return ConnectionPool(connection_class=guarded, **{**LIMITS, **options})


@contextmanager
def _no_cancellation_lost() -> Iterator[None]:
    """Raises ``CancelledError`` at the end when the task was cancelled and the block went on.

    redis-py sends within ``asyncio.wait_for``, which until Python 3.12 returns as if nothing had
    happened when it is cancelled in the moment in which it is done. Nobody cancels a second time,
    so that a process would wait at its end for a task that waits for messages.
    """
    task = asyncio.current_task()
    if task is None:
        yield
        return
    before = task.cancelling()
    try:
        yield
    except Exception as failure:
        if task.cancelling() > before:
            raise asyncio.CancelledError from failure
        raise
    if task.cancelling() > before:
        raise asyncio.CancelledError


class _Cancellable:
    """Behaviour of asynchronous connections beside that of the library."""

    async def connect(self) -> None:
        with _no_cancellation_lost():
            await super().connect()  # type: ignore[misc]

    async def disconnect(self, *args: Any, **options: Any) -> None:
        with _no_cancellation_lost():
            await super().disconnect(*args, **options)  # type: ignore[misc]

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        with _no_cancellation_lost():
            await super().send_packed_command(*args, **options)  # type: ignore[misc]

    async def read_response(self, *args: Any, **options: Any) -> Any:
        with _no_cancellation_lost():
            return await super().read_response(*args, **options)  # type: ignore[misc]


def cancellable(url: str) -> dict[str, Any]:
    """Options of a pool of asynchronous connections to the Redis of this URL.

    Whoever waits in one of them ends when it is cancelled, at whichever moment.
    """
    options: dict[str, Any] = {"connection_class": AsyncConnection, **parse_async_url(url)}
    kind = options["connection_class"]
    made = type(f"Cancellable{kind.__name__}", (_Cancellable, kind), {})
    return {**options, "connection_class": made}


def async_redis(url: str, **options: Any) -> AsyncRedis:
    """An asynchronous client of its own for the Redis of this URL; to be closed."""
    return AsyncRedis.from_pool(AsyncConnectionPool(**{**cancellable(url), **options}))


async def messages_of(subscription: PubSub) -> AsyncIterator[dict[str, Any]]:
    """Messages that are published, until Redis ends the subscription or falls silent.

    Raises ``redis.RedisError``. A connection that broke without a word would else never be noticed.
    """
    is_asked = False
    while True:
        message = await subscription.get_message(timeout=SILENT_S)
        if message is not None:
            is_asked = False
            if message["type"] in {"message", "pmessage"}:
                yield message
        elif is_asked:
            raise ConnectionError("Redis gives no sign of life")
        else:
            is_asked = True
            await subscription.ping()
