"""The doorbell: a signal after commit. Losing it costs about a second, never more."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from uuid import UUID

from django.conf import settings
from django.dispatch import Signal
from redis import Redis, RedisError

logger = logging.getLogger(__name__)

# event_id: int, subject: UUID (whose chain grew), tenant: str, kind: str, deliveries: Sequence[int]
event_committed = Signal()


def ring(
    event_id: int, subject: UUID, tenant: str, kind: str, deliveries: Sequence[int] = ()
) -> None:
    """Tell whoever listens in this process. A listener that fails disturbs nobody."""
    event_committed.send_robust(
        sender=None,
        event_id=event_id,
        subject=subject,
        tenant=tenant,
        kind=kind,
        deliveries=deliveries,
    )


@lru_cache(maxsize=1)
def redis() -> Redis:
    """A client that gives up in milliseconds."""
    return Redis.from_url(settings.REDIS_URL, **settings.REDIS_PATIENCE)


def channel_of(subject: UUID) -> str:
    return f"assent:subject:{subject}"


def wake_waiting_agents(subject: UUID, kind: str, **_: object) -> None:
    """End the long-polls on this subject, in whichever process they wait."""
    if kind in {"prepared", "task_submitted"}:
        return  # nobody can be waiting for what did not exist
    try:
        redis().publish(channel_of(subject), kind)
    except RedisError as failure:
        logger.info("no bell for %s: %s", subject, failure)


event_committed.connect(wake_waiting_agents, dispatch_uid="ledger.wake_waiting_agents")
