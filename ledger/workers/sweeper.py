"""The guarantee behind the doorbell: once a second, query the database for what is due.

Several sweepers may run; the one that holds the advisory lock works, the others wait for it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Container, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Event as Flag
from uuid import UUID

import django_rq
from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from django.db.models.functions import Now
from redis import RedisError

from ledger import contracts, execution, retention
from ledger.contracts import RequiredApprover
from ledger.errors import LedgerError
from ledger.events import outbox
from ledger.log import keeper
from ledger.models import Transaction, TransactionQuerySet
from ledger.states import State
from ledger.transactions import coordinator
from ledger.workers import queues
from ledger.workers.jobs import enqueue

logger = logging.getLogger(__name__)

ONE_SWEEPER = 0x0A55E47  # the advisory lock of the sweeping process
BATCH = 1_000
# How old work must be before the sweeper enqueues it: the doorbell comes first.
GRACE = timedelta(seconds=1)
# Work in a queue that is not empty is enqueued again so often, in case its job was lost.
ENQUEUE_AGAIN_S = 10.0

_further_steps: list[Callable[[], None]] = []
_further_jobs: dict[str, Callable[[], Iterable[object]]] = {}


def register_step(step: Callable[[], None]) -> None:
    """Call it in each round. Called in ``AppConfig.ready()``."""
    _further_steps.append(step)


def register_job(
    name: str, run: Callable[[str], None], due: Callable[[], Iterable[object]]
) -> None:
    """A job of an upper room; ``due`` finds its subjects, in each round."""
    queues.register_job(name, run)
    _further_jobs[name] = due


class Sweeper:
    """Repeats the sweep; holds the state of one process between two sweeps."""

    def __init__(self) -> None:
        self._enqueued_at: dict[tuple[str, str], float] = {}
        # Without Redis no worker gets jobs, so the sweeper runs them itself: in threads of their
        # own those that wait for others, so that a slow receiver does not delay a commit.
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="sweeper")
        self._courier_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="courier")
        self._log = keeper.Keeper()

    def run(self, stop: Flag) -> None:
        """Sweep until ``stop`` is set; outlives restarts of the database."""
        while not stop.is_set():
            began = time.monotonic()
            try:
                if _is_only_sweeper():
                    self.sweep()
            except (OperationalError, InterfaceError):
                logger.warning("the database does not answer; sweeping again soon", exc_info=True)
                close_old_connections()
            except Exception:
                logger.exception("a round of sweeping failed")
            stop.wait(max(0.05, settings.SWEEP_EVERY_S - (time.monotonic() - began)))
        for pool in (self._threads, self._courier_threads):
            pool.shutdown(wait=False, cancel_futures=True)
        self._log.stop()

    def sweep(self) -> None:
        """One round. Each step finds rows; each row is settled in a transaction of its own.

        A step that fails is logged and does not keep the others from running. Raises only when
        the connection to the database is lost.
        """
        steps: list[Callable[[], object]] = [
            expire_what_is_due,
            sign_off_by_policy,
            doubt_lapsed_leases,
            self._enqueue_work,
            *_further_steps,
            *(partial(self._enqueue_further, name) for name in _further_jobs),
            retention.erase_due,
            self._log.round,
        ]
        for step in steps:
            _guarded(step)

    def _enqueue_work(self) -> None:
        self._enqueue_rows("commit", _approved_and_unclaimed(), Transaction.objects.inquiry_due())
        self._enqueue_rows("roll_back", Transaction.objects.work_due(State.ROLLING_BACK))
        self._enqueue_rows("compensate", Transaction.objects.work_due(State.COMPENSATING))
        self._enqueue_due("deliver", outbox.overdue())

    def _enqueue_further(self, name: str) -> None:
        self._enqueue_due(name, _further_jobs[name]())

    def _enqueue_rows(self, name: str, *querysets: TransactionQuerySet) -> None:
        """Enqueue rows; those whose tool this process lacks only now and then."""
        rows_due = [pair for rows in querysets for pair in rows.values_list("pk", "tool")[:BATCH]]
        elsewhere = {str(pk) for pk, tool in rows_due if tool not in contracts.tools}
        self._enqueue_due(name, [pk for pk, _ in rows_due], elsewhere)

    def _enqueue_due(
        self, name: str, subjects: Iterable[object], elsewhere: Container[str] = ()
    ) -> None:
        now = time.monotonic()
        waiting = dict.fromkeys((name, str(subject)) for subject in subjects)
        if not waiting:
            return
        queue_is_empty = _queue_length(name) == 0
        for job in waiting:
            is_new = queue_is_empty and job[1] not in elsewhere
            if is_new or now - self._enqueued_at.get(job, -math.inf) >= ENQUEUE_AGAIN_S:
                self._enqueued_at[job] = now
                if not enqueue(*job) and job[1] not in elsewhere:
                    pool = (
                        self._courier_threads if name in settings.COURIER_QUEUES else self._threads
                    )
                    pool.submit(_run_here, *job)
        self._enqueued_at = {
            job: at for job, at in self._enqueued_at.items() if job[0] != name or job in waiting
        }


def expire_what_is_due() -> None:
    for transaction_id in _ids(Transaction.objects.due().order_by("expires_at")):
        _try(coordinator.expire, transaction_id)


def sign_off_by_policy() -> None:
    """Sign off what a process that died after prepare left without its automatic sign-off."""
    left = Transaction.objects.pending().filter(
        required_approver=RequiredApprover.NONE, created_at__lte=Now() - GRACE, expires_at__gt=Now()
    )
    for transaction_id, digest in left.values_list("pk", "intent_digest")[:BATCH]:
        _try(coordinator.approve_by_policy, transaction_id, digest)


def doubt_lapsed_leases() -> None:
    for transaction_id in _ids(Transaction.objects.lease_lapsed()):
        _try(execution.doubt_lapsed_lease, transaction_id)


def _approved_and_unclaimed() -> TransactionQuerySet:
    return (Transaction.objects.begun_by_nobody().filter(decided_at__lte=Now() - GRACE)).order_by(
        "decided_at"
    )


def _ids(rows: TransactionQuerySet) -> list[UUID]:
    return list(rows.values_list("pk", flat=True)[:BATCH])


def _try(verb: Callable[..., object], *subject: object) -> None:
    """Call a verb; a refusal means that somebody was faster. Other rows go on after a failure."""
    try:
        verb(*subject)
    except LedgerError as refusal:
        logger.debug("%s: %s", subject[0], refusal)
    except Exception:
        if not connection.is_usable():
            raise
        logger.exception("sweeping %s failed", subject[0])


def _guarded(step: Callable[[], object]) -> None:
    try:
        step()
    except Exception:
        if not connection.is_usable():
            raise
        logger.exception("a step of the sweeper failed: %s", step)


def _queue_length(name: str) -> int:
    try:
        return int(django_rq.get_queue(name).count)
    except RedisError:
        return 0


def _run_here(name: str, subject: str) -> None:
    try:
        queues.JOBS[name](subject)
    except Exception:
        logger.exception("%s %s failed in the sweeper", name, subject)
    finally:
        connection.close()


def _is_only_sweeper() -> bool:
    """Whether this process holds the lock; PostgreSQL releases it when the connection ends."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted"
            " AND pid = pg_backend_pid() AND classid = 0 AND objid = %s) OR"
            " pg_try_advisory_lock(%s)",
            [ONE_SWEEPER, ONE_SWEEPER],
        )
        return bool(cursor.fetchone()[0])
