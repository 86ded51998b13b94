"""Waiting in an asynchronous process: no thread, and no connection, for any who waits.

One listener to the doorbell and one query a second serve all waiting coroutines of a process.
"""

from __future__ import annotations

from ledger.api.waiting.bells import Bell, changes, topic_of
from ledger.api.waiting.clients import (
    ClientGone,
    EventStream,
    Receive,
    Send,
    read_body,
    unless_gone,
)
from ledger.api.waiting.long_polls import LONGEST_WAIT_S, LongPolls, Look, Poll
from ledger.api.waiting.watch import LOOK_BACK, LOOK_EVERY_S, Watch, recent_events

__all__ = [
    "LONGEST_WAIT_S",
    "LOOK_BACK",
    "LOOK_EVERY_S",
    "Bell",
    "ClientGone",
    "EventStream",
    "LongPolls",
    "Look",
    "Poll",
    "Receive",
    "Send",
    "Watch",
    "changes",
    "read_body",
    "recent_events",
    "topic_of",
    "unless_gone",
]
