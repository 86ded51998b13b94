"""Threads that serve queues until the process is told to stop.

A worker takes jobs in the order of its queues, so while there is work in an earlier one, it takes
none of a later one. A queue with threads of its own waits for no other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from django.db import connection
from redis import RedisError

from ledger.workers.calls import Calls
from ledger.workers.queues import WarmWorker, put, worker_for

logger = logging.getLogger(__name__)

LOOK_AGAIN_S = 1.0  # for Redis, once it has not answered


class QueueThreads:
    """Serves the queues of these names in so many threads, until ``stopping`` is set.

    With ``calls`` the jobs that call tools run there, and hold up none of these threads.
    """

    def __init__(
        self,
        names: Sequence[str],
        number: int,
        stopping: threading.Event,
        calls: Calls | None = None,
    ) -> None:
        self.names = list(names)
        self._stopping, self._calls = stopping, calls
        self._workers: dict[threading.Thread, WarmWorker | None] = {
            threading.Thread(target=self._main, name=f"{names[0]} {index}", daemon=True): None
            for index in range(number)
        }

    def start(self) -> None:
        for thread in self._workers:
            thread.start()

    def stop(self, leave_at: float) -> None:
        """Wait for the jobs in hand, and until ``leave_at`` for goodbyes in Redis.

        Call it once ``stopping`` is set.
        """
        for worker in self._workers.values():
            if worker is not None:
                if not worker.is_free.is_set():
                    logger.warning("stopping: waits for the job in hand, %s", worker.in_hand)
                worker.is_free.wait()
        for job in self._calls.stop() if self._calls is not None else ():
            with suppress(RedisError):  # else the sweeper finds it
                put(*job)
        for thread in self._workers:
            thread.join(max(0.0, leave_at - time.monotonic()))

    def _main(self) -> None:
        while not self._stopping.is_set():
            try:
                self._work()
            except RedisError as failure:
                logger.info("Redis cannot be reached: %s", failure)
            except Exception:
                logger.exception("a worker failed; it begins again")
            finally:
                connection.close()
            self._stopping.wait(LOOK_AGAIN_S)

    def _work(self) -> None:
        worker = worker_for(self.names, self._stopping)
        worker.calls = self._calls
        self._workers[threading.current_thread()] = worker
        worker.work(logging_level="WARNING", with_scheduler=False)
