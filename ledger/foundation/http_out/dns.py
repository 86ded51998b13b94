"""Looking up host names with a deadline.

``getaddrinfo`` cannot be interrupted, and a name whose server is silent keeps it for half a minute.
So each look-up has a thread of its own, of which there are few; names that have been found before
have others than new ones, so that somebody who names a hundred silent ones delays new names only.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import httpx

LOOKUP_S = 5.0
THREADS = 16  # for names found before, and as many for the others
REMEMBERED = 10_000  # names

Found = TypeVar("Found")


class LookupTookTooLong(OSError):
    """Nobody answered for the name in time, or too many look-ups hang."""


class _Lookups:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[str, None] = OrderedDict()
        self._threads = {known: threading.BoundedSemaphore(THREADS) for known in (True, False)}

    async def in_time(self, look_up: Callable[[httpx.URL], Found], target: httpx.URL) -> Found:
        """``look_up(target)`` in a thread. Raises ``LookupTookTooLong`` and what it raises."""
        threads = self._threads[target.host in self._found]
        try:
            async with asyncio.timeout(LOOKUP_S):
                while not threads.acquire(blocking=False):
                    await asyncio.sleep(0.02)
                return await self._in_thread(look_up, target, threads)
        except TimeoutError:
            raise LookupTookTooLong(
                f"Nobody answered for the name {target.host} within {LOOKUP_S:g} s."
            ) from None

    async def _in_thread(
        self,
        look_up: Callable[[httpx.URL], Found],
        target: httpx.URL,
        threads: threading.BoundedSemaphore,
    ) -> Found:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Found] = loop.create_future()

        def run() -> None:
            try:
                found, failure = look_up(target), None
                if not answer.done():
                    self._remember(target.host)
            except Exception as refusal:
                found, failure = None, refusal
            finally:
                threads.release()
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, answer, found, failure)

        threading.Thread(target=run, name=f"look-up of {target.host}", daemon=True).start()
        try:
            return await answer
        except asyncio.CancelledError:
            # It hangs now: its next look-ups wait with those of new names.
            with self._lock:
                self._found.pop(target.host, None)
            raise

    def _remember(self, host: str) -> None:
        with self._lock:
            self._found[host] = None
            self._found.move_to_end(host)
            if len(self._found) > REMEMBERED:
                self._found.popitem(last=False)


def _settle(answer: asyncio.Future[Found], found: Found | None, failure: Exception | None) -> None:
    if answer.done():
        return
    if failure is not None:
        answer.set_exception(failure)
    else:
        answer.set_result(found)  # type: ignore[arg-type]


lookups = _Lookups()
in_time = lookups.in_time
