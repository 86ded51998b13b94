"""Plans of tools run in a lane of their own: so many at once, and each for so long.

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
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock, Thread
from typing import TypeVar

from django.conf import settings
from django.db import connection

from ledger import limits
from ledger.errors import InProgress, PlansBusy, PlanTimedOut
from ledger.foundation.lanes import Job, Lane
from ledger.foundation.postgres import sessions
from ledger.limits import Limit, Of
from ledger.principals import Principal

logger = logging.getLogger(__name__)

R = TypeVar("R")

QUICK_S = 0.05  # a plan within it costs no session
# A provider that hangs takes half of the threads at most.
_lane = Lane(
    "plans",
    settings.PLAN_THREADS,
    most_of_one=(settings.PLAN_THREADS + 1) // 2,
    most_waiting=0,
    refusal=PlansBusy,
)
_lock = Lock()
_running: Counter[tuple[Of, str]] = Counter()
_late: set[tuple[str, str]] = set()  # operations whose plan was answered for, and still runs


@dataclass(frozen=True, slots=True)
class Place:
    """Owner and operation of a plan; an empty operation key excludes nobody."""

    by: Principal
    tenant: str
    tool: str
    operation_key: str

    @property
    def counted_as(self) -> list[tuple[Of, str]]:
        return [(Of.AGENT, str(self.by)), (Of.TENANT, self.tenant)]

    @property
    def operation(self) -> tuple[str, str]:
        return self.tenant, self.operation_key or f"{id(self)}"


def run(
    plan: Callable[[], R], place: Place, timeout: timedelta, when_late: Callable[[Future[R]], None]
) -> R:
    """Return or raise what ``plan`` does. ``when_late`` gets what it does after the time-out.

    Raises ``LimitReached, PlansBusy, PlanTimedOut``, and ``InProgress`` while an earlier plan of
    the operation is late.
    """
    if connection.in_atomic_block:
        return plan()  # another thread would not see what this database transaction wrote
    running = _begin(plan, place)
    running.add_done_callback(lambda _: _give_back(place))
    if not wait([running], QUICK_S).done:
        connection.close()  # another thread uses the session meanwhile
    try:
        return running.result(timeout.total_seconds())
    except TimeoutError:
        if running.done():  # just now, or the plan raised this itself
            return running.result()
        with _lock:
            _late.add(place.operation)
        running.add_done_callback(lambda late: _end_late_apart(place, late, when_late))
        raise PlanTimedOut(
            f"{place.tool} did not plan within {timeout.total_seconds():g} seconds."
        ) from None


def _begin(plan: Callable[[], R], place: Place) -> Job[R]:
    """Raises ``InProgress, LimitReached, PlansBusy``."""
    with _lock:
        if place.operation in _late:
            raise InProgress("An earlier plan of this operation has not returned yet.")
        for of, key in place.counted_as:
            number = _running[of, key]
            refusal = limits.too_many(Limit.PLANS, of, place.tenant, place.by.slug, number)
            if refusal is not None:
                raise refusal
        running = _lane.start(place.tool, plan)
        _running.update(place.counted_as)
    return running


def _give_back(place: Place) -> None:
    with _lock:
        for key in place.counted_as:
            _running[key] -= 1
            if not _running[key]:
                del _running[key]


def _end_late_apart(place: Place, late: Future[R], when_late: Callable[[Future[R]], None]) -> None:
    try:
        Thread(target=_end_late, args=[place, late, when_late]).start()
    except RuntimeError:  # the process may have no more threads
        _end_late(place, late, when_late)


def _end_late(place: Place, late: Future[R], when_late: Callable[[Future[R]], None]) -> None:
    """In a thread of its own, once the plan has returned: the release may wait for a lock."""
    logger.warning("a plan of %s came back after its time-out", place.tool)
    try:
        when_late(late)
    except Exception:
        logger.exception("what a late plan of %s held is not released", place.tool)
    finally:
        with _lock:
            _late.discard(place.operation)
        sessions.end()
