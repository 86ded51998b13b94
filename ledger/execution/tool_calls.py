"""One call of a tool: its thread, its deadline, and what its result proves."""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection

from ledger.contracts import (
    MayHaveHappened,
    NotDoneYet,
    NothingHappened,
    NothingHappenedYet,
    Role,
    Tool,
)
from ledger.contracts.results import clean
from ledger.errors import InvalidArguments
from ledger.execution import crash_points
from ledger.execution.leases import Lease, until_renewal
from ledger.foundation.lanes import Lane
from ledger.foundation.telemetry import log_context, tracing
from ledger.foundation.telemetry.counters import Timed
from ledger.states import Reasons
from ledger.tools import silent_addresses
from ledger.tools.silent_addresses import is_silence

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Done:
    """The tool returned a value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Unknown:
    """The tool did not return in time, or raised an exception that proves nothing.

    ``why`` may be read by everybody; ``detail`` is for operators, it may hold secrets.
    ``is_silence`` if nobody answered in time.
    """

    why: str
    detail: str = ""
    is_silence: bool = False


@dataclass(frozen=True, slots=True)
class Nothing:
    """The tool raised ``NothingHappened``: it had no effect."""

    why: str


@dataclass(frozen=True, slots=True)
class NotCalled:
    """This call had no effect, or was not made. One of an earlier worker may have had."""

    why: str
    may_be_called_again: bool = False
    is_silence: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """The tool will do it, or does it now: ask for it again after so long."""

    after: timedelta
    why: str = "It was accepted, and is not done yet."


Outcome = Done | Unknown | Nothing | NotCalled | Accepted
_WORDS: dict[type[Outcome], str] = {
    Done: "done",
    Unknown: "unknown",
    Nothing: "nothing",
    NotCalled: "not_called",
    Accepted: "accepted",
}
OnLateResult = Callable[[Lease, Outcome], None]

# A thread for each call that is at work, whoever waits for it.
threads = Lane("tool-calls", math.inf, daemon=True)
QUICK_S = 0.05  # an answer within it costs no session
_calls = Timed("assent_call_seconds", "Calls of tools.", "tool", "role", "outcome")
LEASE_RAN_OUT = "The worker stood still until its lease had run out; it did not call the tool."


def call_tool(lease: Lease, role: Role, *, on_late_result: OnLateResult | None = None) -> Outcome:
    """Call the tool in a thread of its own, renewing the lease, up to the contract's timeout.

    Python threads cannot be stopped. If the tool returns after the timeout, or after this worker
    was interrupted while waiting, ``on_late_result`` is called with a result that proves something.
    """
    if lease.tool is None:
        return Unknown(Reasons.NO_TOOL(tool=lease.row.tool))
    finished = threading.Event()
    call = ToolCall(lease, lease.tool, role, lambda _: finished.set(), on_late_result)
    try:
        call.start()
        _wait_for(call, finished)
    except BaseException:
        call.abandon()
        raise
    return call.end()


def _wait_for(call: ToolCall, finished: threading.Event) -> None:
    if finished.wait(min(call.seconds_left(), QUICK_S)):
        return
    give_session_back()
    while (left := call.seconds_left()) > 0:
        if finished.wait(min(left, until_renewal())):
            return
        call.lease.renew()
        give_session_back()


def give_session_back() -> None:
    """Other calls of this process use it meanwhile."""
    if not connection.in_atomic_block:
        connection.close()


class ToolCall:
    """One call of a tool, in a thread of its own.

    Either its outcome is taken with ``end``, or it is a late result. ``on_return`` is called in
    the thread once there is an outcome.
    """

    def __init__(
        self,
        lease: Lease,
        tool: Tool[Any, Any],
        role: Role,
        on_return: Callable[[ToolCall], object],
        on_late_result: OnLateResult | None = None,
    ) -> None:
        self.lease, self.tool, self.role = lease, tool, role
        self._on_return, self._on_late_result = on_return, on_late_result
        self._begun_at = time.monotonic()
        self._given_up_at = self._begun_at + tool.contract.call_timeout.total_seconds()
        self._lock = threading.Lock()
        self._outcome: Outcome | None = None
        self._is_abandoned = False

    def start(self) -> None:
        threads.start("", self._make)

    def seconds_left(self) -> float:
        """Until it is given up."""
        return self._given_up_at - time.monotonic()

    def _make(self) -> None:
        row = self.lease.row
        with log_context.about(
            transaction=row.pk, tenant=row.tenant, principal=row.proposed_by, trace_id=row.trace_id
        ):
            self._make_told()

    def _make_told(self) -> None:
        outcome = self._traced_outcome()
        with self._lock:
            self._outcome = outcome
            is_late = self._is_abandoned
        if is_late:
            self._report_late(outcome)
        else:
            self._on_return(self)

    def _traced_outcome(self) -> Outcome:
        """It is within the trace in which the agent proposed it."""
        row = self.lease.row
        attributes = {
            "assent.transaction": row.pk,
            "assent.tenant": row.tenant,
            "assent.tool": row.tool,
            "assent.attempt": row.attempts,
        }
        name = f"{self.role} {row.tool}"
        with tracing.span(name, attributes, within=row.traceparent) as span:
            outcome = _outcome_of(self.lease, self.tool, self.role)
            span.set_attribute("assent.outcome", _word_for(outcome))
            if isinstance(outcome, Unknown):
                tracing.failed(span)
        return outcome

    def end(self) -> Outcome:
        """The outcome; without one yet, the call is given up."""
        why = f"No answer within {self.tool.contract.call_timeout}."
        with self._lock:
            self._is_abandoned = self._outcome is None
            outcome = self._outcome or Unknown(why, is_silence=True)
        self._note(outcome)
        seconds = time.monotonic() - self._begun_at
        _calls.took(seconds, self.tool.name, str(self.role), _word_for(outcome))
        return outcome

    def _note(self, outcome: Outcome) -> None:
        address = silent_addresses.address_of(self.lease.row.tenant, self.tool, self.role)
        match outcome:
            case Unknown(is_silence=True) | NotCalled(is_silence=True):
                silent_addresses.note(address, is_silence=True)
            case Done() | Unknown() | Nothing() | Accepted():
                silent_addresses.note(address, is_silence=False)

    def abandon(self) -> None:
        """Stop waiting. An outcome that has come meanwhile is reported from here."""
        with self._lock:
            self._is_abandoned = self._outcome is None
            outcome = self._outcome
        if outcome is not None:
            self._report_late(outcome)

    def _report_late(self, outcome: Outcome) -> None:
        if self._on_late_result is not None and not isinstance(outcome, Unknown):
            self._on_late_result(self.lease, outcome)


def _outcome_of(lease: Lease, tool: Tool[Any, Any], role: Role) -> Outcome:
    crash_points.reach(f"before {role}")
    try:
        arguments = tool.validate(lease.row.arguments)
    except InvalidArguments as refusal:
        return NotCalled(f"The arguments of {tool.name} have changed since. {refusal.detail}")
    # An inquiry has no lease and changes nothing.
    is_leased = role != "find_receipt"
    if is_leased and not lease.is_good():
        return NotCalled(LEASE_RAN_OUT, may_be_called_again=True)
    try:
        value = tool.run(role, arguments, lease.context(is_leased=is_leased))
    except NothingHappenedYet as refusal:
        return NotCalled(clean(str(refusal)), True, is_silence(refusal))
    except NothingHappened as refusal:
        return Nothing(clean(str(refusal)))
    except MayHaveHappened as answer:
        if isinstance(answer, NotDoneYet) and _can_be_asked_for(tool, role):
            return Accepted(answer.after)
        text = clean(str(answer))
        return Unknown(Reasons.TOOL_SAID(text=text), text, is_silence(answer))
    except Exception as failure:
        return _unknown(lease, role, failure)
    crash_points.reach(f"after {role}")
    return Done(value)


def _word_for(outcome: Outcome) -> str:
    """``done``, ``unknown``, ``nothing``, ``not_called`` or ``accepted``."""
    return _WORDS[type(outcome)]


def _can_be_asked_for(tool: Tool[Any, Any], role: Role) -> bool:
    return role in {"execute", "find_receipt"} and tool.has("find_receipt")


def _unknown(lease: Lease, role: Role, failure: Exception) -> Unknown:
    """Agents and channels get the exception's name and a number: its text may hold secrets."""
    error_id = secrets.token_hex(4)
    logger.warning("%s of %s raised, error %s", role, lease.row.pk, error_id, exc_info=True)
    kind = clean(type(failure).__name__, most=100)
    return Unknown(
        Reasons.TOOL_RAISED(kind=kind, number=f"error {error_id}"),
        clean(f"{kind}: {failure}"),
        is_silence(failure),
    )
