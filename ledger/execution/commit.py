"""Claim · act · record: how a signed-off transaction is carried out, exactly once.

A worker claims in a short database transaction, acts outside of any, and records in another
short one that tests its fencing token. A worker may die at any line: what it held is found by the
sweeper when its lease runs out, and is *in doubt* until the world was asked.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from ledger import states
from ledger.contracts import Retry
from ledger.contracts.results import clean
from ledger.errors import NotPossible
from ledger.execution import crash_points
from ledger.execution.recording import (
    FRESH_WORK,
    NO_LEASE,
    persistently,
    record,
    record_failure,
    record_receipt,
    try_advance,
    wait_after,
)
from ledger.execution.tool_calls import Done, NotCalled, Nothing, Outcome, Unknown, act
from ledger.models import Ending, Transaction
from ledger.principals import SWEEPER, WORKER
from ledger.states import State
from ledger.transactions import sign_offs
from ledger.transactions.leases import Lease, clock, new_lease
from ledger.transactions.transitions import advance

logger = logging.getLogger(__name__)

ROLLBACK_RETRY = Retry(first=timedelta(seconds=1), longest=timedelta(minutes=5))
INQUIRY_RETRY = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5))

# --- commit ---------------------------------------------------------------------------------


def commit(transaction_id: UUID) -> None:
    """Carry out an approved transaction, or find out about one in doubt.

    Does nothing when the transaction is done, taken or withdrawn: all three are fine.
    """
    lease = claim(transaction_id)
    if lease is not None:
        run(lease)
    else:
        inquire(transaction_id)


def claim(transaction_id: UUID) -> Lease | None:
    """Make an approved transaction ours, for as long as the lease is renewed.

    One whose tool is not deployed here is left to a worker that has it.
    """
    crash_points.reach("before claim")
    began = clock()
    hold_lives = Q(hold_expires_at=None) | Q(hold_expires_at__gt=Now())
    claimable = Transaction.objects.deployed_here().begun_by_nobody().filter(pk=transaction_id)
    try:
        row = advance(
            transaction_id,
            states.CLAIM,
            by=WORKER,
            via="system",
            only_if=hold_lives & Q(pk__in=claimable.values("pk")),
            **new_lease(),
        )
    except NotPossible as refusal:
        if refusal.snapshot is not None and refusal.snapshot.state == State.APPROVED:
            lapse_hold(transaction_id)
        return None
    crash_points.reach("after claim")
    return Lease(row, row.fencing_token, began)


def lapse_hold(transaction_id: UUID) -> None:
    """What planning held is gone: what was signed off cannot be carried out any more."""
    reason = "What was held for it lapsed before it could be carried out."
    try_advance(
        transaction_id,
        states.LAPSE_HOLD,
        only_if=Q(hold_expires_at__lte=Now()),
        reason=reason,
        ending=Ending.HOLD_LAPSED,
        ending_reason=reason,
        **FRESH_WORK,
    )


def run(lease: Lease) -> None:
    """Act on a lease and record what came of it."""
    if why := sign_offs.why_not(lease.row):
        record_failure(lease, why)
        return
    record(lease, act(lease, "execute", record))


# --- in doubt -------------------------------------------------------------------------------


def doubt_lapsed_lease(transaction_id: UUID) -> None:
    """A worker was silent for longer than its lease: what it did is not known."""
    why = "The worker fell silent before it recorded an outcome."
    try_advance(
        transaction_id,
        states.DOUBT,
        only_if=Q(lease_expires_at__lte=Now()),
        by=SWEEPER,
        reason=why,
        error=why,
        lease_expires_at=None,
        next_attempt_at=Now(),
    )


def inquire(transaction_id: UUID) -> None:
    """Ask the world what became of a transaction in doubt; run it again where that is safe."""
    row = _claim_inquiry(transaction_id)
    if row is None:
        return
    lease = Lease(row, row.fencing_token)
    if sign_offs.why_not(row):
        return  # a person has to say: the row was changed
    tool = lease.tool
    match act(lease, "find_receipt", record) if tool and tool.has("find_receipt") else Done(None):
        case Done(value) if value is not None:
            record_receipt(lease, value)
        case Nothing(why):
            record_failure(lease, why)
        case _:
            _run_again_if_safe(lease)


def _claim_inquiry(transaction_id: UUID) -> Transaction | None:
    """One inquirer at a time; the next one no sooner than the back-off says."""
    due = (
        Transaction.objects.deployed_here()
        .in_doubt()
        .filter(pk=transaction_id, next_attempt_at__lte=Now())
    )
    row = due.first()
    if row is None or not due.filter(fencing_token=row.fencing_token).update(
        next_attempt_at=Now() + wait_after(row.attempts, INQUIRY_RETRY)
    ):
        return None
    return row


def _run_again_if_safe(lease: Lease) -> None:
    """Retry-safe tools run again with the same operation key; the others wait for a person."""
    contract = lease.tool.contract if lease.tool else None
    if contract is None or not contract.retry_safe or lease.row.attempts >= contract.retry.attempts:
        if lease.tool is None or not lease.tool.has("find_receipt"):
            Transaction.objects.in_doubt().filter(lease.holds, pk=lease.row.pk).update(
                next_attempt_at=None
            )
        return
    began = clock()
    row = try_advance(
        lease.row.pk,
        states.RETRY,
        only_if=lease.holds,
        reason=f"Attempt {lease.row.attempts + 1} with the same operation key.",
        settlement=None,
        **new_lease(),
    )
    if row is not None:
        run(Lease(row, row.fencing_token, began))


# --- rollback and compensation -----------------------------------------------------------------


def roll_back(transaction_id: UUID) -> None:
    """Let go of what was held, again and again until it succeeds."""
    lease = _claim_work(transaction_id, State.ROLLING_BACK)
    if lease is None:
        return
    if why := sign_offs.why_not(lease.row):
        outcome: Outcome = Unknown(why)
    elif lease.tool is not None and not lease.tool.has("rollback"):
        outcome = Done(None)
    else:
        outcome = act(lease, "rollback", record)
    if not isinstance(outcome, Done):
        _put_off(lease, outcome)
        return
    move = states.SETTLE if lease.row.ending == Ending.FAILED else states.ABORT
    settle = partial(
        try_advance, lease.row.pk, move, only_if=lease.holds, ended_at=Now(), **NO_LEASE
    )
    persistently(settle, lease)


def compensate(transaction_id: UUID) -> None:
    """Make up for what took hold, again and again until it succeeds."""
    lease = _claim_work(transaction_id, State.COMPENSATING)
    if lease is None:
        return
    why = sign_offs.why_not(lease.row)
    outcome = Unknown(why) if why else act(lease, "compensate", record)
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
        compensation_receipt=receipt,
        error="",
        error_detail="",
        ended_at=Now(),
        **NO_LEASE,
    )
    persistently(finish, lease, receipt)


def _claim_work(transaction_id: UUID, state: State) -> Lease | None:
    """Take over work that may be repeated; its state does not change by that."""
    began = clock()
    free = Q(lease_expires_at=None) | Q(lease_expires_at__lte=Now())
    due = Q(next_attempt_at=None) | Q(next_attempt_at__lte=Now())
    mine = Transaction.objects.deployed_here().filter(free, due, pk=transaction_id, state=state)
    if not mine.update(**new_lease()):
        return None
    row = Transaction.objects.get(pk=transaction_id)
    return Lease(row, row.fencing_token, began)


def _put_off(lease: Lease, outcome: Unknown | Nothing | NotCalled) -> None:
    """Try again later; from the third time on the desk shows it as stuck."""
    logger.warning("%s of %s did not succeed: %s", lease.row.state, lease.row.pk, outcome.why)
    Transaction.objects.filter(lease.holds, pk=lease.row.pk).update(
        lease_expires_at=None,
        next_attempt_at=Now() + wait_after(lease.row.attempts, ROLLBACK_RETRY),
        error=outcome.why,
        error_detail=outcome.detail if isinstance(outcome, Unknown) else "",
    )
