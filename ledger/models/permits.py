"""Permits: what lets the proposing agent carry a signed-off transaction out itself."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from ledger.models.ids import new_id
from ledger.models.transactions import Transaction


class PermitQuerySet(models.QuerySet["Permit"]):
    def redeemable(self) -> PermitQuerySet:
        """Not replaced, not redeemed, not expired by the database's clock.

        Whether it may be redeemed also depends on its transaction.
        """
        return self.filter(replaced_at=None, redeemed_at=None, expires_at__gt=Now())


class Permit(models.Model):
    """One permit of one transaction. Only the newest counts, and it is redeemed once."""

    jti = models.UUIDField(primary_key=True, default=new_id)
    transaction = models.ForeignKey(Transaction, on_delete=models.PROTECT, related_name="permits")
    issued_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    replaced_at = models.DateTimeField(null=True)
    redeemed_at = models.DateTimeField(null=True)
    # Who redeemed it, with which key: who repeats that gets the same answer.
    redeemed_by = models.CharField(max_length=150, blank=True)
    redeem_key = models.CharField(max_length=255, blank=True)
    # Of the claim that redeeming it was.
    fencing_token = models.PositiveIntegerField(null=True)

    objects = PermitQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="ledger_permit_one_per_transaction",
                fields=["transaction"],
                condition=Q(replaced_at=None),
            ),
            models.CheckConstraint(
                name="ledger_permit_expires_after_issue",
                condition=Q(expires_at__gt=F("issued_at")),
            ),
        ]

    def __str__(self) -> str:
        return str(self.jti)
