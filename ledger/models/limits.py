"""Number of times a limit refused a request."""

from __future__ import annotations

from django.db import models


class LimitRefusal(models.Model):
    """Requests that one limit refused within one minute. Kept for a few days."""

    minute = models.DateTimeField()
    limit = models.CharField(max_length=20)
    of = models.CharField(max_length=10, help_text="agent, tenant, token or address")
    tenant = models.CharField(max_length=63, blank=True)
    agent = models.CharField(max_length=63, blank=True, help_text="The agent's slug.")
    number = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="ledger_limitrefusal_one_per_minute",
                fields=["minute", "limit", "of", "tenant", "agent"],
            )
        ]

    def __str__(self) -> str:
        return f"{self.number} times {self.limit} of {self.of}"


class SweeperLease(models.Model):
    """The one row that sweepers compete for. ``ledger.workers.leadership`` writes it."""

    id = models.SmallIntegerField(primary_key=True)
    # Raised by one when another sweeper takes over.
    epoch = models.BigIntegerField()
    holder = models.CharField(max_length=200, help_text="Host, process and a random part.")
    beat_at = models.DateTimeField(help_text="Its last sign of life, by the database's clock.")

    class Meta:
        constraints = [
            models.CheckConstraint(name="ledger_sweeperlease_one_row", condition=models.Q(id=1))
        ]

    def __str__(self) -> str:
        return f"{self.holder} (epoch {self.epoch})"
