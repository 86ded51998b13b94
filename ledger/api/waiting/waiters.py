"""Waiters in this process: the one place where they are admitted, counted and refused."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from redis import RedisError

from ledger.api.waiting.watch import Watch
from ledger.foundation import doorbell
from ledger.foundation.batches import in_thread
from ledger.limits import network_of

# Each process says here how many wait in it, by its name; an older word does not count.
REPORTS = "assent:waiters"
REPORT_EVERY_S, REPORT_COUNTS_S = 5.0, 15.0


class Kind(StrEnum):
    """Kind of connection that is kept open for the one who waits."""

    LONG_POLL = "long_poll"  # a REST request for a change
    WORK = "work"  # a worker's claim
    STREAM = "stream"  # an A2A event stream
    BLOCKING_SEND = "blocking_send"  # an A2A message that is answered once the task rests
    SOCKET = "socket"  # an open desk


@dataclass(frozen=True, slots=True)
class Waiter:
    """One who waits. ``address`` is that of the connection; what is not known is empty."""

    kind: Kind
    tenant: str = ""
    principal: str = ""
    address: str = ""


class Waiters:
    """Counts the waiters of this process.

    ``limits`` are called with each new waiter and this object before it is admitted; one refuses
    by raising a ``LedgerError`` (429 with ``retry_after_s``), which the caller is answered with.
    """

    def __init__(self) -> None:
        self.limits: list[Callable[[Waiter, Waiters], None]] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._watch = Watch(self._report)

    @contextmanager
    def admitted(self, waiter: Waiter) -> Iterator[None]:
        """Count the waiter while the block runs. Raises what a limit raises, and counts nothing."""
        for limit in self.limits:
            limit(waiter, self)
        self._watch.start()
        keys = _keys(waiter)
        self._counts.update(keys)
        try:
            yield
        finally:
            self._counts.subtract(keys)
            for key in keys:
                if not self._counts[key]:
                    del self._counts[key]

    async def _report(self) -> None:
        await in_thread(_write_report, {kind.value: n for kind, n in self.by_kind().items()})
        await asyncio.sleep(REPORT_EVERY_S)

    def of_kind(self, kind: Kind) -> int:
        return self._counts["kind", kind]

    def of_tenant(self, tenant: str, kind: Kind | None = None) -> int:
        return self._counts["tenant", f"{tenant} {kind or ''}"]

    def of_principal(self, principal: str, kind: Kind | None = None) -> int:
        return self._counts["principal", f"{principal} {kind or ''}"]

    def of_address(self, address: str, kind: Kind | None = None) -> int:
        """Of an IPv6 address: of all in its /64."""
        return self._counts["address", f"{network_of(address)} {kind or ''}"]

    def by_kind(self) -> dict[Kind, int]:
        """Number of each kind that wait now."""
        return {kind: self.of_kind(kind) for kind in Kind}


def _keys(waiter: Waiter) -> list[tuple[str, str]]:
    keys = [("kind", waiter.kind.value)]
    for name in ("tenant", "principal", "address"):
        value = getattr(waiter, name)
        value = network_of(value) if name == "address" else value
        keys += [(name, f"{value} "), (name, f"{value} {waiter.kind}")]
    return keys


def _write_report(counts: dict[str, int]) -> None:
    name = f"{socket.gethostname()}:{os.getpid()}"
    report = {"at": time.time(), "counts": counts}
    redis = doorbell.redis()
    redis.hset(REPORTS, name, json.dumps(report))
    redis.expire(REPORTS, int(REPORT_COUNTS_S))


def in_all_processes() -> dict[Kind, int] | None:
    """Number of each kind that wait, by the last words of all processes; ``None``: unknown."""
    total = dict.fromkeys(Kind, 0)
    try:
        reports: Any = doorbell.redis().hgetall(REPORTS)
        for report in map(json.loads, reports.values()):
            if time.time() - report["at"] < REPORT_COUNTS_S:
                for kind in Kind:
                    total[kind] += int(report["counts"].get(kind, 0))
    except (RedisError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return total


waiters = Waiters()
