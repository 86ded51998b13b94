"""How often an agent may ask for one thing."""

from __future__ import annotations

from uuid import UUID

from redis import RedisError

from ledger.agents.callers import Caller
from ledger.events import doorbell

POLL_INTERVAL_S = 2
# Polls of one agent within the interval, before the answer is 429: that many may watch.
POLL_WATCHERS = 4
WITHOUT_END = -1  # Redis' answer for a key that never lapses


def polls_too_fast(caller: Caller, subject: UUID) -> str:
    """``""``, ``"slow down"`` or ``"stop"``. Without Redis nobody is slowed down.

    Several watchers of one agent may ask within the interval, so one of them alone is told to stop
    only when it asks more often than all of them together would.
    """
    name = f"assent:poll:{caller.principal}:{subject}"
    try:
        redis = doorbell.redis()
        # A little shorter than the interval: who keeps to it finds the count gone.
        redis.set(name, 0, nx=True, px=POLL_INTERVAL_S * 1000 - 100)
        polls = int(str(redis.incr(name)))
        if polls > 1 and redis.pttl(name) == WITHOUT_END:  # it lapsed between the two
            redis.pexpire(name, POLL_INTERVAL_S * 1000)
    except RedisError:
        return ""
    if polls == 1:
        return ""
    return "stop" if polls > POLL_WATCHERS else "slow down"
