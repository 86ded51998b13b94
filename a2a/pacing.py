"""How often a client may ask for a task, counted in Redis; without Redis nobody is slowed down."""

from __future__ import annotations

from uuid import UUID

from redis import RedisError

from a2a.states import TaskState
from ledger import doorbell
from ledger.polling import POLL_INTERVAL_S

LONGEST_S = 30
PATIENT_ANSWERS = 10  # that said WORKING, before the pauses double
MEMORY_S = 3600
READS = "assent:tasks:reads"


def seconds_until_next(task_id: UUID, state: str) -> int:
    """When to come back: 2 s; after ten WORKING answers doubled each time, up to 30 s."""
    name = f"assent:tasks:working:{task_id}"
    try:
        redis = doorbell.redis()
        redis.incr(READS)
        if state != TaskState.WORKING:
            return POLL_INTERVAL_S
        answers = int(str(redis.incr(name)))
        redis.expire(name, MEMORY_S)
    except RedisError:
        return POLL_INTERVAL_S
    doublings: int = 2 ** max(0, min(answers - PATIENT_ANSWERS, 5))
    return min(LONGEST_S, POLL_INTERVAL_S * doublings)


def reads() -> int:
    """How many times tasks were read since Redis was last empty."""
    try:
        return int(str(doorbell.redis().get(READS) or 0))
    except RedisError:
        return 0
