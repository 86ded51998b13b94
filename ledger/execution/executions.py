"""Executions that one process has at work: claimed, called, renewed and recorded many at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, Queue
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from ledger.execution.claims import claim_all
from ledger.execution.leases import Lease, clock, renew_all, until_renewal
from ledger.execution.recording import commit_of, record, record_all
from ledger.execution.tool_calls import (
    QUICK_S,
    Nothing,
    Outcome,
    ToolCall,
    Unknown,
    give_session_back,
    threads,
)
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.states import Reasons
from ledger.transactions import why_not_to_begin
from ledger.transactions.transitions import OneMove

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25  # for calls that take too long
RENEW_AGAIN_S = 1.0  # after the database was away
MOST_TOGETHER = 100


class _Returned(NamedTuple):
    lease: Lease
    outcome: Outcome
    commit: OneMove


class Executions:
    """Each has its own lease, and a thread for its call.

    One thread records what came back with a receipt, another one renews the leases and gives up
    calls that take too long; neither runs code of tools, nor waits for a row that somebody else has
    locked. Whatever else there is to record, the thread of the call does.
    """

    def __init__(self, on_end: Callable[[Sequence[UUID]], None]) -> None:
        """``on_end`` is called for transactions with which this process has done what it can."""
        self._on_end = on_end
        self._returned: Queue[_Returned] = Queue()
        self._lock = threading.Lock()
        self._calls: dict[UUID, ToolCall] = {}
        self._has_calls = threading.Event()
        self._is_served = False

    def begin(self, transaction_ids: Sequence[UUID]) -> set[UUID]:
        """Claim approved transactions and call their tools. Returns those that it claimed.

        Raises ``DatabaseError`` if it claimed none, or does not know.
        """
        if not transaction_ids:
            return set()
        self._start_threads()
        leases = claim_all(transaction_ids)
        for lease in leases:
            try:
                self._call(lease)
            except Exception:
                logger.exception("%s was claimed and cannot be called", lease.row.pk)
                self._taken(lease.row.pk)
                self._on_end([lease.row.pk])
        return {lease.row.pk for lease in leases}

    def _start_threads(self) -> None:
        with self._lock:
            if not self._is_served:
                for work in (self._record_returned, self._watch):
                    threading.Thread(target=_for_ever, args=[work], daemon=True).start()
                self._is_served = True

    def _call(self, lease: Lease) -> None:
        tool = lease.tool
        if tool is None:
            no_tool = Unknown(Reasons.NO_TOOL(tool=lease.row.tool))
            threads.start("", self._record_alone, lease, no_tool)
        elif why := why_not_to_begin(lease.row, lease.links):
            threads.start("", self._record_alone, lease, Nothing(why))
        else:
            call = ToolCall(lease, tool, "execute", self._came_back, on_late_result=record)
            with self._lock:
                self._calls[lease.row.pk] = call
                self._has_calls.set()
            call.start()

    def _taken(self, transaction_id: UUID) -> ToolCall | None:
        """The call, for the one who ends it; ``None`` if another one does."""
        with self._lock:
            call = self._calls.pop(transaction_id, None)
            if not self._calls:
                self._has_calls.clear()
            return call

    # --- in the thread of a call -----------------------------------------------------------------

    def _came_back(self, call: ToolCall) -> None:
        if self._taken(call.lease.row.pk) is not None:
            self._end(call)

    def _end(self, call: ToolCall) -> None:
        outcome, commit = call.end(), None
        with suppress(Exception):  # which is raised once more where it is recorded alone
            commit = commit_of(call.lease, outcome)
        if commit is None:
            self._record_alone(call.lease, outcome)
        else:
            self._returned.put(_Returned(call.lease, outcome, commit))

    def _record_alone(self, lease: Lease, outcome: Outcome) -> None:
        try:
            record(lease, outcome)
        except Exception:
            logger.exception("the outcome of %s was not recorded", lease.row.pk)
        finally:
            self._on_end([lease.row.pk])

    # --- in a thread each ------------------------------------------------------------------------

    def _record_returned(self) -> None:
        returned = {each.lease.row.pk: each for each in self._next_returned()}
        recorded = _recorded({pk: each.commit for pk, each in returned.items()})
        self._on_end([*recorded])
        for pk in returned.keys() - recorded:
            _in_thread(partial(self._record_alone, returned[pk].lease, returned[pk].outcome))

    def _next_returned(self) -> list[_Returned]:
        """Those that have come back by now. A wait for the next one costs no session."""
        returned: list[_Returned] = []
        with suppress(Empty):
            returned.append(self._returned.get(timeout=QUICK_S))
        if not returned:
            give_session_back()
            returned.append(self._returned.get())
        with suppress(Empty):
            while len(returned) < MOST_TOGETHER:
                returned.append(self._returned.get_nowait())
        return returned

    def _watch(self) -> None:
        self._has_calls.wait()
        renews_at = clock() + until_renewal()
        while self._has_calls.is_set():
            time.sleep(LOOK_EVERY_S)
            self._give_up_overdue()
            if clock() >= renews_at:
                renews_at = clock() + (until_renewal() if self._renew() else RENEW_AGAIN_S)

    def _give_up_overdue(self) -> None:
        with self._lock:
            overdue = [pk for pk, call in self._calls.items() if call.seconds_left() <= 0]
        for pk in overdue:
            if call := self._taken(pk):
                _in_thread(partial(self._end, call))

    def _renew(self) -> bool:
        """``False`` if the database is away."""
        with self._lock:
            leases = [call.lease for call in self._calls.values()]
        try:
            renew_all(leases)
        except CONNECTION_LOST as failure:
            logger.warning("%d leases could not be renewed: %s", len(leases), failure)
            return False
        finally:
            connection.close()
        return True


def _recorded(commits: Mapping[UUID, OneMove]) -> set[UUID]:
    try:
        return record_all([*commits.values()])
    except Exception as failure:
        logger.info("%d at once failed, each goes on alone: %s", len(commits), failure)
        connection.close()
        return set()


def _in_thread(work: Callable[[], None]) -> None:
    """Done at once if the system has no thread left."""
    try:
        threads.start("", work)
    except RuntimeError:
        logger.exception("there is no thread for it")
        work()


def _for_ever(work: Callable[[], None]) -> None:
    while True:
        try:
            work()
        except Exception:
            logger.exception("executions go on after a failure")
