"""In doubt: a transaction whose tool may or may not have had its effect."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import states
from ledger.contracts import Contract
from ledger.execution.claims import run
from ledger.execution.leases import Lease, clock, new_lease
from ledger.execution.recording import record_failure, record_receipt, try_advance
from ledger.execution.tool_calls import Accepted, Done, Nothing, Outcome, call_tool
from ledger.foundation.backoff import Backoff
from ledger.models import Transaction, may_begin
from ledger.principals import SWEEPER, Principal
from ledger.states import Reasons
from ledger.tools import acts_itself, silent_addresses
from ledger.transactions import why_not_to_act
from ledger.transactions.transitions import WorkColumns

INQUIRY_BACKOFF = Backoff(first=timedelta(seconds=5), longest=timedelta(minutes=5))


def doubt_lapsed_lease(transaction_id: UUID) -> None:
    """Mark a transaction in doubt whose worker let its lease run out."""
    is_agents = _acts_itself(transaction_id)
    why = Reasons.SILENT_AGENT() if is_agents else Reasons.SILENT_WORKER()
    try_advance(
        transaction_id,
        states.DOUBT,
        only_if=Q(lease_expires_at__lte=Now()),
        by=SWEEPER,
        reason=why,
        work=WorkColumns(lease_expires_at=None, next_attempt_at=Now()),
        error=why,
    )


def _acts_itself(transaction_id: UUID) -> bool:
    row = Transaction.objects.filter(pk=transaction_id).first()
    return row is not None and acts_itself(row)


def doubt_restored(transaction_id: UUID, by: Principal) -> bool:
    """Mark a transaction of a restored database in doubt; whether it was signed off.

    It may have been carried out after the moment that the database was restored to. In doubt, the
    tool's ``find_receipt`` is asked before anything is done again. Counts as no attempt.
    """
    why = "The database was restored to an earlier moment: this may have been carried out since."
    parked = WorkColumns(fencing_token=F("fencing_token") + 1)
    with atomic():
        if try_advance(transaction_id, states.CLAIM, by=by, work=parked) is None:
            return False
        due = WorkColumns(lease_expires_at=None, next_attempt_at=Now())
        try_advance(transaction_id, states.DOUBT, by=by, reason=why, work=due, error=why)
    return True


def inquire(transaction_id: UUID) -> None:
    """Look up the outcome of a transaction in doubt; run it again where that is safe."""
    row = _claim_inquiry(transaction_id)
    if row is None:
        return
    if why_not_to_act(row):
        return  # the row was changed: an operator has to settle it
    lease = Lease(row, row.fencing_token)
    match _found_receipt(lease):
        case Done(value) if value is not None:
            record_receipt(lease, value)
        case Nothing(why):
            record_failure(lease, why)
        case Accepted():
            pass  # it is being done: the next inquiry asks again
        case _:
            _run_again_if_safe(lease)


def _found_receipt(lease: Lease) -> Outcome:
    """The return value of the tool's ``find_receipt``; ``Done(None)`` if it has none."""
    if lease.tool is None or not lease.tool.has("find_receipt"):
        return Done(None)
    return call_tool(lease, "find_receipt")


def _claim_inquiry(transaction_id: UUID) -> Transaction | None:
    """One worker inquires at a time; the next inquiry is due after the back-off."""
    due = Transaction.objects.deployed_here().inquiry_due().filter(pk=transaction_id)
    row = due.first()
    if row is None or not due.filter(fencing_token=row.fencing_token).update(
        next_attempt_at=Now() + INQUIRY_BACKOFF.wait(row.attempts)
    ):
        return None
    return row


def _run_again_if_safe(lease: Lease) -> None:
    """Retry-safe tools run again with the same operation key; the others wait for a person."""
    tool = lease.tool
    if tool is None or not _may_run_again(lease, tool.contract):
        if tool is None or not tool.has("find_receipt"):
            Transaction.objects.in_doubt().filter(lease.holds, pk=lease.row.pk).update(
                next_attempt_at=None
            )
        return
    address = silent_addresses.address_of(lease.row.tenant, tool, "execute")
    with silent_addresses.turn(address, tool.contract.call_timeout) as may_call:
        if may_call:
            _run_again(lease)


def _may_run_again(lease: Lease, contract: Contract) -> bool:
    return contract.retry_safe and lease.row.attempts < contract.retry.attempts


def _run_again(lease: Lease) -> None:
    began = clock()
    row = try_advance(
        lease.row.pk,
        states.RETRY,
        only_if=lease.holds & may_begin(),
        reason=Reasons.ATTEMPT(number=lease.row.attempts + 1),
        work=new_lease(),
        settlement=None,
    )
    if row is not None:
        run(Lease(row, row.fencing_token, began))
