"""The rate of clients' reads of tasks, counted in Redis: the pause they are told, and the load.

Without Redis every client is told the shortest pause, and nothing is counted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from redis import Redis, RedisError

from a2a.states import TaskState
from ledger.api.http.polling import POLL_INTERVAL_S
from ledger.foundation import doorbell
from ledger.foundation.backoff import Backoff

PAUSE = Backoff(first=timedelta(seconds=POLL_INTERVAL_S), longest=timedelta(seconds=30))
STEADY_READS = 10  # of a task at work, before its pauses double
MEMORY_S = 3600
READS = "assent:tasks:reads"  # prefix of one hash a minute: tenant → number of reads
READS_KEPT_S = 2 * 60 * 60


def seconds_until_next(task_id: UUID, state: str, tenant: str) -> int:
    """Seconds until the client should read the task again; counts this read.

    2 s; after ten reads of a task at work doubled each time, up to 30 s.
    """
    name = f"assent:tasks:working:{task_id}"
    try:
        redis = doorbell.redis()
        _count(redis, tenant, 1)
        if state != TaskState.WORKING:
            return POLL_INTERVAL_S
        reads = int(str(redis.incr(name)))
        redis.expire(name, MEMORY_S)
    except RedisError:
        return POLL_INTERVAL_S
    return int(PAUSE.wait(reads - STEADY_READS + 1).total_seconds())


def count_reads(by_tenant: Mapping[str, int]) -> None:
    """Count reads of tasks for the operations page. Lost counts do no harm."""
    with suppress(RedisError):
        for tenant, number in by_tenant.items():
            _count(doorbell.redis(), tenant, number)


def _count(redis: Redis, tenant: str, number: int) -> None:
    name = f"{READS}:{int(time.time()) // 60}"
    is_first = redis.hincrby(name, tenant, number) == number
    if is_first:
        redis.expire(name, READS_KEPT_S)


def recent_reads(minutes: int, tenants: frozenset[str] | None) -> int | None:
    """Reads of these tenants' tasks (``None``: of all) in the last minutes; ``None``: unknown."""
    this_minute, total = int(time.time()) // 60, 0
    try:
        for back in range(minutes):
            reads: Any = doorbell.redis().hgetall(f"{READS}:{this_minute - back}")
            total += sum(
                int(number)
                for tenant, number in reads.items()
                if tenants is None or tenant.decode() in tenants
            )
    except (RedisError, ValueError):
        return None
    return total
