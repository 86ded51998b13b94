"""Legal holds by operators: the content of a transaction or task is kept past its retention."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.models import User

from a2a.models import Task
from a2a.tasks import retention as task_retention
from approvals.desk.policies import who_can
from approvals.http.middleware import roles_of, tenants_of
from approvals.models import Role
from approvals.people import principal_of
from ledger.errors import NotAllowed, NotFound
from ledger.models import Transaction
from ledger.principals import Surface
from ledger.proof import retention


def hold_transaction(user: User, transaction_id: UUID, *, via: Surface, reason: str) -> Transaction:
    """Keep the content of a transaction. Raises ``NotFound, NotAllowed`` and as ``hold`` does."""
    _require_operator(user, _tenant_of(Transaction, user, transaction_id))
    return retention.hold(transaction_id, by=principal_of(user), via=via, reason=reason)


def release_transaction(
    user: User, transaction_id: UUID, *, via: Surface, reason: str
) -> Transaction:
    """End the hold of a transaction. Raises as ``hold_transaction`` does."""
    _require_operator(user, _tenant_of(Transaction, user, transaction_id))
    return retention.release(transaction_id, by=principal_of(user), via=via, reason=reason)


def hold_task(user: User, task_id: UUID, *, via: Surface, reason: str) -> Task:
    """Keep the content of a task. Raises ``NotFound, NotAllowed`` and as ``hold`` does."""
    _require_operator(user, _tenant_of(Task, user, task_id))
    return task_retention.hold(task_id, by=principal_of(user), via=via, reason=reason)


def release_task(user: User, task_id: UUID, *, via: Surface, reason: str) -> Task:
    """End the hold of a task. Raises as ``hold_task`` does."""
    _require_operator(user, _tenant_of(Task, user, task_id))
    return task_retention.release(task_id, by=principal_of(user), via=via, reason=reason)


def _tenant_of(model: type[Transaction] | type[Task], user: User, pk: UUID) -> str:
    """Raises ``NotFound`` also for a row of a tenant that the person does not belong to."""
    tenant = (
        model.objects.for_tenants(tenants_of(user))
        .filter(pk=pk)
        .values_list("tenant", flat=True)
        .first()
    )
    if tenant is None:
        raise NotFound()
    return tenant


def _require_operator(user: User, tenant: str) -> None:
    if Role.OPERATOR not in roles_of(user).get(tenant, frozenset()):
        raise NotAllowed(f"You are not an operator of {tenant}. {who_can(tenant, Role.OPERATOR)}")
