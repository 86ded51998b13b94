"""Plans of tools run in threads of their own: so many at once, and each for so long.

A plan calls a provider, who may be slow or hang. It holds neither a thread of the pages nor a
place of another agent: an agent, a tenant and a tool have so many at once, and who would have one
more is refused at once. A plan that exceeds its contract's time-out is answered for; what it
returns later is released (``when_late``), and until then it keeps its place. Another process may
plan the same operation meanwhile; the release waits for it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from typing import TypeVar

from django.conf import settings
from django.db import connection

from ledger.database import sessions
from ledger.errors import InProgress, PlansBusy, PlanTimedOut
from ledger.limits import rates
from ledger.limits.terms import Limit, Of
from ledger.principals import Principal

logger = logging.getLogger(__name__)

R = TypeVar("R")

_pool = ThreadPoolExecutor(settings.PLAN_THREADS, thread_name_prefix="plans")
_lock = Lock()
_running: Counter[tuple[str, str]] = Counter()
_late: set[tuple[str, str]] = set()  # operations whose plan was answered for, and still runs


@dataclass(frozen=True, slots=True)
class Place:
    """Whose plan it is, and of which operation; an empty operation key excludes nobody."""

    by: Principal
    tenant: str
    tool: str
    operation_key: str

    @property
    def counted_as(self) -> list[tuple[str, str]]:
        return [
            ("all", ""),
            ("agent", str(self.by)),
            ("tenant", self.tenant),
            ("tool", self.tool),
        ]

    @property
    def operation(self) -> tuple[str, str]:
        return self.tenant, self.operation_key or f"{id(self)}"


def run(
    plan: Callable[[], R], place: Place, timeout: timedelta, when_late: Callable[[Future[R]], None]
) -> R:
    """What ``plan`` returns, or raises. ``when_late`` gets what it does after the time-out.

    Raises ``LimitReached, PlansBusy, PlanTimedOut``, and ``InProgress`` while an earlier plan of
    the operation is late.
    """
    if connection.in_atomic_block:
        return plan()  # another thread would not see what this database transaction wrote
    _take(place)
    future = _pool.submit(_run, plan)
    future.add_done_callback(lambda _: _give_back(place))
    try:
        return future.result(timeout.total_seconds())
    except TimeoutError:
        if future.done():  # just now, or the plan raised this itself
            return future.result()
        with _lock:
            _late.add(place.operation)
        future.add_done_callback(lambda late: _end_late(place, late, when_late))
        raise PlanTimedOut(
            f"{place.tool} did not plan within {timeout.total_seconds():g} seconds."
        ) from None


def _run(plan: Callable[[], R]) -> R:
    try:
        return plan()
    finally:
        connection.close()


def _take(place: Place) -> None:
    """Raises ``InProgress, LimitReached, PlansBusy``."""
    with _lock:
        if place.operation in _late:
            raise InProgress("An earlier plan of this operation has not returned yet.")
        for of, counted in ((Of.AGENT, "agent"), (Of.TENANT, "tenant")):
            key = str(place.by) if of is Of.AGENT else place.tenant
            number = _running[counted, key]
            refusal = rates.too_many(Limit.PLANS, of, place.tenant, place.by.slug, number)
            if refusal is not None:
                raise refusal
        # A provider that hangs takes half of the threads at most.
        of_tool = _running["tool", place.tool]
        if _running["all", ""] >= settings.PLAN_THREADS or of_tool * 2 >= settings.PLAN_THREADS:
            raise PlansBusy()
        _running.update(place.counted_as)


def _give_back(place: Place) -> None:
    with _lock:
        for key in place.counted_as:
            _running[key] -= 1
            if not _running[key]:
                del _running[key]


def _end_late(place: Place, late: Future[R], when_late: Callable[[Future[R]], None]) -> None:
    """In the thread of the plan, once it has returned."""
    logger.warning("a plan of %s came back after its time-out", place.tool)
    try:
        when_late(late)
    except Exception:
        logger.exception("what a late plan of %s held is not released", place.tool)
    finally:
        with _lock:
            _late.discard(place.operation)
        sessions.end()
