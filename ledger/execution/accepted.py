"""Accepted work: a tool does it later, and is asked for it until it is done or its time is over.

Meanwhile nothing is held for it: no worker, no lease, no connection.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db.models.functions import Now

from ledger.contracts import LONGEST_CALL
from ledger.execution.leases import Lease
from ledger.execution.recording import (
    record_accepted,
    record_doubt,
    record_failure,
    record_receipt,
)
from ledger.execution.tool_calls import Accepted, Done, Nothing, call_tool
from ledger.models import Event, Transaction
from ledger.states import CLAIM, RETRY, Reasons
from ledger.transactions import why_not_to_act

ASK_AGAIN = timedelta(seconds=10)  # where the tool does not say when


def ask_again(transaction_id: UUID) -> bool:
    """Ask what became of an accepted transaction that is due; ``False`` if it is not one."""
    row = _claim_question(transaction_id)
    if row is None:
        return False
    lease = Lease(row, row.fencing_token)
    if why := why_not_to_act(row):
        record_doubt(lease, why)  # the row was changed: an operator has to settle it
        return True
    match call_tool(lease, "find_receipt"):
        case Done(value) if value is not None:
            record_receipt(lease, value)
        case Nothing(why):
            record_failure(lease, why)
        case _ if not _is_in_time(lease):
            record_doubt(lease, Reasons.NOT_DONE_IN_TIME())
        case Accepted(after):
            record_accepted(lease, after)
        case _:
            record_accepted(lease, ASK_AGAIN)
    return True


def _claim_question(transaction_id: UUID) -> Transaction | None:
    """One worker asks at a time; another one does if this one has died."""
    due = Transaction.objects.deployed_here().accepted_due().filter(pk=transaction_id)
    row = due.first()
    if row is None or not due.filter(fencing_token=row.fencing_token).update(
        next_attempt_at=Now() + LONGEST_CALL
    ):
        return None
    return row


def _is_in_time(lease: Lease) -> bool:
    """True while the contract's time-out, from the claim on, is not over."""
    timeout = lease.tool.contract.timeout if lease.tool else timedelta(0)
    claims = Event.objects.filter(subject=str(lease.row.pk), kind__in=[CLAIM.kind, RETRY.kind])
    return claims.filter(at__gt=Now() - timeout).exists()
