"""One call of a tool: its lease, its thread, and what its answer proves."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.models import Q
from django.db.models.functions import Now

from ledger import crash_points, states
from ledger.contracts import Context, NothingHappened, Tool, tools
from ledger.models import Transaction
from ledger.results import clean

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lease:
    """One worker's claim on one transaction, good while the row has this fencing token."""

    row: Transaction
    fencing_token: int

    @property
    def holds(self) -> Q:
        return Q(fencing_token=self.fencing_token)

    @property
    def tool(self) -> Tool[Any, Any] | None:
        return tools.get(self.row.tool)

    def context(self) -> Context:
        row = self.row
        return Context(
            transaction_id=row.pk,
            tenant=row.tenant,
            operation_key=row.operation_key,
            timeout=self.tool.contract.timeout if self.tool else timedelta(seconds=30),
            held=row.held,
            receipt=row.receipt,
            result=row.result or {},
            # Every claim raises it, so a first attempt is surely the first.
            attempt=row.fencing_token,
        )


@dataclass(frozen=True, slots=True)
class Done:
    """The tool answered."""

    value: Any


@dataclass(frozen=True, slots=True)
class Unknown:
    """The tool did not answer, or with something that proves nothing."""

    why: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """The tool knows that nothing took hold."""

    why: str


Outcome = Done | Unknown | Nothing


def act(lease: Lease, role: str, hear_late: Callable[[Lease, Outcome], None]) -> Outcome:
    """Call the tool in a thread of its own, renewing the lease, for as long as it may take.

    A thread cannot be stopped. One that answers after its time is still heard.
    """
    if lease.tool is None:
        return Unknown(f"No tool named {lease.row.tool} is deployed here.")
    call = _Call(lease, role, hear_late)
    thread = threading.Thread(target=call.make, name=f"{role} {lease.row.short_id}", daemon=True)
    thread.start()
    deadline = time.monotonic() + lease.tool.contract.timeout.total_seconds()
    while (left := deadline - time.monotonic()) > 0:
        if call.finished.wait(min(left, settings.LEASE_S / 3)):
            break
        _renew(lease)
    return call.outcome_or_abandon(f"No answer within {lease.tool.contract.timeout}.")


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
            if is_late and self.role == "execute" and not isinstance(outcome, Unknown):
                self.hear_late(self.lease, outcome)
        finally:
            connections.close_all()

    def outcome_or_abandon(self, why: str) -> Outcome:
        with self._lock:
            self._is_abandoned = self._outcome is None
            return self._outcome or Unknown(why)


def _call_tool(lease: Lease, role: str) -> Outcome:
    tool = lease.tool
    assert tool is not None
    crash_points.reach(f"before {role}")
    try:
        arguments = tool.validate(lease.row.arguments)
        value = tool.run(role, arguments, lease.context())
    except NothingHappened as refusal:
        return Nothing(clean(str(refusal)))
    except Exception as failure:
        logger.info("%s of %s raised", role, lease.row.pk, exc_info=True)
        return Unknown(clean(f"{type(failure).__name__}: {failure}"))
    crash_points.reach(f"after {role}")
    return Done(value)


def _renew(lease: Lease) -> None:
    Transaction.objects.filter(lease.holds, pk=lease.row.pk, state__in=states.AT_WORK).update(
        lease_expires_at=Now() + timedelta(seconds=settings.LEASE_S)
    )
