"""The questions that are asked of transactions, by name. Part of ``ledger.models``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from ledger.contracts import tools
from ledger.principals import Principal
from ledger.states import WITHOUT_EFFECT, State

if TYPE_CHECKING:
    from ledger.models import Transaction  # noqa: F401


# Which transactions hold their operation key, so that no other may be prepared with it.
HOLDS_ITS_KEY = ~Q(state__in=sorted(WITHOUT_EFFECT))


class TransactionQuerySet(models.QuerySet["Transaction"]):
    def for_tenants(self, tenants: frozenset[str]) -> TransactionQuerySet:
        return self.filter(tenant__in=tenants)

    def proposed_by(self, principal: Principal) -> TransactionQuerySet:
        return self.filter(proposed_by=str(principal))

    def pending(self) -> TransactionQuerySet:
        """Waiting for sign-off."""
        return self.filter(state=State.PREPARED)

    def with_late_receipt(self) -> TransactionQuerySet:
        """A receipt came that nobody expected any more, and nobody has looked yet."""
        return self.exclude(late_receipt="")

    def deployed_here(self) -> TransactionQuerySet:
        """Those whose tool this process has."""
        return self.filter(tool__in=sorted(tools))

    def begun_by_nobody(self) -> TransactionQuerySet:
        """Signed off, with nothing unexplained in its way.

        Where another row of the same operation has a late receipt, it may have been done already.
        """
        same = {"tenant": OuterRef("tenant"), "operation_key": OuterRef("operation_key")}
        unexplained = TransactionQuerySet(self.model).with_late_receipt().filter(**same)
        return self.filter(~Exists(unexplained), state=State.APPROVED)

    def in_doubt(self) -> TransactionQuerySet:
        return self.filter(state=State.IN_DOUBT)

    def inquiry_due(self) -> TransactionQuerySet:
        """In doubt, and past the back-off between two inquiries, by the database's clock."""
        return self.in_doubt().filter(next_attempt_at__lte=Now())

    def work_due(self, state: State) -> TransactionQuerySet:
        """In ``state``, leased to no worker and past its back-off, by the database's clock."""
        is_free = Q(lease_expires_at=None) | Q(lease_expires_at__lte=Now())
        is_due = Q(next_attempt_at=None) | Q(next_attempt_at__lte=Now())
        return self.filter(is_free, is_due, state=state)

    def lease_lapsed(self) -> TransactionQuerySet:
        """Claimed by a worker whose lease has run out, by the database's clock."""
        return self.filter(state=State.COMMITTING, lease_expires_at__lte=Now())

    def due(self) -> TransactionQuerySet:
        """Waiting for sign-off, and past ``expires_at`` by the database's clock."""
        return self.filter(state=State.PREPARED, expires_at__lte=Now())

    def holding(self, tenant: str, operation_key: str) -> TransactionQuerySet:
        """The one transaction, if any, that has this operation key."""
        return self.filter(HOLDS_ITS_KEY, tenant=tenant, operation_key=operation_key)
