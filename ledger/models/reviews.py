"""The sample of supervisors' decisions that people review."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import models
from django.db.models import Count, Q

from ledger.models.decisions import Decision
from ledger.states import State

MOST_SUPERVISORS = 100  # with figures of their own
IS_READABLE = Q(decision__transaction__content_erased_at__isnull=True)
# While others may still decide on it, nobody is told what a supervisor's decision is worth.
IS_DECIDED = ~Q(decision__transaction__state=State.PREPARED)


class ReviewVerdict(models.TextChoices):
    AGREE = "agree", "agrees"
    OTHERWISE = "otherwise", "would have decided otherwise"


@dataclass(frozen=True, slots=True)
class Agreement:
    """What people said of the sampled decisions of one supervisor, in all."""

    agent: str
    agreed: int
    otherwise: int
    waiting: int
    lapsed: int  # their content was erased before anybody reviewed them

    @property
    def reviewed(self) -> int:
        return self.agreed + self.otherwise

    @property
    def percent(self) -> int:
        return round(100 * self.agreed / self.reviewed) if self.reviewed else 0


class ReviewQuerySet(models.QuerySet["Review"]):
    def waiting(self, tenants: Iterable[str]) -> ReviewQuerySet:
        """Not reviewed yet, of decided transactions, and there is still something to read."""
        return self.filter(IS_READABLE, IS_DECIDED, tenant__in=list(tenants), verdict="")

    def agreement(self) -> list[Agreement]:
        """How often people agreed with each supervisor of these reviews."""
        counted = (
            self.values_list("agent")
            .order_by("agent")
            .annotate(
                agreed=Count("pk", filter=Q(verdict=ReviewVerdict.AGREE)),
                otherwise=Count("pk", filter=Q(verdict=ReviewVerdict.OTHERWISE)),
                waiting=Count("pk", filter=IS_READABLE & IS_DECIDED & Q(verdict="")),
                lapsed=Count("pk", filter=~IS_READABLE & Q(verdict="")),
            )
        )
        return [Agreement(*counts) for counts in counted[:MOST_SUPERVISORS]]


class Review(models.Model):
    """One decision of a supervisor that is in the sample; without a verdict, it waits.

    Written with the decision. The verdict is sealed as an event of the transaction.
    """

    decision = models.OneToOneField(Decision, on_delete=models.PROTECT, related_name="review")
    tenant = models.CharField(max_length=63)
    agent = models.CharField(max_length=150, help_text="The supervisor, as agent:acme/goodwill.")
    verdict = models.CharField(max_length=10, choices=ReviewVerdict, blank=True)
    reviewer = models.CharField(max_length=150, blank=True)
    reviewer_name = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField(null=True)

    objects = ReviewQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="ledger_review_verdict_has_a_reviewer",
                condition=Q(verdict="", reviewer="", at=None)
                | (~Q(verdict="") & ~Q(reviewer="") & Q(at__isnull=False)),
            )
        ]
        indexes = [
            models.Index(
                name="ledger_review_open", fields=["tenant", "id"], condition=Q(verdict="")
            ),
            models.Index(name="ledger_review_rate", fields=["tenant", "agent", "verdict", "at"]),
        ]

    def __str__(self) -> str:
        return f"{self.agent}: {self.verdict or 'waits'}"
