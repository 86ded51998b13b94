"""Time limits: thread pools whose callers do not wait, and database statements that give up.

Work in one pool never waits for work in another. That is why there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

from django.db import connection
from django.db.transaction import atomic

T = TypeVar("T")


class Pool:
    """Threads for one kind of work. A database connection that it opens is closed afterwards."""

    def __init__(self, name: str, threads: int = 8) -> None:
        self.threads = threads
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Run ``work`` in the background."""
        return self._executor.submit(_closing_connection, work)

    def run(self, work: Callable[[], T], *, limit: timedelta) -> T:
        """Run ``work`` and wait for it. Raises ``TimeoutError`` after ``limit``, and what ``work``
        raises. Work that has begun is not stopped by the limit; its result is ignored."""
        future = self.start(work)
        try:
            return future.result(limit.total_seconds())
        except TimeoutError:
            future.cancel()
            raise


# Reads that an acknowledgement includes if they are fast.
READS = Pool("slack-reads")
# Clicks are stored here: hanging reads must not keep a click from being stored.
WRITES = Pool("slack-writes")
# Modals are opened here: a hanging database must not keep a modal from being opened.
MODALS = Pool("slack-modals")
# The jobs ``react`` while Redis is away; nobody waits for them.
CLICKS = Pool("slack-clicks")
# The jobs ``respond`` while Redis is away: a slow Slack must not keep a click from being handled.
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


def _closing_connection(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        connection.close()
