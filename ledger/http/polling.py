"""How often an agent may poll one transaction or task."""

from __future__ import annotations

from enum import Enum, auto
from uuid import UUID

from redis import RedisError

from ledger import doorbell
from ledger.agents.callers import Caller

POLL_INTERVAL_S = 2
# Polls of one agent within the interval before it gets a 429: so many of its processes may watch.
POLL_WATCHERS = 4
WITHOUT_END = -1  # Redis' answer for a key that never lapses


class Pace(Enum):
    """How fast an agent polls one subject."""

    FINE = auto()
    TOO_FAST = auto()  # answered, and told when to come back
    REFUSED = auto()  # answered with 429


def pace_of(caller: Caller, subject: UUID) -> Pace:
    """Count a poll, and return how fast the agent polls. Without Redis always ``FINE``.

    Several processes of one agent may poll within the interval; only more polls than
    ``POLL_WATCHERS`` of them would send are ``REFUSED``.
    """
    name = f"assent:poll:{caller.principal}:{subject}"
    try:
        redis = doorbell.redis()
        # A little shorter than the interval: a client that keeps to it is never counted twice.
        redis.set(name, 0, nx=True, px=POLL_INTERVAL_S * 1000 - 100)
        polls = int(str(redis.incr(name)))
        if polls > 1 and redis.pttl(name) == WITHOUT_END:  # it lapsed between the two
            redis.pexpire(name, POLL_INTERVAL_S * 1000)
    except RedisError:
        return Pace.FINE
    if polls == 1:
        return Pace.FINE
    return Pace.REFUSED if polls > POLL_WATCHERS else Pace.TOO_FAST
