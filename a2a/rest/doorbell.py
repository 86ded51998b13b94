"""The doorbell for workers: a new task wakes the long-polls of its tenant's workers."""

from __future__ import annotations

import logging

from redis import RedisError

from a2a.states import TaskEventKind
from ledger.foundation import doorbell

logger = logging.getLogger(__name__)

NEW_WORK = frozenset({TaskEventKind.SUBMITTED, TaskEventKind.PUT_BACK, TaskEventKind.HANDED_OVER})


# Before the tenant, in the name of the Redis channel for its new tasks.
PREFIX_OF_WORK = "assent:work:"


def wake_workers(tenant: str, kind: str, **_: object) -> None:
    """Ring for the tenant's workers that wait for a task, in whichever process."""
    if kind not in NEW_WORK:
        return
    try:
        doorbell.bell().publish(PREFIX_OF_WORK + tenant, kind)
    except RedisError as failure:
        logger.info("doorbell for the workers of %s not rung: %s", tenant, failure)
