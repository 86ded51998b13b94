"""Threads for operations that go through the SDK, shared fairly by the agents that call.

Nothing that others depend on runs in them: whose token it is, or what watchers look for.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from ledger.batches import in_pool
from ledger.errors import LimitReached

MOST_WAITING = 100  # operations of one agent; more are refused at once

P = ParamSpec("P")
R = TypeVar("R")


class FairThreads:
    """An agent has half of the threads at most, and who waits is served in turn by agent."""

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._free, self._most_each = threads, max(1, threads // 2)
        self._running: Counter[str] = Counter()
        # The agent that is served next comes first.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def run(self, agent: str, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of ``work``; raises what it raises.

        Raises ``LimitReached`` when ``MOST_WAITING`` operations of the agent wait already. The
        thread stays taken until ``work`` returns, even if its client leaves.
        """
        await self._turn(agent)
        running = asyncio.ensure_future(in_pool(self._pool, work, *args, **kwargs))
        running.add_done_callback(lambda _: self._end(agent))
        return await asyncio.shield(running)

    async def _turn(self, agent: str) -> None:
        if self._has_room(agent):
            self._begin(agent)
            return
        waiting = self._waiting.setdefault(agent, deque())
        if len(waiting) >= MOST_WAITING:
            raise LimitReached(
                f"At most {MOST_WAITING} operations of an agent wait at once.",
                hint="Nothing was done. Repeat it once others of yours were answered.",
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # its turn came just when its client left
                self._end(agent)
            raise

    def _has_room(self, agent: str) -> bool:
        return self._free > 0 and self._running[agent] < self._most_each

    def _begin(self, agent: str) -> None:
        self._free -= 1
        self._running[agent] += 1

    def _end(self, agent: str) -> None:
        self._free += 1
        self._running[agent] -= 1
        if not self._running[agent]:
            del self._running[agent]
        for other in list(self._waiting):
            if self._has_room(other):
                self._call(other)

    def _call(self, agent: str) -> None:
        """Begin what waits longest of the agent, which then goes to the end of the line."""
        waiting = self._waiting.pop(agent)
        while waiting and waiting[0].done():  # its client has left
            waiting.popleft()
        if waiting:
            self._begin(agent)
            waiting.popleft().set_result(None)
        if waiting:
            self._waiting[agent] = waiting


quick = FairThreads(8, "a2a")
# A message may have a tool plan a transaction, which takes seconds; reads do not wait for that.
patient = FairThreads(16, "a2a-patient")
