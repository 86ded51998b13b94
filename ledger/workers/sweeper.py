"""The guarantee behind the doorbell: once a second, query the database for what is due.

Several sweepers may run; the one that holds the lease works, the others wait for it
(``ledger.workers.leadership``). Deadlines come first: what is due is settled in the database in
one thread, and the queues are filled in another, so that nothing outside delays an expiry.
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import chain, islice, zip_longest
from threading import Event as Flag, Lock
from typing import Any, TypeVar
from uuid import UUID

import django_rq
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now
from redis import RedisError

from ledger import contracts, execution
from ledger.contracts import RequiredApprover
from ledger.errors import LedgerError
from ledger.execution import redemption
from ledger.foundation.postgres import Outage, is_locked
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.limits import prune_refusals
from ledger.models import Brake, Tenant, Transaction, TransactionQuerySet, not_stopped
from ledger.proof import retention
from ledger.proof.log import keeper
from ledger.reporting.usage import count_events
from ledger.states import State
from ledger.tools import silent_addresses, tool_version
from ledger.tools.permits import PermitTool
from ledger.transactions import coordinator
from ledger.workers import calls, leadership, queues
from ledger.workers.calls import Calls
from ledger.workers.jobs import enqueue

logger = logging.getLogger(__name__)
K = TypeVar("K")

BATCH = 1_000
LOOKED_AT = 10  # times as many rows as are enqueued in a round
# How old work must be before the sweeper enqueues it: the doorbell comes first.
GRACE = timedelta(seconds=1)
# Work in a queue that is not empty is enqueued again so often, in case its job was lost.
ENQUEUE_AGAIN_S = 10.0
# Jobs of one name that this process runs or is about to run while there is no queue.
MOST_IN_HAND = 200
PLACES = 6  # for calls of tools, while Redis is away; three more sessions claim, record and renew

_further_steps: list[Callable[[], None]] = []
_further_jobs: dict[str, Callable[[], Iterable[object]]] = {}


def register_step(step: Callable[[], None]) -> None:
    """Call it in each round. Called in ``AppConfig.ready()``."""
    _further_steps.append(step)


def register_job(
    name: str,
    run: Callable[[K], object],
    id_of: Callable[[str], K],
    due: Callable[[], Iterable[K]],
) -> None:
    """A job of an upper room; ``due`` finds the ids that it is due for, in each round."""
    queues.register_job(name, run, id_of)
    _further_jobs[name] = due


class RoundOver(Exception):
    """This sweeper was told to stop, or another one has taken over."""


class Sweeper:
    """Repeats the sweep; holds the state of one process between two sweeps."""

    def __init__(self) -> None:
        self._enqueued_at: dict[tuple[str, str], float] = {}
        # Without Redis no worker gets jobs, so the sweeper runs them itself. Those that wait for
        # others have a thread per queue: a slow receiver delays no commit and no other queue.
        self._calls = Calls(PLACES, "calls without Redis")
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sweeper")
        self._courier_threads = {
            name: ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
            for name in settings.COURIER_QUEUES
        }
        self._in_hand: set[tuple[str, str]] = set()
        self._in_hand_lock = Lock()
        self._enqueuing_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="enqueuing")
        self._enqueuing: Future[None] | None = None
        self._log = keeper.Keeper()
        self._leadership = leadership.Leadership()

    def run(self, stop: Flag) -> None:
        """Sweep until ``stop`` is set; outlives restarts of the database."""
        global _go_on
        _go_on = partial(self._go_on, stop)
        outage = Outage("the sweeper", logger)
        while not stop.is_set():
            began = time.monotonic()
            try:
                if self._leadership.take():
                    self.settle()
                    self._enqueue_in_background()
                outage.is_over()
            except RoundOver as reason:
                logger.warning("a round of sweeping ended early: %s", reason)
            except CONNECTION_LOST as failure:
                outage.goes_on(failure)
                connection.close()
            except Exception:
                logger.exception("a round of sweeping failed")
            stop.wait(max(0.05, settings.SWEEP_EVERY_S - (time.monotonic() - began)))
        self._stop()

    def _stop(self) -> None:
        couriers = self._courier_threads.values()
        for pool in (self._threads, *couriers, self._enqueuing_thread):
            pool.shutdown(wait=False, cancel_futures=True)
        self._calls.stop()
        with suppress(*CONNECTION_LOST):
            self._leadership.give_up()
        self._log.finish()

    def _go_on(self, stop: Flag) -> None:
        if stop.is_set():
            raise RoundOver("it was told to stop")
        try:
            self._leadership.keep()
        except leadership.LeaseLost:
            raise RoundOver("another sweeper has taken over") from None

    def sweep(self) -> None:
        """One round. Each step finds rows; each row is settled in a transaction of its own.

        A step that fails is logged and does not keep the others from running. Raises only when
        the connection to the database is lost.
        """
        self.settle()
        self.enqueue_due()
        self._log.finish()

    def settle(self) -> None:
        """The first half of a round: what the sweeper does itself, in the database alone."""
        steps: list[Callable[[], object]] = [
            set_clocks_going,
            expire_what_is_due,
            renew_terms,
            sign_off_by_policy,
            doubt_lapsed_leases,
            let_go_of_unused_permits,
            *_further_steps,
            retention.erase_due,
            prune_refusals,
            silent_addresses.forget_old,
            count_events,
            self._log.round,
        ]
        for step in steps:
            go_on()
            _guarded(step)

    def enqueue_due(self) -> None:
        """The second half: enqueue the work that is due, or do it here without a queue."""
        _guarded(self._enqueue_work)
        for name in _further_jobs:
            _guarded(partial(self._enqueue_further, name))

    def _enqueue_in_background(self) -> None:
        """Unless the last round's is still at it."""
        if self._enqueuing is None or self._enqueuing.done():
            self._enqueuing = self._enqueuing_thread.submit(self._enqueue_once)

    def _enqueue_once(self) -> None:
        try:
            self.enqueue_due()
        except Exception as failure:
            logger.info("not enqueued in this round: %s", failure)
            connection.close()

    def _enqueue_work(self) -> None:
        rows = Transaction.objects
        self._enqueue_rows(
            "commit", _approved_and_unclaimed(), rows.inquiry_due(), rows.accepted_due()
        )
        self._enqueue_rows("roll_back", Transaction.objects.work_due(State.ROLLING_BACK))
        compensations = Transaction.objects.work_due(State.COMPENSATING)
        self._enqueue_rows("compensate", compensations.filter(not_stopped()))

    def _enqueue_further(self, name: str) -> None:
        self._enqueue_due(name, _further_jobs[name]())

    def _enqueue_rows(self, name: str, *querysets: TransactionQuerySet) -> None:
        """Enqueue rows; those whose tool this process lacks only now and then."""
        columns = ("pk", "tenant", "tool", "tool_version")
        looked_at = LOOKED_AT * BATCH
        rows_due = [row for rows in querysets for row in rows.values_list(*columns)[:looked_at]]
        elsewhere = {
            str(pk)
            for pk, _, tool, version in rows_due
            if version is None and tool not in contracts.tools
        }
        self._enqueue_due(name, _in_turns(rows_due, BATCH), elsewhere)

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
                if enqueue(*job):
                    self._enqueued_at[job] = now
                elif job[1] not in elsewhere:
                    self._run_here(*job)
        self._enqueued_at = {
            job: at for job, at in self._enqueued_at.items() if job[0] != name or job in waiting
        }

    def _run_here(self, name: str, subject: str) -> None:
        """Do it in a thread of this process, unless one is at it or too many wait for one."""
        if name in calls.QUEUES:
            self._calls.begin_each(name, {subject: partial(self._run_job, name, subject)})
            return
        with self._in_hand_lock:
            of_this_name = sum(name == other for other, _ in self._in_hand)
            if (name, subject) in self._in_hand or of_this_name >= MOST_IN_HAND:
                return
            self._in_hand.add((name, subject))
        self._courier_threads.get(name, self._threads).submit(self._run_job, name, subject)

    def _run_job(self, name: str, subject: str) -> None:
        try:
            queues.run(name, subject)
        except Exception:
            logger.exception("%s %s failed in the sweeper", name, subject)
        finally:
            connection.close()
            with self._in_hand_lock:
                self._in_hand.discard((name, subject))


_go_on: Callable[[], None] | None = None


def go_on() -> None:
    """Call it between two rows of a step. Raises ``RoundOver``; outside a sweeper does nothing."""
    if _go_on is not None:
        _go_on()


def set_clocks_going() -> None:
    """Move the deadlines of what a brake has stopped, once it has ended."""
    for brake in Brake.objects.uncounted().ended().order_by("pk"):
        for transaction_id in coordinator.left_behind(brake, BATCH):
            _try(coordinator.set_going, transaction_id)
        if not coordinator.left_behind(brake, 1):
            Brake.objects.ended().filter(pk=brake.pk).update(counted_at=Now())


def expire_what_is_due() -> None:
    for transaction_id in _ids(Transaction.objects.due().order_by("expires_at")):
        _try(coordinator.expire, transaction_id)


def renew_terms() -> None:
    """Judge what nobody has begun by the rules that were activated since."""
    with_rules = Tenant.objects.filter(rule_set__gt=0).values_list("pk", flat=True)
    waiting = Transaction.objects.filter(state__in=[State.PREPARED, State.APPROVED])
    for transaction_id in _ids(waiting.filter(tenant__in=[*with_rules]).judged_by_other_rules()):
        _try(coordinator.renew_terms, transaction_id)


def sign_off_by_policy() -> None:
    """Sign off what a process that died after prepare left without its automatic sign-off."""
    left = Transaction.objects.pending().filter(not_stopped())
    left = left.filter(
        required_approver=RequiredApprover.NONE, created_at__lte=Now() - GRACE, expires_at__gt=Now()
    )
    for wanted in left.values_list("pk", "intent_digest", "terms")[:BATCH]:
        _try(coordinator.approve_by_policy, *wanted)


def doubt_lapsed_leases() -> None:
    for transaction_id in _ids(Transaction.objects.lease_lapsed()):
        _try(execution.doubt_lapsed_lease, transaction_id)


def let_go_of_unused_permits() -> None:
    """Release what its agents were to carry out, and redeemed no permit for in time."""
    waiting = Transaction.objects.awaiting_agents()
    for tenant, name, version in waiting.values_list("tenant", "tool", "tool_version").distinct():
        tool = tool_version(tenant, name, str(version))
        if not isinstance(tool, PermitTool):
            continue
        within = tool.redeem_within
        rows = waiting.filter(tenant=tenant, tool=name, tool_version=version)
        for transaction_id in _ids(rows.filter(decided_at__lte=Now() - within)):
            _try(redemption.let_go, transaction_id, within)


def _approved_and_unclaimed() -> TransactionQuerySet:
    unclaimed = Transaction.objects.for_workers().begun_by_nobody()
    return unclaimed.filter(decided_at__lte=Now() - GRACE).order_by("decided_at")


def _in_turns(rows: Iterable[tuple[UUID, str, str, Any]], most: int) -> list[UUID]:
    """At most so many of them, one of each tool of a tenant in turn: a tool that hangs, for which
    many wait, hides no other."""
    lines: dict[tuple[str, str], list[UUID]] = defaultdict(list)
    for pk, tenant, tool, _ in rows:
        lines[tenant, tool].append(pk)
    turns = chain.from_iterable(zip_longest(*lines.values()))
    return list(islice((pk for pk in turns if pk is not None), most))


def _ids(rows: TransactionQuerySet) -> list[UUID]:
    return list(rows.values_list("pk", flat=True)[:BATCH])


def _try(verb: Callable[..., object], *subject: object) -> None:
    """Call a verb; a refusal means that somebody was faster. Other rows go on after a failure."""
    go_on()
    try:
        verb(*subject)
    except LedgerError as refusal:
        logger.debug("%s: %s", subject[0], refusal)
    except Exception as failure:
        if not connection.is_usable():
            raise
        if is_locked(failure):
            logger.info("%s is locked; the next round tries again", subject[0])
        else:
            logger.exception("sweeping %s failed", subject[0])


def _guarded(step: Callable[[], object]) -> None:
    try:
        step()
    except RoundOver:
        raise
    except Exception:
        if not connection.is_usable():
            raise
        logger.exception("a step of the sweeper failed: %s", step)


def _queue_length(name: str) -> int | None:
    """``None`` while Redis does not answer."""
    try:
        return int(django_rq.get_queue(name).count)
    except RedisError:
        return None
