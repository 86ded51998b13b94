"""Processes of the installation that live: each says so in Redis every few seconds.

Only for operators to look at. Nothing is decided by it, as Redis may be away, flushed or wrong.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Collection
from typing import Any

from redis import RedisError

from ledger.foundation import doorbell

logger = logging.getLogger(__name__)

KEY = "assent:processes"  # a sorted set of "kind:name", by the time of the last sign
SIGN_EVERY_S, SIGN_COUNTS_S = 5, 15


def show(*kinds: str) -> None:
    """Let a thread say from now on that this process lives, as one of each of these kinds."""
    name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    members = [f"{kind}:{name}" for kind in kinds]
    threading.Thread(target=_show, args=[members], name="liveness", daemon=True).start()


def _show(members: list[str]) -> None:
    pause = threading.Event()
    while True:
        try:
            sign(members)
        except RedisError as failure:
            logger.info("no sign of life: %s", failure)
        pause.wait(SIGN_EVERY_S)


def sign(members: Collection[str]) -> None:
    """Say once that these live, by the clock of Redis. Raises ``RedisError``."""
    redis = doorbell.redis()
    now: Any = redis.time()[0]
    with redis.pipeline(transaction=False) as pipeline:
        pipeline.zadd(KEY, dict.fromkeys(members, now))
        pipeline.zremrangebyscore(KEY, "-inf", now - SIGN_COUNTS_S)
        pipeline.expire(KEY, SIGN_COUNTS_S)
        pipeline.execute()


def counts() -> Counter[str] | None:
    """Number of processes of each kind with a sign lately; ``None`` while Redis does not answer."""
    redis = doorbell.redis()
    try:
        now: Any = redis.time()[0]
        members: Any = redis.zrangebyscore(KEY, now - SIGN_COUNTS_S, "+inf")
    except RedisError:
        return None
    return Counter(member.decode(errors="replace").partition(":")[0] for member in members)
