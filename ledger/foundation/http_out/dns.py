"""Looking up host names with a deadline.

``getaddrinfo`` cannot be interrupted, and a name whose server is silent keeps it for half a minute.
So look-ups have a few threads of their own; names that have been found before have others than new
ones, so that somebody who names a hundred silent ones delays new names only.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

import httpx

from ledger.foundation.lanes import Lane

LOOKUP_S = 5.0
THREADS = 16  # for names found before, and as many for the others
REMEMBERED = 10_000  # names

Answer = TypeVar("Answer")


class LookupTookTooLong(OSError):
    """Nobody answered for the name in time, or too many look-ups hang."""


class _Lookups:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known_hosts: OrderedDict[str, None] = OrderedDict()
        self._of_known = Lane("look-ups of known names", THREADS, daemon=True)
        self._of_new = Lane("look-ups of new names", THREADS, daemon=True)

    async def in_time(self, look_up: Callable[[httpx.URL], Answer], target: httpx.URL) -> Answer:
        """``look_up(target)`` in a thread. Raises ``LookupTookTooLong`` and what it raises."""
        lane = self._of_known if target.host in self._known_hosts else self._of_new
        looking = lane.start("", look_up, target)
        try:
            async with asyncio.timeout(LOOKUP_S):
                answer = await asyncio.wrap_future(looking)
        except TimeoutError:
            raise LookupTookTooLong(
                f"Nobody answered for the name {target.host} within {LOOKUP_S:g} s."
            ) from None
        finally:
            if looking.running():  # it hangs now: its next look-ups wait with those of new names
                self._forget(target.host)
        self._remember(target.host)
        return answer

    def _forget(self, host: str) -> None:
        with self._lock:
            self._known_hosts.pop(host, None)

    def _remember(self, host: str) -> None:
        with self._lock:
            self._known_hosts[host] = None
            self._known_hosts.move_to_end(host)
            if len(self._known_hosts) > REMEMBERED:
                self._known_hosts.popitem(last=False)


lookups = _Lookups()
in_time = lookups.in_time
