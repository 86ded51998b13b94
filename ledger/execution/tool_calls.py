"""One call of a tool: its thread, its deadline, and what its answer proves."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connections

from ledger.contracts import NothingHappened
from ledger.contracts.results import clean
from ledger.errors import InvalidArguments
from ledger.execution import crash_points
from ledger.transactions.leases import Lease

logger = logging.getLogger(__name__)

__all__ = ["Done", "Lease", "NotCalled", "Nothing", "Outcome", "Unknown", "act"]


@dataclass(frozen=True, slots=True)
class Done:
    """The tool answered."""

    value: Any


@dataclass(frozen=True, slots=True)
class Unknown:
    """The tool did not answer, or with something that proves nothing.

    ``why`` may be read by everybody; ``detail`` is for operators, it may hold secrets.
    """

    why: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Nothing:
    """The tool knows that nothing took hold."""

    why: str


@dataclass(frozen=True, slots=True)
class NotCalled:
    """This worker surely did not call the tool. Of workers before it that says nothing."""

    why: str
    may_be_called_again: bool = False


Outcome = Done | Unknown | Nothing | NotCalled

STOOD_STILL = "The worker stood still until its lease had run out; it did not call the tool."


def act(lease: Lease, role: str, hear_late: Callable[[Lease, Outcome], None]) -> Outcome:
    """Call the tool in a thread of its own, renewing the lease, for as long as it may take.

    A thread cannot be stopped. One that answers after its time is still heard, and so is one whose
    worker was interrupted while it waited.
    """
    if lease.tool is None:
        return Unknown(f"No tool named {lease.row.tool} is deployed here.")
    call = _Call(lease, role, hear_late)
    thread = threading.Thread(target=call.make, name=f"{role} {lease.row.short_id}", daemon=True)
    timeout = lease.tool.contract.timeout
    try:
        thread.start()
        _wait_for(call, timeout.total_seconds())
    except BaseException:
        call.abandon()
        raise
    return call.outcome_or_abandon(f"No answer within {timeout}.")


def _wait_for(call: _Call, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if call.finished.wait(min(left, settings.LEASE_S / 3)):
            return
        call.lease.renew()


class _Call:
    """One call of a tool. Either the worker takes its outcome, or the call records it late."""

    def __init__(
        self, lease: Lease, role: str, hear_late: Callable[[Lease, Outcome], None]
    ) -> None:
        self.lease = lease
        self.role = role
        self.hear_late = hear_late
        self.finished = threading.Event()
        self._lock = threading.Lock()
        self._outcome: Outcome | None = None
        self._is_abandoned = False

    def make(self) -> None:
        try:
            outcome = _call_tool(self.lease, self.role)
            with self._lock:
                self._outcome = outcome
                is_late = self._is_abandoned
            self.finished.set()
            if is_late:
                self._record_late(outcome)
        finally:
            connections.close_all()

    def outcome_or_abandon(self, why: str) -> Outcome:
        with self._lock:
            self._is_abandoned = self._outcome is None
            return self._outcome or Unknown(why)

    def abandon(self) -> None:
        """Nobody waits any more. What has been answered meanwhile is recorded here and now."""
        with self._lock:
            self._is_abandoned = self._outcome is None
            outcome = self._outcome
        if outcome is not None:
            self._record_late(outcome)

    def _record_late(self, outcome: Outcome) -> None:
        if self.role == "execute" and not isinstance(outcome, Unknown):
            self.hear_late(self.lease, outcome)


def _call_tool(lease: Lease, role: str) -> Outcome:
    tool = lease.tool
    assert tool is not None
    crash_points.reach(f"before {role}")
    try:
        arguments = tool.validate(lease.row.arguments)
    except InvalidArguments as refusal:
        return NotCalled(f"{tool.name} takes other arguments by now. {refusal.detail}")
    # An inquiry has no lease and changes nothing.
    if role != "find_receipt" and not lease.is_good():
        return NotCalled(STOOD_STILL, may_be_called_again=True)
    try:
        value = tool.run(role, arguments, lease.context())
    except NothingHappened as refusal:
        return Nothing(clean(str(refusal)))
    except Exception as failure:
        return _unknown(lease, role, failure)
    crash_points.reach(f"after {role}")
    return Done(value)


def _unknown(lease: Lease, role: str, failure: Exception) -> Unknown:
    """Agents and channels get a name and a number; the text may hold secrets of the provider."""
    error_id = secrets.token_hex(4)
    logger.warning("%s of %s raised, error %s", role, lease.row.pk, error_id, exc_info=True)
    kind = clean(type(failure).__name__, most=100)
    return Unknown(f"{kind} (error {error_id})", clean(f"{kind}: {failure}"))
