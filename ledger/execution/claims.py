"""Claim an approved transaction, and execute it under the lease."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from ledger import states
from ledger.errors import NotPossible
from ledger.execution import crash_points
from ledger.execution.leases import Lease, clock, new_lease
from ledger.execution.recording import record, record_failure, try_advance
from ledger.execution.tool_calls import call_tool
from ledger.models import Ending, Transaction
from ledger.principals import WORKER, Surface
from ledger.states import State
from ledger.transactions import sign_offs
from ledger.transactions.transitions import FRESH, advance


def claim(transaction_id: UUID) -> Lease | None:
    """Lease an approved transaction to this worker; ``None`` if it cannot be claimed.

    One whose tool is not deployed here is left to a worker that has it.
    """
    crash_points.reach("before claim")
    began = clock()
    hold_lasts = Q(hold_expires_at=None) | Q(hold_expires_at__gt=Now())
    claimable = Transaction.objects.deployed_here().begun_by_nobody().filter(pk=transaction_id)
    try:
        row = advance(
            transaction_id,
            states.CLAIM,
            by=WORKER,
            via=Surface.SYSTEM,
            only_if=hold_lasts & Q(pk__in=claimable.values("pk")),
            work=new_lease(),
        )
    except NotPossible as refusal:
        if refusal.snapshot is not None and refusal.snapshot.state == State.APPROVED:
            lapse_hold(transaction_id)
        return None
    crash_points.reach("after claim")
    return Lease(row, row.fencing_token, began)


def lapse_hold(transaction_id: UUID) -> None:
    """Roll back a transaction whose hold has expired: what was signed off cannot be done now."""
    reason = "What was held for it lapsed before it could be carried out."
    try_advance(
        transaction_id,
        states.LAPSE_HOLD,
        only_if=Q(hold_expires_at__lte=Now()),
        reason=reason,
        work=FRESH,
        ending=Ending.HOLD_LAPSED,
        ending_reason=reason,
    )


def run(lease: Lease) -> None:
    """Call the tool under a lease and record the outcome."""
    if why := sign_offs.why_not(lease.row):
        record_failure(lease, why)
        return
    record(lease, call_tool(lease, "execute", on_late_result=record))
