"""Queues of ids: a job in Redis is the id of a row, and the name of its queue says what to do.

Whoever writes into Redis can at most have a row looked at; its function decides by the row alone
whether there is anything to do. So nothing in Redis is sealed, and nothing there is trusted.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import django_rq
import rq.serializers
from django.conf import settings
from django.db import close_old_connections, connection
from django_rq.queues import DjangoRQ
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue, SimpleWorker
from rq.exceptions import StopRequested
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.utils import as_text
from rq.worker import WorkerStatus

from ledger.errors import NotFound
from ledger.foundation import doorbell
from ledger.foundation.backoff import Backoff
from ledger.foundation.postgres import Outage
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.foundation.telemetry import log_context
from ledger.workers import calls
from ledger.workers.calls import Calls

logger = logging.getLogger(__name__)

FAILED_FOR_S = 60 * 60  # how long RQ's pages list a job that failed
HEARTBEAT_EVERY_S = 10.0
LISTED_FOR_S = 60 * 60  # how long RQ's pages list a worker that is silent: calls may take long
# After a job that found no database.
PAUSE = Backoff(first=timedelta(seconds=0.5), longest=timedelta(seconds=5))
CONNECT_S = 2.0
# RQ waits for a job 15 s less than this at a time, and for any answer of Redis 10 s more than that.
WORKER_TTL_S = 16

NOT_OURS = "%.50r in the queue %s is not one of ours and is dropped"

K = TypeVar("K")

# The function of each queue, and what reads the id that it takes.
JOBS: dict[str, tuple[Callable[[Any], object], Callable[[str], Any]]] = {}


def register_job(name: str, run: Callable[[K], object], id_of: Callable[[str], K]) -> None:
    """Let workers of the queue ``name`` run this function. Called in ``AppConfig.ready()``.

    ``id_of`` raises ``ValueError`` for a text that is no id.
    """
    JOBS[name] = run, id_of


def run(name: str, job_id: str) -> None:
    """Do the job at once, in this thread."""
    function, id_of = JOBS[name]
    close_old_connections()
    try:
        function(id_of(job_id))
    except NotFound:
        logger.warning(NOT_OURS, job_id, name)


def put(name: str, job_id: object) -> None:
    """Enqueue the job in the queue of this name. Raises ``redis.RedisError``."""
    doorbell.bell().rpush(Queue.redis_queue_namespace_prefix + name, str(job_id))


# --- what RQ reads in Redis -----------------------------------------------------------------

# RQ falls back to pickle wherever a call of its own, or of its pages, names no serializer.
rq.serializers.DefaultSerializer = JSONSerializer  # type: ignore[assignment,misc]
rq.serializers.PickleSerializer = JSONSerializer  # type: ignore[assignment]
rq.serializers.SERIALIZER_ALIASES["pickle"] = JSONSerializer

_READ = (b"origin", b"status", b"created_at", b"enqueued_at", b"ended_at")
_restore = Job.restore


def _restore_without_code(job: Job, raw_data: dict[bytes, bytes]) -> None:
    """Of a record in Redis read what RQ's pages show of a job that failed.

    A record may also name functions to import (callbacks) and addresses to call (webhooks), which
    RQ would do even while it counts jobs for a page.
    """
    kept = {name: raw_data[name] for name in _READ if name in raw_data}
    call = json.dumps([as_text(kept.get(b"origin", b"")), None, [job.id], {}])
    _restore(job, {**kept, b"data": call.encode()})


Job.restore = _restore_without_code  # type: ignore[assignment,method-assign]


class IdQueue(DjangoRQ):
    """A list of ids, on connections that give up soon, in place of django-rq's own."""

    def __init__(self, name: str, *args: Any, **options: Any) -> None:
        super().__init__(name, **{**options, "connection": doorbell.redis()})  # type: ignore[no-untyped-call]

    def job_of(self, job_id: str) -> Job:
        """Raises ``ValueError`` for what is no id of this queue."""
        JOBS[self.name][1](job_id)
        job = Job.create(
            self.name,
            [job_id],
            id=job_id,
            origin=self.name,
            failure_ttl=FAILED_FOR_S,
            connection=self.connection,
            serializer=JSONSerializer,
        )
        job.created_at = None  # type: ignore[assignment]  # nobody has noted it
        return job

    @classmethod
    def dequeue_any(  # type: ignore[override]
        cls, queues: Sequence[IdQueue], timeout: int | None, connection: Redis, **_: Any
    ) -> tuple[Job, Queue] | None:
        """Take the next id. RQ's own also reads a record of the job, of which there is none.

        With a ``timeout`` in seconds it waits. Raises ``rq.exceptions.DequeueTimeout``.
        """
        by_key = {queue.key: queue for queue in queues}
        while taken := cls.lpop([*by_key], timeout, connection=connection):
            queue, job_id = by_key[as_text(taken[0])], taken[1]
            try:
                return queue.job_of(job_id.decode()), queue
            except ValueError:
                logger.warning(NOT_OURS, job_id, queue.name)
        return None

    def fetch_job(self, job_id: str) -> Job | None:
        """RQ's own takes an id without a record out of the queue."""
        return None

    def take(self, most: int) -> list[str]:
        """Take the next ids that are there already, at most so many."""
        taken: Any = self.connection.lpop(self.key, most)
        return [job_id for job_id in map(as_text, taken or ()) if self.is_id(job_id)]

    def is_id(self, text: str) -> bool:
        with suppress(ValueError):
            JOBS[self.name][1](text)
            return True
        return False

    def get_jobs(self, offset: int = 0, length: int = -1) -> list[Job]:
        """The jobs of a page; RQ's own reads a record of each."""
        return self._jobs_of(self.get_job_ids(offset, length))

    def _jobs_of(self, job_ids: Iterable[str]) -> list[Job]:
        jobs = []
        for job_id in job_ids:
            with suppress(ValueError):
                jobs.append(self.job_of(job_id))
        return jobs


# --- workers ----------------------------------------------------------------------------------


class WarmWorker(SimpleWorker):
    """RQ's worker that does not fork. A job takes one round trip to Redis.

    It takes no signals: they reach the main thread, which sets ``stopping``.
    """

    queue_class = IdQueue  # type: ignore[assignment]
    # Redis may be gone for a while; look again soon rather than after a minute.
    max_connection_wait_time = 1.0
    stopping: threading.Event
    calls: Calls | None = None  # else a job that calls a tool keeps this thread
    in_hand = ""  # the last job, for people
    _next_heartbeat = 0.0
    _outages = 0  # in a row
    _outage = Outage("this worker", logger)

    def __init__(self, *args: Any, **options: Any) -> None:
        self.is_free = threading.Event()  # not set while a job is in hand
        self.is_free.set()
        super().__init__(*args, **options)

    def _install_signal_handlers(self) -> None:
        pass

    def execute_job(self, job: Job, queue: Queue) -> None:
        """RQ's own notes each step in Redis, and imports the function that the job names.

        What a worker leaves undone when it dies, the sweeper finds in the database.
        """
        self.in_hand = f"{queue.name} {job.id}"
        self.set_state(WorkerStatus.BUSY)
        try:
            if self.stopping.is_set():  # who waits for jobs in hand may have seen none
                self.connection.rpush(queue.key, job.id)
                raise StopRequested
            self._begin(job, queue)
        finally:
            self.set_state(WorkerStatus.IDLE)

    def _begin(self, job: Job, queue: Queue) -> None:
        assert isinstance(queue, IdQueue)
        if self.calls is None or queue.name not in calls.QUEUES:
            self._run([job.id], queue, partial(run, queue.name, job.id))
            return
        ids = [job.id, *queue.take(calls.TOGETHER - 1)]
        self._run(ids, queue, partial(self._begin_calls, self.calls, ids, queue))

    def _begin_calls(self, calls: Calls, ids: Sequence[str], queue: IdQueue) -> None:
        calls.begin_each(
            queue.name,
            {
                each: partial(self._run, [each], queue, partial(run, queue.name, each))
                for each in ids
            },
        )

    def _run(self, ids: Sequence[str], queue: IdQueue, work: Callable[[], None]) -> None:
        with log_context.about(job=queue.name, id=", ".join(ids)):
            self._run_told(ids, queue, work)

    def _run_told(self, ids: Sequence[str], queue: IdQueue, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as failure:
            if isinstance(failure, CONNECTION_LOST) and not connection.is_usable():
                self._put_back(ids, queue, failure)
            else:
                logger.exception("%s %s failed", queue.name, ", ".join(ids))
                for job_id in ids:
                    self._list_as_failed(queue.job_of(job_id), queue, failure)
        else:
            self._outages = 0
            self._outage.is_over()

    def _put_back(self, ids: Sequence[str], queue: IdQueue, failure: Exception) -> None:
        """Without the database a job is not a failed one: enqueue it again, and pause."""
        self._outages += 1
        self._outage.goes_on(failure)
        connection.close()
        self.connection.rpush(queue.key, *ids)
        self.stopping.wait(PAUSE.wait(self._outages).total_seconds())

    def _list_as_failed(self, job: Job, queue: Queue, failure: Exception) -> None:
        """Redis gets the type of the exception only: its text may quote somebody's data."""
        summary = f"{type(failure).__name__}: see the worker's log"
        self.handle_job_failure(job, queue, exc_string=summary)

    def set_state(self, state: str, pipeline: Any = None) -> None:
        """Only here, where it decides whether a stop waits for the job: RQ's own asks Redis."""
        self._state = state
        if state == WorkerStatus.BUSY:
            self.is_free.clear()
        else:
            self.is_free.set()

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Called before each look into a queue, and after each job.

        RQ's own is sent three times a job; its pages need one now and then.
        """
        if self.stopping.is_set():
            raise StopRequested
        if time.monotonic() >= self._next_heartbeat:
            self._next_heartbeat = time.monotonic() + HEARTBEAT_EVERY_S
            super().heartbeat(LISTED_FOR_S, pipeline)

    def check_for_suspension(self, burst: bool) -> None:
        """A worker takes no order to pause from whoever writes into Redis."""

    def subscribe(self) -> None:
        """Nor any other order: to stop, or to end its job."""


def worker_for(names: list[str], stopping: threading.Event) -> WarmWorker:
    """A worker for the queues of these names, on a connection of its own."""
    redis = Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=CONNECT_S, retry=Retry(NoBackoff(), 0)
    )
    queues = [django_rq.get_queue(name) for name in names]
    worker = WarmWorker(queues, connection=redis, serializer="json", worker_ttl=WORKER_TTL_S)
    worker.stopping = stopping
    return worker


def work_off(names: list[str]) -> None:
    """Work in this thread until the queues are empty. Raises ``RedisError``."""
    worker = worker_for(names, threading.Event())
    worker.work(logging_level="WARNING", with_scheduler=False, burst=True)
