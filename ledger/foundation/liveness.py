"""Signs of life of a process: in Redis for operators, by sd_notify(3) for its supervisor.

Those in Redis are only to be looked at: it may be away, flushed or wrong.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from redis import RedisError

from ledger.foundation import doorbell

logger = logging.getLogger(__name__)

KEY = "assent:processes"  # a sorted set of "kind:name", by the time of the last sign
SIGN_EVERY_S, SIGN_COUNTS_S = 5, 15
BEAT_EVERY_S = 1.0  # to the supervisor


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


def beat() -> None:
    """Tell the supervisor, if there is one, that the calling thread goes on."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # of Linux' abstract namespace
        address = f"\0{address[1:]}"
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(f"WATCHDOG=1\nX_THREAD={threading.get_native_id()}".encode(), address)


def waited_s(thread: int, process: int | None = None) -> float:
    """Seconds that a thread has waited for a processor; 0 where the system does not tell."""
    try:
        path = Path(f"/proc/{process or 'self'}/task/{thread}/schedstat")
        return int(path.read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0
