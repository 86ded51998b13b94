"""The transactions before and after one, among those that wait for a person, by urgency."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from approvals.http.middleware import Roles
from approvals.models import Role
from ledger.models import Transaction, TransactionQuerySet
from ledger.states import State


@dataclass(frozen=True, slots=True)
class Beside:
    previous: UUID | None
    next: UUID | None


def beside(row: Transaction, viewer: str, roles: Roles) -> Beside:
    """The neighbours of the row; of a decided one the next is the most urgent."""
    waiting = _waiting_for(viewer, roles).exclude(pk=row.pk)
    if row.state != State.PREPARED:
        return Beside(None, _first(waiting))
    at, pk = row.expires_at, row.pk
    earlier = waiting.filter(Q(expires_at__lt=at) | Q(expires_at=at, pk__lt=pk))
    later = waiting.filter(Q(expires_at__gt=at) | Q(expires_at=at, pk__gt=pk))
    return Beside(_first(earlier, "-"), _first(later))


def _waiting_for(viewer: str, roles: Roles) -> TransactionQuerySet:
    tenants = frozenset(tenant for tenant, names in roles.items() if Role.APPROVER in names)
    return (
        Transaction.objects.for_tenants(tenants)
        .filter(state=State.PREPARED, expires_at__gt=Now())
        .exclude(proposed_by=viewer)
        .exclude(decisions__principal=viewer)
    )


def _first(rows: TransactionQuerySet, sign: str = "") -> UUID | None:
    keys = rows.order_by(f"{sign}expires_at", f"{sign}pk").values_list("pk", flat=True)
    return keys.first()
