"""Claim an approved transaction, and execute it under the lease."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from ledger import states
from ledger.contracts import tools
from ledger.execution import crash_points
from ledger.execution.leases import Lease, clock, new_lease
from ledger.execution.recording import record, record_failure, try_advance
from ledger.execution.tool_calls import call_tool
from ledger.foundation.postgres import of_each
from ledger.models import Ending, Transaction, may_begin
from ledger.principals import WORKER, Surface
from ledger.states import Reasons
from ledger.transactions import why_not_to_begin
from ledger.transactions.transitions import (
    FRESH,
    CompiledMove,
    OneMove,
    advance_all_at_once,
    compile_move,
)


def claim(transaction_id: UUID) -> Lease | None:
    """Lease an approved transaction to this worker; ``None`` if it cannot be claimed.

    One whose tool is not deployed here is left to a worker that has it.
    """
    for lease in claim_all([transaction_id], skip_locked=False):
        return lease
    lapse_hold(transaction_id)
    return None


def claim_all(transaction_ids: Sequence[UUID], *, skip_locked: bool = True) -> list[Lease]:
    """Lease those of these that can be claimed, in one statement.

    ``skip_locked``: it does not wait for a row that somebody else has locked, nor claim it.
    """
    crash_points.reach("before claim")
    began = clock()
    wanted = [OneMove(each, by=WORKER, via=Surface.SYSTEM) for each in transaction_ids]
    claim_them = _claim(settings.LEASE_S, tuple(tools))
    claimed = advance_all_at_once(claim_them, wanted, skip_locked=skip_locked)
    if claimed:
        crash_points.reach("after claim")
    return [Lease(row, row.fencing_token, began, links) for row, links in claimed.values()]


@lru_cache(maxsize=8)
def _claim(lease_s: float, deployed: tuple[str, ...]) -> CompiledMove:
    """The claim, which depends on the settings and the tools of this process."""
    hold_lasts = Q(hold_expires_at=None) | Q(hold_expires_at__gt=Now())
    for_workers = Transaction.objects.deployed_here().for_workers()
    possible = for_workers.without_late_receipt_of_operation().past_not_before()
    possible = possible.judged_by_active_rules().still_true()
    claimable = possible.filter(hold_lasts, may_begin(), pk=of_each("id"))
    return compile_move(claimable, states.CLAIM, work=new_lease())


def lapse_hold(transaction_id: UUID) -> None:
    """Roll back an approved transaction whose hold has expired: it cannot be done any more."""
    reason = Reasons.HOLD_LAPSED()
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
    if why := why_not_to_begin(lease.row, lease.links):
        record_failure(lease, why)
        return
    record(lease, call_tool(lease, "execute", on_late_result=record))
