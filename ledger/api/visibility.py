"""Which transactions a caller may see, and which it may decide."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest

from ledger.agents.callers import Caller
from ledger.contracts import RequiredApprover
from ledger.errors import NotAllowed, NotFound
from ledger.http import caller_of
from ledger.models import Scope, Transaction, TransactionQuerySet


def supervisor_of(request: HttpRequest, transaction_id: UUID) -> Caller:
    """The caller, if it may decide this transaction. Raises ``NotAllowed, NotFound``."""
    caller = caller_of(request, Scope.DECIDE)
    row = Transaction.objects.filter(tenant=caller.tenant, pk=transaction_id).first()
    if row is None:
        raise NotFound()
    if row.required_approver != RequiredApprover.SUPERVISOR:
        raise NotAllowed(
            f"The contract of {row.tool} asks for a person, not for a supervisor.",
            hint="A person has to decide at the desk.",
        )
    return caller


def visible_to(caller: Caller) -> TransactionQuerySet:
    """The caller's own transactions, or with a wide scope its tenant's."""
    rows = Transaction.objects.for_tenants(frozenset({caller.tenant}))
    if caller.scopes & {Scope.READ_ALL, Scope.DECIDE}:
        return rows
    return rows.proposed_by(caller.principal)


def visible(caller: Caller, transaction_id: UUID) -> Transaction:
    rows = Transaction.objects.for_tenants(frozenset({caller.tenant}))
    row = rows.prefetch_related("decisions").filter(pk=transaction_id).first()
    if row is None or not _may_see(caller, row):
        raise NotFound()
    return row


def _may_see(caller: Caller, row: Transaction) -> bool:
    is_own = row.proposed_by == str(caller.principal)
    return is_own or bool(caller.scopes & {Scope.READ_ALL, Scope.DECIDE})
