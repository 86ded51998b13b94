"""The decisions of approvers on transactions."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from ledger.models.transactions import Transaction


class Verdict(models.TextChoices):
    APPROVE = "approve", "approved"
    REJECT = "reject", "rejected"
    PASS_ON = "pass_on", "passed on to people"


class Decision(models.Model):
    """One decision of one principal on one intent digest."""

    transaction = models.ForeignKey(Transaction, on_delete=models.PROTECT, related_name="decisions")
    principal = models.CharField(max_length=150)
    principal_name = models.CharField(max_length=200)
    verdict = models.CharField(max_length=10, choices=Verdict)
    intent_digest = models.CharField(max_length=64)
    via = models.CharField(max_length=20)
    reason = models.TextField(blank=True)
    # Of an agent: who keeps it, and the policy that it decided by, as its event sealed them.
    kept_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    policy = models.JSONField(
        null=True, help_text="name, version, sha256 and the paragraphs that were cited"
    )
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["transaction", "principal"], name="ledger_decision_one_vote_each"
            )
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.principal} via {self.via}"
