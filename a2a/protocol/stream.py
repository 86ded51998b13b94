"""Waiting for a task inside an asynchronous process: streams and blocking sends.

Only the waiting coroutines are kept in memory: events are read from the audit chain, for all that
wait at once.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple
from uuid import UUID

from a2a import wire
from a2a.protocol import updates
from a2a.protocol.updates import Since
from a2a.states import FINAL, INTERRUPTED, TaskState
from ledger.agents import Caller, callers_with
from ledger.api.waiting import changes
from ledger.api.waiting.waiters import Kind, Waiter, waiters
from ledger.foundation.batches import Batcher

# A stream that has nothing to tell says so after this time, so that no proxy closes it.
QUIET_S = 15.0

snapshots = Batcher(updates.snapshots)
updates_since = Batcher(updates.updates_since)
states = Batcher(updates.states)
callers = Batcher(callers_with)


# A blocking send is answered in these; without a task there is nothing to wait for.
RESTS = FINAL | INTERRUPTED | {None}
# States in which the stream of a message closes: the task has ended, or waits for the client. A
# subscription stays open until the task has ended.
TURN_OVER = FINAL | {TaskState.INPUT_REQUIRED}


class Reader(NamedTuple):
    """The follower of a task: the agent, its token, and the address that it calls from."""

    caller: Caller
    token: str
    address: str

    def as_waiter(self, kind: Kind) -> Waiter:
        return Waiter(kind, self.caller.tenant, str(self.caller.principal), self.address)


async def follow(
    task_id: UUID, reader: Reader, until: frozenset[TaskState] = FINAL
) -> AsyncGenerator[dict[str, Any] | None, None]:
    """The task, then each update, until the task is in one of those states.

    ``None`` where there was nothing for ``QUIET_S``. Ends after that time, or at the next event,
    when the token was revoked. Raises what a limit of ``waiters`` raises.
    """
    with waiters.admitted(reader.as_waiter(Kind.STREAM)), changes.of(task_id) as bell:
        snapshot = await snapshots.ask(task_id)
        if snapshot is None:
            return
        state: str = wire.state_in(snapshot.task)
        seq = snapshot.seq
        yield {"task": snapshot.task}
        del snapshot  # a stream may wait for hours; it keeps no copy of its task
        while state not in until:
            news = await updates_since.ask(Since(reader.token, task_id, seq))
            if news is None:
                return
            for body in news.bodies:
                yield body
            seq, state = news.seq, news.state
            if state not in until and not await bell.wait(QUIET_S):
                yield None  # and look again: the signal of an event that was committed late is lost


async def until_it_rests(task_id: UUID, seconds: float, reader: Reader) -> bool:
    """Wait until the task has ended or waits for an answer or sign-off, at most so long.

    False if the token was revoked meanwhile. Raises what a limit of ``waiters`` raises.
    """
    deadline = time.monotonic() + seconds
    with waiters.admitted(reader.as_waiter(Kind.BLOCKING_SEND)), changes.of(task_id) as bell:
        while await states.ask(task_id) not in RESTS:
            if not await bell.wait(deadline - time.monotonic()):
                break
    return await callers.ask(reader.token) is not None
