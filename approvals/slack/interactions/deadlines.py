"""Time limits: thread pools whose callers do not wait, and database statements that give up.

Work in one pool never waits for work in another. That is why there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

from django.db import connection
from django.db.transaction import atomic

from ledger.foundation.lanes import Lane

T = TypeVar("T")


class Pool:
    """Threads for one kind of work."""

    def __init__(self, name: str, threads: int = 8) -> None:
        self.threads = threads
        self._lane = Lane(name, threads, refusal=TimeoutError)

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Run ``work`` in the background."""
        return self._lane.start("", work)

    def run(self, work: Callable[[], T], *, limit: timedelta) -> T:
        """Run ``work`` and wait for it. Raises ``TimeoutError`` after ``limit``, and what ``work``
        raises. Work that has begun is not stopped by the limit; its result is ignored."""
        return self._lane.run_sync("", work, timeout=limit.total_seconds())


# Reads that an acknowledgement includes if they are fast.
READS = Pool("slack-reads")
# Commands are stored here: hanging reads must not keep a click from being stored.
WRITES = Pool("slack-writes")
# Modals are opened here: a hanging database must not keep a modal from being opened.
MODALS = Pool("slack-modals")
# Replies are shown here that the database did not store; nobody waits for them.
REPLIES = Pool("slack-replies")


@contextmanager
def statement_timeout(limit: timedelta) -> Iterator[None]:
    """A database transaction in which a statement that takes longer fails: ``OperationalError``."""
    with atomic():
        with connection.cursor() as cursor:
            milliseconds = str(int(limit.total_seconds() * 1000))
            # As SET LOCAL, which takes no parameters.
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [milliseconds])
        yield
