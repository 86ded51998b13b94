"""Roll back what a transaction held, or compensate what it did: repeated until it succeeds."""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from ledger import states
from ledger.contracts.results import clean
from ledger.execution.leases import Lease, clock, new_lease
from ledger.execution.recording import through_outages, try_advance
from ledger.execution.tool_calls import (
    Accepted,
    Done,
    NotCalled,
    Nothing,
    Outcome,
    Unknown,
    call_tool,
)
from ledger.foundation.backoff import Backoff
from ledger.models import Ending, Transaction, may_begin
from ledger.states import State
from ledger.transactions import why_not_to_act
from ledger.transactions.transitions import ALWAYS, RELEASED

logger = logging.getLogger(__name__)

ROLLBACK_BACKOFF = Backoff(first=timedelta(seconds=1), longest=timedelta(minutes=5))


def roll_back(transaction_id: UUID) -> None:
    """Release what ``plan`` held; put off if that fails."""
    lease = _claim_work(transaction_id, State.ROLLING_BACK)
    if lease is None:
        return
    outcome = _call_rollback(lease)
    if not isinstance(outcome, Done):
        _put_off(lease, outcome)
        return
    move = states.SETTLE if lease.row.ending == Ending.FAILED else states.ABORT
    settle = partial(
        try_advance, lease.row.pk, move, only_if=lease.holds, work=RELEASED, ended_at=Now()
    )
    through_outages(settle, lease)


def _call_rollback(lease: Lease) -> Outcome:
    if why := why_not_to_act(lease.row):
        return Unknown(why)
    if lease.tool is not None and not lease.tool.has("rollback"):
        return Done(None)
    return call_tool(lease, "rollback")


def compensate(transaction_id: UUID) -> None:
    """Make up for the effect of a committed transaction; put off if that fails."""
    lease = _claim_work(transaction_id, State.COMPENSATING, may_begin())
    if lease is None:
        return
    why = why_not_to_act(lease.row)
    outcome = Unknown(why) if why else call_tool(lease, "compensate")
    if not isinstance(outcome, Done):
        _put_off(lease, outcome)
        return
    receipt = clean(str(outcome.value or ""))[:500]
    finish = partial(
        try_advance,
        lease.row.pk,
        states.FINISH_COMPENSATION,
        only_if=lease.holds,
        details={"receipt": receipt},
        work=RELEASED,
        compensation_receipt=receipt,
        error="",
        error_detail="",
        ended_at=Now(),
    )
    through_outages(finish, lease, receipt)


def _claim_work(transaction_id: UUID, state: State, only_if: Q = ALWAYS) -> Lease | None:
    """Lease a transaction whose work may be repeated; its state stays the same."""
    began = clock()
    due = Transaction.objects.deployed_here().work_due(state).filter(only_if, pk=transaction_id)
    if not due.update(**new_lease().values()):
        return None
    row = Transaction.objects.get(pk=transaction_id)
    return Lease(row, row.fencing_token, began)


def _put_off(lease: Lease, outcome: Unknown | Nothing | NotCalled | Accepted) -> None:
    """Try again after the back-off; from the third attempt on the desk shows it as stuck."""
    logger.warning("%s of %s did not succeed: %s", lease.row.state, lease.row.pk, outcome.why)
    Transaction.objects.filter(lease.holds, pk=lease.row.pk).update(
        lease_expires_at=None,
        next_attempt_at=Now() + ROLLBACK_BACKOFF.wait(lease.row.attempts),
        error=outcome.why,
        error_detail=outcome.detail if isinstance(outcome, Unknown) else "",
    )
