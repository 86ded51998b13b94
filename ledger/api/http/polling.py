"""Limits to how often an agent may poll one transaction or task."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from redis import RedisError

from ledger.agents import Caller
from ledger.api.http.problems import problem
from ledger.foundation import doorbell

POLL_INTERVAL_S = 2
# Polls of one agent within the interval before it gets a 429: so many of its processes may watch.
POLL_WATCHERS = 4
# Counts one poll under each key; each count begins with its first poll and lapses by itself.
_COUNT = """
local polls = {}
for place, key in ipairs(KEYS) do
    polls[place] = redis.call('INCR', key)
    if polls[place] == 1 then redis.call('PEXPIRE', key, ARGV[1]) end
end
return polls
"""
# A little shorter than the interval: a client that keeps to it is never counted twice.
_LAPSE_MS = POLL_INTERVAL_S * 1000 - 100


class Pace(Enum):
    """Speed at which an agent polls one subject."""

    FINE = auto()
    TOO_FAST = auto()  # answered, and told when to come back
    REFUSED = auto()  # answered with 429


def pace_of(caller: Caller, subject: UUID) -> Pace:
    """Count a poll, and return how fast the agent polls. Without Redis always ``FINE``.

    Several processes of one agent may poll within the interval; only more polls than
    ``POLL_WATCHERS`` of them would send are ``REFUSED``.
    """
    return paces_of([(str(caller.principal), subject)])[0]


def paces_of(polls: Sequence[tuple[str, UUID]]) -> list[Pace]:
    """The same for many polls, each of a principal and a subject, in one call of Redis."""
    names = [f"assent:poll:{principal}:{subject}" for principal, subject in polls]
    if not names:
        return []
    try:
        counts: Any = doorbell.redis().eval(_COUNT, len(names), *names, str(_LAPSE_MS))
    except RedisError:
        return [Pace.FINE] * len(names)
    return [_pace(count) for count in counts]


def _pace(polls: int) -> Pace:
    if polls == 1:
        return Pace.FINE
    return Pace.REFUSED if polls > POLL_WATCHERS else Pace.TOO_FAST


def too_fast(subject: UUID | str) -> HttpResponse:
    """The response to a poll that is ``REFUSED``: of a transaction, or of what the text names.

    What has ended is shown nevertheless: its reader has nothing to wait for.
    """
    name = subject if isinstance(subject, str) else f"Transaction {subject}"
    response = problem(
        429,
        "polling_too_fast",
        "Polling too fast",
        f"{name} was asked for more than {POLL_WATCHERS} times within {POLL_INTERVAL_S} s.",
        f"Wait {POLL_INTERVAL_S} s between two requests, or use ?wait=30.",
    )
    response["Retry-After"] = str(POLL_INTERVAL_S)
    return response


def headers_of_read(etag: str, pace: Pace, *, is_final: bool) -> dict[str, str]:
    """The headers of a transaction that is read."""
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if pace is not Pace.FINE or not is_final:
        headers["Retry-After"] = str(POLL_INTERVAL_S)
    return headers
