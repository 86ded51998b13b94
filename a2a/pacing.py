"""How often a client may ask for a task, counted in Redis; without Redis nobody is slowed down."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any
from uuid import UUID

from redis import Redis, RedisError

from a2a.states import TaskState
from ledger import doorbell
from ledger.polling import POLL_INTERVAL_S

LONGEST_S = 30
PATIENT_ANSWERS = 10  # that said WORKING, before the pauses double
MEMORY_S = 3600
READS = "assent:tasks:reads"  # and the minute; reads of tasks in it
READS_KEPT_S = 2 * 60 * 60


def seconds_until_next(task_id: UUID, state: str) -> int:
    """When to come back: 2 s; after ten WORKING answers doubled each time, up to 30 s."""
    name = f"assent:tasks:working:{task_id}"
    try:
        redis = doorbell.redis()
        _count(redis, 1)
        if state != TaskState.WORKING:
            return POLL_INTERVAL_S
        answers = int(str(redis.incr(name)))
        redis.expire(name, MEMORY_S)
    except RedisError:
        return POLL_INTERVAL_S
    doublings: int = 2 ** max(0, min(answers - PATIENT_ANSWERS, 5))
    return min(LONGEST_S, POLL_INTERVAL_S * doublings)


def count_reads(number: int) -> None:
    """How often tasks are asked for, for the operators; losing it is no harm."""
    with suppress(RedisError):
        _count(doorbell.redis(), number)


def _count(redis: Redis, number: int) -> None:
    name = f"{READS}:{int(time.time()) // 60}"
    redis.incrby(name, number)
    redis.expire(name, READS_KEPT_S)


def recent_reads(minutes: int) -> int | None:
    """Reads in the last so many minutes; ``None`` without Redis."""
    this = int(time.time()) // 60
    try:
        found: Any = doorbell.redis().mget([f"{READS}:{this - back}" for back in range(minutes)])
    except RedisError:
        return None
    return sum(int(value or 0) for value in found)
