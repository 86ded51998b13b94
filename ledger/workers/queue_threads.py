"""Queues with threads of their own.

A worker takes jobs in the order of its queues, so while there is work in an earlier one, it takes
none of a later one. A queue with threads of its own waits for no other.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from django.db import connection
from redis import RedisError
from rq.exceptions import StopRequested
from rq.worker import WorkerStatus

from ledger.workers.queues import WarmWorker, worker_for

logger = logging.getLogger(__name__)

LOOK_AGAIN_S = 1.0  # for Redis, once it has not answered


class _ThreadWorker(WarmWorker):
    """Signals reach the main thread only; that sets ``stopping``."""

    stopping: threading.Event

    def _install_signal_handlers(self) -> None:
        pass

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """RQ calls it before each look into the queue."""
        if self.stopping.is_set():
            raise StopRequested()
        super().heartbeat(timeout, pipeline)


class QueueThreads:
    """Serves the queue of this name in so many threads, until it is stopped."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._stopping = threading.Event()
        self._workers: dict[threading.Thread, _ThreadWorker | None] = {
            threading.Thread(target=self._main, name=f"{name} {index}", daemon=True): None
            for index in range(number)
        }

    def start(self) -> None:
        for thread in self._workers:
            thread.start()

    def stop(self) -> None:
        """Take nothing more, and wait for the jobs in hand."""
        self._stopping.set()
        for thread, worker in self._workers.items():
            if worker is not None and worker.get_state() == WorkerStatus.BUSY:
                thread.join()

    def _main(self) -> None:
        while not self._stopping.is_set():
            try:
                self._work()
            except StopRequested:
                return
            except RedisError as failure:
                logger.info("Redis cannot be reached: %s", failure)
            finally:
                connection.close()
            self._stopping.wait(LOOK_AGAIN_S)

    def _work(self) -> None:
        worker = worker_for([self._name], _ThreadWorker)
        worker.stopping = self._stopping
        self._workers[threading.current_thread()] = worker
        worker.work(logging_level="WARNING", with_scheduler=False)
