"""Waiting in an asynchronous process: no thread, and no connection, for any who waits.

One listener to the doorbell and one query a second serve all waiting coroutines of a process.
"""

from ledger.api.waiting.long_polls import LONGEST_WAIT_S, LongPolls, Look, Poll
from ledger.api.waiting.watch import LOOK_BACK, LOOK_EVERY_S, Watch, recent_events

__all__ = [
    "LONGEST_WAIT_S",
    "LOOK_BACK",
    "LOOK_EVERY_S",
    "LongPolls",
    "Look",
    "Poll",
    "Watch",
    "recent_events",
]
