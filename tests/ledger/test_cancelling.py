"""Whoever listens ends when it is cancelled, at whichever moment: or a process never stops.

The loop of a process ends by cancelling each task once and waiting for all of them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

import pytest
from channels.layers import get_channel_layer
from django.conf import settings

from approvals.web import live, ringing
from ledger.api.waiting.bells import Changes
from ledger.delivery import couriers
from ledger.foundation import doorbell
from ledger.foundation.redis_connections import async_redis

pytestmark = pytest.mark.usefixtures("engines")
# Each of the listeners below has subscribed, and waits in earnest, after fewer waits than these.
MOMENTS = range(1, 41)
# Ends a test that would else hang; nothing here takes as long, however slow the machine is.
GUARD_S = 20

Work = Callable[[], Coroutine[Any, Any, Any]]


class CancelledAt:
    """Awaits ``work``, and cancels its task in the moment when its nth wait is over."""

    def __init__(self, nth: int, work: Coroutine[Any, Any, Any], *, is_over: bool) -> None:
        self._nth, self._work, self._is_over = nth, work, is_over

    def __await__(self) -> Generator[Any, Any, Any]:
        steps, waits, failure = self._work, 0, None
        while True:
            try:
                wait = steps.send(None) if failure is None else steps.throw(failure)
            except StopIteration as end:
                return end.value
            waits, failure = waits + 1, None
            if waits == self._nth:
                self._cancel_at(wait)
            try:
                yield wait
            except BaseException as thrown:
                failure = thrown

    def _cancel_at(self, wait: asyncio.Future[Any] | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        if wait is not None and self._is_over:
            wait.add_done_callback(lambda _: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)


async def listen_as_the_desk() -> None:
    await live.Watcher()._listen()


async def listen_for_changes() -> None:
    await Changes()._listen()


async def listen_as_the_courier() -> None:
    await couriers._Round(threading.Event())._listen()


async def send_to_the_desk() -> None:
    while True:
        await ringing._send({"acme": [("a", 7)]})


async def subscribe_and_leave() -> None:
    layer = get_channel_layer()
    while True:
        channel = await layer.new_channel()
        await layer.group_add(ringing.GROUP, channel)
        await layer.group_discard(ringing.GROUP, channel)


@asynccontextmanager
async def bells() -> AsyncIterator[None]:
    """Rings all that is listened to meanwhile, so that each wait is over at some time."""

    async def ring() -> None:
        async with async_redis(settings.REDIS_URL) as redis:
            while True:
                for channel in (couriers.BELL, doorbell.channel_of(uuid4())):
                    await redis.publish(channel, "")
                await ringing._send({"acme": [("a", 7)]})
                await asyncio.sleep(0.001)

    task = asyncio.create_task(ring())
    yield
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.1)


async def ends(work: Work, nth: int, *, is_over: bool) -> bool:
    """Whether it ends after it was cancelled once. If it does not, it is made to."""

    async def cancelled() -> None:
        await CancelledAt(nth, work(), is_over=is_over)

    async with bells():
        task = asyncio.create_task(cancelled())
        while not task.cancelling() and not task.done():
            await asyncio.sleep(0.001)
        await asyncio.wait([task], timeout=GUARD_S)
        has_ended = task.done()
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=0.1)
        with suppress(asyncio.CancelledError):
            task.result()
        await get_channel_layer().flush()
    return has_ended


@pytest.mark.slow
@pytest.mark.parametrize("is_over", [True, False], ids=["as a wait is over", "while it waits"])
@pytest.mark.parametrize(
    "work",
    [
        listen_as_the_desk,
        listen_for_changes,
        listen_as_the_courier,
        send_to_the_desk,
        subscribe_and_leave,
    ],
)
def test_who_uses_redis_ends_whenever_it_is_cancelled(work, is_over):
    for nth in MOMENTS:
        assert asyncio.run(ends(work, nth, is_over=is_over)), nth
