"""Waiting for a task inside an asynchronous process: SSE streams and blocking sends.

Only the waiting coroutines are kept in memory: events are read from the audit chain.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import close_old_connections, connection
from django.db.transaction import atomic
from redis.asyncio import Redis

from a2a.models import Task
from a2a.states import FINAL, INTERRUPTED, TaskState
from a2a.wire import sdk, to_json
from ledger import doorbell, waiting
from ledger.models import Event

THREADS = 8

P = ParamSpec("P")
R = TypeVar("R")

_pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="a2a")
# A message may have a tool plan a transaction, which takes seconds; reads do not wait for that.
_patient_pool = ThreadPoolExecutor(max_workers=2 * THREADS, thread_name_prefix="a2a-patient")


async def in_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a short database operation in a thread."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_pool, partial(_with_fresh_connection, work, *args, **kwargs))


async def in_patient_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """As ``in_thread``, for operations that may take seconds."""
    run = partial(_with_fresh_connection, work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_patient_pool, run)


def _with_fresh_connection(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Closes stale connections, so that an idle thread holds no session of a connection pool."""
    close_old_connections()
    try:
        return work(*args, **kwargs)
    finally:
        close_old_connections()


class Listener:
    """Wakes the coroutines of this process that wait for a change of a task."""

    def __init__(self) -> None:
        self._waiting: dict[UUID, set[asyncio.Event]] = defaultdict(set)
        self._watch = waiting.Watch(self._listen, self._look)

    @contextmanager
    def waiting_for(self, subject: UUID) -> Iterator[asyncio.Event]:
        self._watch.start()
        changed = asyncio.Event()
        self._waiting[subject].add(changed)
        try:
            yield changed
        finally:
            self._waiting[subject].discard(changed)
            if not self._waiting[subject]:
                del self._waiting[subject]

    def _ring(self, subject: UUID) -> None:
        for changed in self._waiting.get(subject, ()):
            changed.set()

    async def _listen(self) -> None:
        async with Redis.from_url(settings.REDIS_URL) as redis, redis.pubsub() as subscription:
            await subscription.psubscribe(doorbell.channel_of("*"))
            async for message in subscription.listen():
                if message["type"] == "pmessage":
                    self._ring(UUID(message["channel"].decode().rpartition(":")[2]))

    async def _look(self) -> None:
        if self._waiting:
            for subject in await in_thread(_recently_changed):
                self._ring(subject)


def _recently_changed() -> set[UUID]:
    events = waiting.recent_events().filter(transaction=None)
    return set(events.values_list("subject", flat=True))


listener = Listener()


# --- what a stream contains ------------------------------------------------------------------


def snapshot(task_id: UUID, history: int | None = None) -> tuple[sdk.pb.Task, int]:
    """The task, and the number of its last event, read in one snapshot."""
    with atomic():
        if not connection.in_atomic_block or not connection.savepoint_ids:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        task = Task.objects.get(pk=task_id)
        last = Event.objects.filter(subject=task_id).order_by("-seq").first()
        return sdk.task_out(to_json.render(task, history)), last.seq if last else 0


def updates_since(task_id: UUID, seq: int) -> tuple[list[Any], int, str]:
    """Updates after event ``seq``, the number of the last event, and the state after it."""
    events = list(Event.objects.filter(subject=task_id, seq__gt=seq).order_by("seq"))
    if not events:
        return [], seq, ""
    task = Task.objects.get(pk=task_id)
    artifacts = {artifact.artifact_id: artifact for artifact in task.artifacts.all()}
    questions = {question.pk: question for question in task.questions.all()}
    bodies = [to_json.event_to_json(event, task, artifacts, questions) for event in events]
    updates = [sdk.update_out(body) for body in bodies if body is not None]
    return updates, events[-1].seq, _state_after(events[-1], task)


def _state_after(last: Event, task: Task) -> str:
    """As the client is told. The row may be ahead of the events that were read."""
    if last.to_state != TaskState.INPUT_REQUIRED:
        return last.to_state
    if task.state != TaskState.INPUT_REQUIRED:
        return TaskState.WORKING
    return to_json.state_for_client(task, to_json.open_question(task))


# States in which the stream of a message closes: the task has ended, or waits for the client. A
# subscription stays open until the task has ended.
TURN_OVER = FINAL | {TaskState.INPUT_REQUIRED}


async def follow(task_id: UUID, until: frozenset[TaskState] = FINAL) -> AsyncIterator[Any]:
    """The task, then each update, until the task is in one of those states."""
    with listener.waiting_for(task_id) as changed:
        task, seq = await in_thread(snapshot, task_id)
        yield task
        state: str = sdk.STATE_IN[task.status.state]
        while state not in until:
            changed.clear()
            updates, seq, state = await in_thread(updates_since, task_id, seq)
            for update in updates:
                yield update
            if state not in until:
                await changed.wait()


async def until_it_rests(task_id: UUID, seconds: float) -> None:
    """Wait until the task has ended or waits for an answer or sign-off, at most so long."""
    deadline = time.monotonic() + seconds
    with listener.waiting_for(task_id) as changed:
        while (remaining := deadline - time.monotonic()) > 0:
            changed.clear()
            state = await in_thread(_state_of, task_id)
            if state in FINAL | INTERRUPTED:
                return
            try:
                await asyncio.wait_for(changed.wait(), remaining)
            except TimeoutError:
                return


def _state_of(task_id: UUID) -> str:
    task = Task.objects.get(pk=task_id)
    return to_json.state_for_client(task, to_json.open_question(task))
