"""Programs that speak MCP, kept running between talks: many take seconds to start.

A program is talked with by one at a time, for one server of one tenant, and used again only after
a talk that went well. All belong to one event loop, in a thread that lasts as long as the process.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from ledger.tools.mcp import stdio
from ledger.tools.mcp.stdio import Program
from ledger.tools.mcp.talks import FAILURES, Talk
from ledger.tools.mcp.wire import ServerError

IDLE_S = 60.0
AGE_S = 600.0  # then it is started anew, which an update of the program may be waiting for
MOST, MOST_ALIKE = 8, 2  # of those that wait for the next talk
SIGN_OF_LIFE_S = 2.0
# Before another is greeted as of before; some never answer, some start late.
PROGRAM_ANSWERS_S = 3.0

Result = TypeVar("Result")


class Key(NamedTuple):
    """Programs that may be used in the place of each other."""

    owner: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]


@dataclass(eq=False, slots=True)
class _Running:
    key: Key
    program: Program
    talk: Talk
    end_at: float  # by the clock of the event loop
    expiry: asyncio.TimerHandle | None = None


class KeptPrograms:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[_Running] = []  # the last one used comes last
        self._ending: set[asyncio.Task[None]] = set()

    def run(self, talking: Coroutine[Any, Any, Result]) -> Result:
        """The result of ``talking``, which may use ``talk_with``."""
        future = asyncio.run_coroutine_threadsafe(talking, self._running_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()  # whoever waited for it was interrupted
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                target = self._loop.run_forever
                threading.Thread(target=target, name="mcp-programs", daemon=True).start()
                atexit.register(self._end_all)
            return self._loop

    @asynccontextmanager
    async def talk_with(self, key: Key, revision: str, stderr: bytearray) -> AsyncIterator[Talk]:
        """Talk with a program that nobody else talks with.

        ``revision`` is the one that it last spoke, or empty. ``stderr`` gets the end of what a
        program wrote there that failed. Raises ``FAILURES`` for one that cannot be talked with.
        """
        running = await self._waiting(key) or await _started(key, revision, stderr)
        running.talk.has_called = False
        try:
            yield running.talk
        except BaseException as failure:
            # Of the call it is an answer like others; before it, of somebody who was misunderstood.
            if isinstance(failure, ServerError) and running.talk.has_called:
                self._keep(running)
            else:
                await running.program.kill()
                stderr += running.program.stderr
            raise
        self._keep(running)

    async def _waiting(self, key: Key) -> _Running | None:
        """One that waits and still answers."""
        for running in [each for each in reversed(self._idle) if each.key == key]:
            if running not in self._idle:
                continue  # taken or ended while another one was asked
            self._take(running)
            try:
                async with asyncio.timeout(SIGN_OF_LIFE_S):
                    await running.talk.check()
            except FAILURES:
                await running.program.kill()
            except BaseException:
                await running.program.kill()
                raise
            else:
                return running
        return None

    def _take(self, running: _Running) -> None:
        self._idle.remove(running)
        if running.expiry is not None:
            running.expiry.cancel()

    def _keep(self, running: _Running) -> None:
        loop = asyncio.get_running_loop()
        wait_s = min(IDLE_S, running.end_at - loop.time())
        running.expiry = loop.call_later(max(0.0, wait_s), self._end, running)
        self._idle.append(running)
        alike = [each for each in self._idle if each.key == running.key]
        for surplus in {*alike[:-MOST_ALIKE], *self._idle[:-MOST]}:
            self._end(surplus)

    def _end(self, running: _Running) -> None:
        self._take(running)
        task = asyncio.get_running_loop().create_task(running.program.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _end_all(self) -> None:
        """At the end of this process, when nobody talks any more."""

        async def end_all() -> None:
            for running in list(self._idle):
                self._end(running)
            await asyncio.wait(self._ending, timeout=stdio.ENDS_WITHIN_S)

        with suppress(TimeoutError, ValueError):  # the latter if there was none
            ended = asyncio.run_coroutine_threadsafe(end_all(), self._running_loop())
            ended.result(2 * stdio.ENDS_WITHIN_S)


KEPT = KeptPrograms()


async def _started(key: Key, revision: str, stderr: bytearray) -> _Running:
    """A program that speaks a revision which we do.

    Where that is not known, one is asked as of today. Once it refuses, or is silent for long, a
    second is greeted as of before, since a request of the one era may spoil a program for the
    other. The first good answer counts, however late it comes.
    """
    started: list[Program] = []

    async def begun(begin: Callable[[Talk], Coroutine[Any, Any, None]]) -> _Running:
        program = await stdio.start(key.command, dict(key.environment))
        started.append(program)
        spoken = Talk(program)
        await begin(spoken)
        return _Running(key, program, spoken, asyncio.get_running_loop().time() + AGE_S)

    chosen = None
    try:
        if revision:
            chosen = await begun(lambda spoken: spoken.begin(revision))
        else:
            chosen = await _first_era(begun)
        return chosen
    finally:
        for program in started:
            if chosen is None or program is not chosen.program:
                await program.kill()
                stderr += program.stderr


async def _first_era(
    begun: Callable[[Callable[[Talk], Coroutine[Any, Any, None]]], Coroutine[Any, Any, _Running]],
) -> _Running:
    newer = asyncio.create_task(begun(Talk.discover))
    tasks = [newer]
    try:
        await asyncio.wait(tasks, timeout=PROGRAM_ANSWERS_S)
        if newer.done() and newer.exception() is None:
            return newer.result()
        tasks.append(asyncio.create_task(begun(Talk.greet)))
        return await _first_good(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _first_good(tasks: list[asyncio.Task[_Running]]) -> _Running:
    """Raises what the last of them raises, if all fail."""
    for first in asyncio.as_completed(tasks):
        try:
            return await first
        except FAILURES as failure:
            last = failure
    raise last
