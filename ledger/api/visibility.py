"""Transactions that a caller may see, and those that it may decide."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest

from ledger.agents import Caller
from ledger.api.http import caller_of
from ledger.contracts import RequiredApprover
from ledger.errors import NotAllowed, NotFound
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


# With one of these scopes an agent reads every transaction of its tenant.
SEES_ALL = frozenset({Scope.READ_ALL, Scope.DECIDE})


def visible_to(caller: Caller) -> TransactionQuerySet:
    """The caller's own transactions, or with a wide scope its tenant's."""
    return Transaction.objects.visible_to_agent(
        str(caller.principal), caller.tenant, bool(caller.scopes & SEES_ALL)
    )


def visible(caller: Caller, transaction_id: UUID) -> Transaction:
    """Raises ``NotFound`` also for a transaction that the caller may not see."""
    rows = visible_to(caller).prefetch_related("decisions")
    if (row := rows.filter(pk=transaction_id).first()) is None:
        raise NotFound()
    return row


def may_see(caller: Caller, row: Transaction) -> bool:
    """The same rule for a row that was read already."""
    is_own = row.proposed_by == str(caller.principal)
    return row.tenant == caller.tenant and (is_own or bool(caller.scopes & SEES_ALL))
