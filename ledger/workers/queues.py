"""Queues of sealed jobs: somebody who writes into Redis can cost us time and nothing else.

A job carries one sealed text (encrypted and signed with a key of its queue). A worker knows one
function per queue and never runs what a name in Redis says; of everything else that RQ keeps
beside a job (callbacks, webhooks, dependencies, pickled results) nothing is read.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from typing import Any, TypeVar
from uuid import uuid4

import django_rq
import rq.serializers
from django.conf import settings
from django.db import connection
from django_rq.queues import DjangoRQ
from redis import ConnectionError as RedisConnectionError, Redis, RedisError
from redis.backoff import NoBackoff
from redis.commands.core import Script
from redis.retry import Retry
from rq import Queue, SimpleWorker
from rq.exceptions import NoSuchJobError, StopRequested
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer
from rq.utils import as_text, now as utcnow, utcformat
from rq.worker import WorkerStatus

from ledger import doorbell
from ledger.backoff import Backoff
from ledger.database import Outage
from ledger.database.sessions import CONNECTION_LOST
from ledger.workers.sealing import SEALED_FOR_S, NotOurs, seal, unpacked, unseal

logger = logging.getLogger(__name__)

JOB_TIMEOUT_S = 24 * 60 * 60  # the contract's own timeout is shorter and is what counts
HEARTBEAT_EVERY_S = 10.0
LISTED_FOR_S = 60 * 60  # how long RQ's pages list a worker that is silent: calls may take long
# After a job that found no database.
PAUSE = Backoff(first=timedelta(seconds=0.5), longest=timedelta(seconds=5))
CONNECT_S = 2.0
LOOK_AGAIN_S = 1.0  # for Redis, once it has not answered
# RQ waits for a job 15 s less than this at a time, and for any answer of Redis 10 s more than that.
WORKER_TTL_S = 20

# The one function of each queue.
JOBS: dict[str, Callable[[str], None]] = {}

# RQ falls back to pickle wherever a call of its own, or of its pages, names no serializer.
rq.serializers.DefaultSerializer = JSONSerializer  # type: ignore[assignment,misc]
rq.serializers.PickleSerializer = JSONSerializer  # type: ignore[assignment]
rq.serializers.SERIALIZER_ALIASES["pickle"] = JSONSerializer

# The fields of a job's hash that are read: none of them names code.
_READ = frozenset(
    {
        b"created_at",
        b"enqueued_at",
        b"started_at",
        b"ended_at",
        b"last_heartbeat",
        b"status",
        b"origin",
        b"description",
        b"worker_name",
    }
)


# Exceptions from reading something that is not one of our jobs.
_NO_JOB = (
    NotOurs,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    RecursionError,
    zlib.error,
)


class SealedJob(Job):
    """A job whose subject is sealed, and whose function is that of its queue."""

    subject: str | None = None

    def restore(self, raw_data: dict[bytes, bytes]) -> None:
        """Raises ``NoSuchJobError`` for what is not ours: RQ then passes on to the next."""
        try:
            queue = raw_data[b"origin"].decode()
            self.data = unpacked(raw_data[b"data"])
            _, _, (sealed,), _ = json.loads(self.data)
            self.subject = unseal(queue, sealed)
            kept = {name: raw_data[name] for name in _READ & set(raw_data)}
            super().restore({**kept, b"data": self.data})
        except _NO_JOB as failure:
            logger.warning("job %s is not one of ours and is dropped: %r", self.id, failure)
            raise NoSuchJobError("It is not one of ours.") from None
        # Time limits are not taken from Redis either.
        self.timeout, self.result_ttl, self.failure_ttl = JOB_TIMEOUT_S, 0, 3600

    def _deserialize_data(self) -> None:
        self._func_name, self._instance = self.origin, None
        self._args, self._kwargs = (self.subject,), {}

    def _execute(self) -> None:
        assert self.subject is not None
        JOBS[self.origin](self.subject)


class JobQueue(DjangoRQ):
    """A queue of sealed jobs; also that of RQ's pages."""

    job_class = SealedJob

    @classmethod
    def dequeue_any(  # type: ignore[override]
        cls, queues: Sequence[Queue], timeout: int | None, connection: Redis, **_: Any
    ) -> tuple[Job, Queue] | None:
        """Take the next job for good, in one round trip to Redis where one is waiting.

        RQ takes three, and keeps the job's id in a list until it has started. With a ``timeout``
        in seconds it waits for a job. Raises ``rq.timeouts.DequeueTimeout``.
        """
        by_key = {queue.key: queue for queue in queues}
        take, prefix = _take(connection), Job.redis_job_namespace_prefix
        while True:
            taken: Any = take([*by_key], [prefix])
            if taken is None and timeout is not None:
                key, job_id = cls.lpop([*by_key], timeout, connection=connection)
                taken = take([key], [prefix, job_id])
            if taken is None:
                return None
            queue, job_id, fields = taken
            with suppress(NoSuchJobError):  # not one of ours: look at the next
                return _job_of(as_text(job_id), fields, connection), by_key[as_text(queue)]


class LimitedQueue(JobQueue):
    """As django-rq gives it out: on connections that give up soon, in place of its own."""

    def __init__(self, name: str, *args: Any, **options: Any) -> None:
        options["connection"] = doorbell.redis()
        super().__init__(name, **options)  # type: ignore[no-untyped-call]


# The first job of the first queue that has one, or the job whose id was taken from a queue: its
# queue, its id, and its fields, which stay in Redis no longer.
_TAKE = """
local function taken(queue, id)
    local fields = redis.pcall('HGETALL', ARGV[1] .. id)
    redis.call('DEL', ARGV[1] .. id)
    return {queue, id, fields.err and {} or fields}
end
if ARGV[2] then return taken(KEYS[1], ARGV[2]) end
for _, queue in ipairs(KEYS) do
    local id = redis.call('LPOP', queue)
    if id then return taken(queue, id) end
end
return false
"""


@lru_cache(maxsize=8)
def _take(connection: Redis) -> Script:
    return connection.register_script(_TAKE)


def _job_of(job_id: str, fields: Sequence[bytes], connection: Redis) -> Job:
    """Raises ``NoSuchJobError`` for what is not one of ours."""
    if not fields:
        raise NoSuchJobError(f"Job {job_id} is gone.")
    job = SealedJob(job_id, connection=connection, serializer=JSONSerializer)
    job.restore(dict(zip(fields[::2], fields[1::2], strict=True)))
    return job


def register_job(name: str, run: Callable[[str], None]) -> None:
    """Let workers of the queue ``name`` run this function. Called in ``AppConfig.ready()``."""
    JOBS[name] = run


def put(name: str, subject: str, label: str) -> None:
    """Enqueue a job in the queue of this name. Raises ``redis.RedisError``."""
    settings.REDIS_POOL.connection_class.breaker.refuse()  # before the sealing, which takes longer
    job_id, queue = str(uuid4()), Queue.redis_queue_namespace_prefix + name
    fields = _fields_of(name, seal(name, subject), label)
    with doorbell.redis().pipeline(transaction=False) as pipeline:
        _write(pipeline, job_id, fields)
        pipeline.sadd(Queue.redis_queues_keys, queue)
        pipeline.rpush(queue, job_id)
        pipeline.execute()


def _write(redis: Redis, job_id: str, fields: dict[Any, Any]) -> None:
    redis.hset(Job.key_for(job_id), mapping=fields)
    redis.expire(Job.key_for(job_id), SEALED_FOR_S)


def _fields_of(name: str, sealed: str, label: str) -> dict[Any, Any]:
    """The fields of RQ's job that are read, by workers and by RQ's pages.

    RQ's own ``enqueue`` takes three round trips and several times as long, for all the others.
    """
    data = json.dumps([f"ledger.workers.jobs.{name}", None, [sealed], {}]).encode()
    now = utcformat(utcnow())
    return {
        "data": zlib.compress(data),
        "origin": name,
        "status": JobStatus.QUEUED.value,
        "description": label,
        "created_at": now,
        "enqueued_at": now,
    }


class WarmWorker(SimpleWorker):
    """Runs jobs in its own process: no fork, no import, no new connection per job.

    It takes no orders through Redis: no command to stop, no suspension. Nor does it keep a record
    there of the job at hand: what a worker leaves undone when it dies, the sweeper finds in the
    database. So a job takes one round trip to Redis, and one more where the worker waited for it.
    """

    _next_heartbeat = 0.0
    _outages = 0  # in a row
    _outage = Outage("this worker", logger)
    # Redis may be gone for a while; look again soon rather than after a minute.
    max_connection_wait_time = 1.0
    job_class = SealedJob
    queue_class = JobQueue

    def request_stop(self, signum: int, frame: Any) -> None:
        """RQ notes it only while a job runs; ``work`` must not take it for Redis falling silent."""
        self._stop_requested = True
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]

    def execute_job(self, job: Job, queue: Queue) -> None:
        if job.origin != queue.name:
            logger.warning("job %s lies in a queue that is not its own and is dropped", job.id)
            return
        self.set_state(WorkerStatus.BUSY)
        try:
            job._execute()
        except Exception as failure:
            if isinstance(failure, CONNECTION_LOST) and not connection.is_usable():
                self._put_back(job, queue, failure)
                return
            text = "".join(traceback.format_exception(*sys.exc_info()))
            self._write_again(job)
            self.handle_exception(job, *sys.exc_info())
            self.handle_job_failure(job, queue, exc_string=text)
        else:
            self._outages = 0
            self._outage.is_over()
        finally:
            self.set_state(WorkerStatus.IDLE)

    def _put_back(self, job: Job, queue: Queue, failure: Exception) -> None:
        """Without the database a job is not a failed one: enqueue it again, and pause."""
        self._outages += 1
        self._outage.goes_on(failure)
        connection.close()
        self._write_again(job)
        self.connection.rpush(queue.key, job.id)
        time.sleep(PAUSE.wait(self._outages).total_seconds())

    def _write_again(self, job: Job) -> None:
        """What was taken from Redis, for a list of RQ that has the job again."""
        assert isinstance(job, SealedJob)
        assert job.subject is not None
        sealed = seal(job.origin, job.subject)
        _write(self.connection, job.id, _fields_of(job.origin, sealed, job.description or ""))

    def set_state(self, state: str, pipeline: Any = None) -> None:
        """Decides whether a stop signal waits for the job. RQ's pages learn it by the heartbeat."""
        self._state = state

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Tell RQ's pages that the worker lives, now and then, as long as a job may take."""
        if time.monotonic() >= self._next_heartbeat:
            self._next_heartbeat = time.monotonic() + HEARTBEAT_EVERY_S
            super().heartbeat(LISTED_FOR_S, pipeline)

    def procline(self, message: str) -> None:
        pass

    def handle_job_failure(
        self, job: Job, queue: Queue, started_job_registry: Any = None, exc_string: str = ""
    ) -> None:
        """Redis gets the type of the exception only: its text may quote somebody's data."""
        kind = exc_string.strip().rpartition("\n")[2].partition(":")[0]
        summary = f"{kind}: see the worker's log"
        super().handle_job_failure(job, queue, started_job_registry, exc_string=summary)

    def check_for_suspension(self, burst: bool) -> None:
        pass

    def subscribe(self) -> None:
        pass

    def unsubscribe(self) -> None:
        pass


W = TypeVar("W", bound=WarmWorker)


def worker_for(names: list[str], kind: type[W]) -> W:
    """A worker for the queues of these names, on a connection of its own."""
    redis = Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=CONNECT_S, retry=Retry(NoBackoff(), 0)
    )
    queues = [django_rq.get_queue(name, connection=redis) for name in names]
    return kind(queues, connection=redis, serializer="json", worker_ttl=WORKER_TTL_S)


def work(names: list[str], *, burst: bool = False) -> None:
    """Work until told to stop, with ``burst`` until the queues are empty. Raises ``RedisError``."""
    worker = worker_for(names, WarmWorker)
    worker.work(logging_level="WARNING", with_scheduler=False, burst=burst)
    if not burst and not worker._stop_requested:
        raise RedisConnectionError("Redis did not answer in time.")


# --- queues with threads of their own -----------------------------------------------------------
#
# A worker takes jobs in the order of its queues, so while there is work in an earlier one, it takes
# none of a later one. A queue with threads of its own waits for no other.


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
