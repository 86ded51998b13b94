"""How often a client may ask for a task, counted in Redis; without Redis nobody is slowed down."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from redis import Redis, RedisError

from a2a.states import TaskState
from ledger.api.polling import POLL_INTERVAL_S
from ledger.events import doorbell

LONGEST_S = 30
PATIENT_ANSWERS = 10  # that said WORKING, before the pauses double
MEMORY_S = 3600
READS = "assent:tasks:reads"  # and the minute: reads in it by tenant
READS_KEPT_S = 2 * 60 * 60


def seconds_until_next(task_id: UUID, state: str, tenant: str) -> int:
    """When to come back: 2 s; after ten WORKING answers doubled each time, up to 30 s."""
    name = f"assent:tasks:working:{task_id}"
    try:
        redis = doorbell.redis()
        _count(redis, tenant, 1)
        if state != TaskState.WORKING:
            return POLL_INTERVAL_S
        answers = int(str(redis.incr(name)))
        redis.expire(name, MEMORY_S)
    except RedisError:
        return POLL_INTERVAL_S
    doublings: int = 2 ** max(0, min(answers - PATIENT_ANSWERS, 5))
    return min(LONGEST_S, POLL_INTERVAL_S * doublings)


def count_reads(by_tenant: Mapping[str, int]) -> None:
    """How often tasks are asked for, for the operators; losing it is no harm."""
    with suppress(RedisError):
        for tenant, number in by_tenant.items():
            _count(doorbell.redis(), tenant, number)


def _count(redis: Redis, tenant: str, number: int) -> None:
    name = f"{READS}:{int(time.time()) // 60}"
    redis.hincrby(name, tenant, number)
    redis.expire(name, READS_KEPT_S)


def recent_reads(minutes: int, tenants: frozenset[str] | None) -> int | None:
    """Reads of these tenants' tasks (of all) in the last minutes; ``None`` if Redis cannot say."""
    this, found = int(time.time()) // 60, 0
    try:
        for back in range(minutes):
            reads: Any = doorbell.redis().hgetall(f"{READS}:{this - back}")
            found += sum(
                int(number)
                for tenant, number in reads.items()
                if tenants is None or tenant.decode() in tenants
            )
    except (RedisError, ValueError):
        return None
    return found
