"""The doorbell: a signal after commit. Losing it costs about a second, never more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from uuid import UUID

from django.conf import settings
from django.dispatch import Signal
from redis import Redis, RedisError

logger = logging.getLogger(__name__)

# event_id: int, subject: UUID (whose chain grew), tenant: str, kind: str, is_first: bool,
# deliveries: Sequence[int]
event_committed = Signal()


def register_listener(listener: Callable[..., None]) -> None:
    """Call it after each event is committed, in the process that wrote the event.

    Called in ``AppConfig.ready()``. The listener takes the signal's arguments by keyword, and
    ``**_`` for those that it does not need.
    """
    event_committed.connect(listener)


def ring(
    event_id: int,
    subject: UUID,
    tenant: str,
    kind: str,
    deliveries: Sequence[int] = (),
    *,
    is_first: bool = False,
) -> None:
    """Call the listeners of this process. One that raises stops neither the caller nor the others.

    ``is_first`` says that the event is the first of its subject.
    """
    event_committed.send_robust(
        sender=None,
        event_id=event_id,
        subject=subject,
        tenant=tenant,
        kind=kind,
        is_first=is_first,
        deliveries=deliveries,
    )


@lru_cache(maxsize=1)
def redis() -> Redis:
    """A Redis client with short timeouts."""
    return Redis.from_url(settings.REDIS_URL, **settings.REDIS_PATIENCE)


def channel_of(subject: UUID | str) -> str:
    """The Redis channel for changes of a subject; with ``"*"``, the pattern for all subjects."""
    return f"assent:subject:{subject}"


def wake_waiting_agents(subject: UUID, kind: str, is_first: bool = False, **_: object) -> None:
    """End the long-polls on this subject, in whichever process they wait."""
    if is_first:
        return  # the subject did not exist before, so no poll waits for it
    try:
        redis().publish(channel_of(subject), kind)
    except RedisError as failure:
        logger.info("no doorbell for %s: %s", subject, failure)
