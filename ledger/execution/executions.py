"""Executions that one process has at work: claimed, called, renewed and recorded many at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock
from uuid import UUID

from django.db import DatabaseError, connection

from ledger.execution.claims import claim_all
from ledger.execution.leases import Lease, clock, renew_all, until_renewal
from ledger.execution.recording import record, record_all, record_failure
from ledger.execution.tool_calls import QUICK_S, Call, Outcome, give_session_back, threads
from ledger.foundation.lanes import Lane
from ledger.transactions import why_not_to_act

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25  # for calls that take too long
MOST_TOGETHER = 100


class Executions:
    """Each has its own lease and a thread for its call; one thread waits for all of them.

    That thread waits for no row that somebody else has locked. What cannot be recorded together
    with others, each records in its own thread.
    """

    def __init__(self, on_end: Callable[[Sequence[UUID]], None]) -> None:
        """``on_end`` is called for transactions with which this process has done what it can."""
        self._on_end = on_end
        self._returned: SimpleQueue[Call] = SimpleQueue()
        self._lane = Lane("executions", 1, daemon=True)
        self._lock = Lock()
        self._calls: set[Call] = set()
        self._is_waited_for = False

    def begin(self, transaction_ids: Sequence[UUID]) -> list[UUID]:
        """Claim approved transactions and call their tools. Returns those that it did not claim.

        Raises ``DatabaseError``.
        """
        if not transaction_ids:
            return []
        leases = claim_all(transaction_ids)
        for lease in leases:
            self._call(lease)
        begun = {lease.row.pk for lease in leases}
        return [each for each in transaction_ids if each not in begun]

    def _call(self, lease: Lease) -> None:
        tool = lease.tool
        why = "" if tool is None else why_not_to_act(lease.row, lease.links)
        if tool is None or why:
            threads.start("", self._finish, lease, lambda: record_failure(lease, why))
            return
        call = Call(lease, tool, "execute", self._returned.put, on_late_result=record)
        with self._lock:
            self._calls.add(call)
            is_waited_for, self._is_waited_for = self._is_waited_for, True
        call.start()
        if not is_waited_for:
            self._lane.start("", self._wait)

    # --- the thread that waits for the calls -----------------------------------------------------

    def _wait(self) -> None:
        renews_at = clock() + until_renewal()
        while self._has_more():
            try:
                self._end([*self._returns(), *self._overdue()])
                if clock() >= renews_at:
                    renews_at = clock() + until_renewal()
                    self._renew()
            except Exception:
                logger.exception("waiting for calls failed; it goes on")

    def _has_more(self) -> bool:
        with self._lock:
            self._is_waited_for = bool(self._calls)
            return self._is_waited_for

    def _returns(self) -> list[Call]:
        """The calls that have returned by now, or that return within ``LOOK_EVERY_S``."""
        returned: list[Call] = []
        for patience in (QUICK_S, LOOK_EVERY_S):
            with suppress(Empty):
                returned.append(self._returned.get(timeout=patience))
                while len(returned) < MOST_TOGETHER:
                    returned.append(self._returned.get_nowait())
            if returned:
                break
            give_session_back()
        return returned

    def _overdue(self) -> list[Call]:
        with self._lock:
            return [call for call in self._calls if call.seconds_left() <= 0]

    def _end(self, calls: Sequence[Call]) -> None:
        with self._lock:
            ended = self._calls.intersection(calls)
            self._calls -= ended
        outcomes = {call.lease.row.pk: (call.lease, call.end()) for call in ended}
        recorded = _recorded(outcomes)
        for transaction_id, (lease, outcome) in outcomes.items():
            if transaction_id not in recorded:
                threads.start("", self._finish, lease, partial(record, lease, outcome))
        self._on_end([*recorded])

    def _renew(self) -> None:
        with self._lock:
            leases = [call.lease for call in self._calls]
        try:
            renew_all(leases)
        except DatabaseError as failure:
            logger.warning("%d leases could not be renewed: %s", len(leases), failure)
            connection.close()

    # --- the others, each in a thread of its own -------------------------------------------------

    def _finish(self, lease: Lease, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception:
            logger.exception("the outcome of %s was not recorded", lease.row.pk)
        finally:
            self._on_end([lease.row.pk])


def _recorded(outcomes: Mapping[UUID, tuple[Lease, Outcome]]) -> set[UUID]:
    try:
        return record_all(outcomes)
    except Exception as failure:
        logger.info("%d at once failed, each goes on alone: %s", len(outcomes), failure)
        connection.close()
        return set()
