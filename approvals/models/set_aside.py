"""Transactions that people have set aside, each for themselves."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import Exists, ExpressionWrapper, F, OuterRef, Q, Value
from django.db.models.functions import Greatest, Least, Now

from ledger.models import Event, Transaction
from ledger.states import EventKind, State

# Of its life, a transaction is back for the last tenth, and for no less than this.
LAST_PART, LEAST_LEFT = 10, timedelta(minutes=5)


class SetAsideQuerySet(models.QuerySet["SetAside"]):
    def standing(self) -> SetAsideQuerySet:
        """Those that are not back yet, with ``back_at``, the time when they will be.

        What the person does to it, and the agent that asks once more, bring it back at once.
        """
        ends, began = F("transaction__expires_at"), F("transaction__created_at")
        last = ExpressionWrapper((ends - began) / LAST_PART, models.DurationField())
        left = Greatest(last, Value(LEAST_LEFT), output_field=models.DurationField())
        latest = ExpressionWrapper(ends - left, models.DateTimeField())
        later = Event.objects.filter(subject=OuterRef("transaction"), at__gt=OuterRef("set_at"))
        brings_back = Q(kind=EventKind.ESCALATED) | Q(principal=OuterRef("person"))
        return self.annotate(back_at=Least("until", latest)).filter(
            ~Exists(later.filter(brings_back)),
            transaction__state=State.PREPARED,
            back_at__gt=Now(),
        )


class SetAside(models.Model):
    """One transaction that one person keeps off their own list. It proves nothing."""

    person = models.CharField(max_length=150, help_text="As user:7.")
    transaction = models.ForeignKey(Transaction, on_delete=models.CASCADE, related_name="+")
    until = models.DateTimeField(null=True, help_text="Empty: until shortly before it expires.")
    set_at = models.DateTimeField(db_default=Now())

    objects = SetAsideQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="approvals_setaside_once_per_person", fields=["person", "transaction"]
            )
        ]

    def __str__(self) -> str:
        return f"{self.transaction_id} of {self.person}"
