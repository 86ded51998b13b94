"""``/healthz`` and ``/readyz``: answered by the event loop, without threads, sessions or sign-in.

``/healthz`` says that this process works: whoever supervises it may end a process that does not
answer. ``/readyz`` says whether it can serve people at the moment, within a bounded time: a load
balancer takes it out of service, and nobody restarts it, as that would not help.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import logging
import math
import os
import threading
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from redis import RedisError

from approvals.http.admission.answers import headers_of_middleware
from ledger.foundation import doorbell
from ledger.foundation.liveness import BEAT_EVERY_S, beat, waited_s
from ledger.foundation.postgres import servers

logger = logging.getLogger(__name__)

PATHS = frozenset({"/healthz", "/readyz"})
WITHIN_S = 1.0
FRESH_S = 1.0  # an answer of /readyz that is not older is given again: nobody loads us by asking
# True for a stand-by, and the seconds in which no sweeper ran.
STATE = """
    SELECT pg_is_in_recovery(), (SELECT extract(epoch FROM clock_timestamp() - beat_at)
                                 FROM ledger_sweeperlease)
"""
SILENT_S = 10.0
BLOCKED_S = 15.0

_lock = asyncio.Lock()
_last: tuple[float, dict[str, str]] = (float("-inf"), {})


async def answer(scope: Any, send: Any) -> None:
    missing = {} if scope["path"] == "/healthz" else await what_is_missing()
    status = 503 if "database" in missing else 200
    body = json.dumps({"status": "ok" if status == 200 else "away", "missing": missing}).encode()
    head = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *(headers_of_middleware("https", None) or ()),  # asked in the clear as well: no redirect
    ]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def what_is_missing() -> dict[str, str]:
    """Services silent for ``WITHIN_S``, and what that means. Asked once for all callers."""
    global _last
    async with _lock:
        now = asyncio.get_running_loop().time()
        if now - _last[0] > FRESH_S:
            missing = await asyncio.gather(_database(), _redis())
            _last = (asyncio.get_running_loop().time(), {k: v for each in missing for k, v in each})
        return _last[1]


async def _database() -> list[tuple[str, str]]:
    """By a session of its own: those of the pages may all be busy."""
    given: list[tuple[bool, Decimal | None]] = await servers.ask_each(STATE, WITHIN_S)
    if not given:
        return [("database", "It does not answer; nothing can be shown or decided.")]
    primaries = [silent_s for is_standby, silent_s in given if not is_standby]
    if not primaries:
        return [("database", "It is a stand-by, which takes no writes; nothing can be decided.")]
    if primaries[0] is None or primaries[0] > SILENT_S:
        return [("sweeper", "None has run for a while; nothing expires.")]
    return []


async def _redis() -> list[tuple[str, str]]:
    try:
        async with asyncio.timeout(WITHIN_S):
            await asyncio.to_thread(doorbell.redis().ping)
    except (TimeoutError, RedisError):
        return [("redis", "It does not answer; signals come a second later.")]
    return []


async def end_if_blocked() -> None:
    """Run with the event loop: end this process if the loop stands still for ``BLOCKED_S``.

    Whatever blocks it (an endless loop, a lock), the tracebacks of all threads go to standard error
    first. The server starts another process. While the loop's thread only waits for a processor,
    the time does not count: a machine that is short of them would lose every process that it has.
    """
    alive = _Alive(threading.get_native_id())
    threading.Thread(target=alive.watch, name="watchdog", daemon=True).start()
    try:
        while True:
            alive.at = _granted_s(alive.thread)
            beat()
            await asyncio.sleep(BEAT_EVERY_S)
    finally:
        alive.is_over = True
        faulthandler.cancel_dump_traceback_later()


@dataclass
class _Alive:
    """The loop's last sign of life, by the time that its thread was granted."""

    thread: int
    at: float = math.inf
    is_over: bool = False

    def watch(self) -> None:
        """The timer ends the process where native code keeps even this thread from going on."""
        while not self.is_over:
            left_s = BLOCKED_S - max(0.0, _granted_s(self.thread) - self.at)
            if left_s > 0:
                faulthandler.dump_traceback_later(max(left_s, 1.0) + BLOCKED_S / 2, exit=True)
            time.sleep(1)
            if left_s <= 0 and not self.is_over:
                faulthandler.dump_traceback(all_threads=True)
                os._exit(1)


def _granted_s(thread: int) -> float:
    """Seconds by the clock, without those in which the thread waited for a processor."""
    return time.monotonic() - waited_s(thread)
