"""Which sweeper works at the moment."""

from __future__ import annotations

from django.db import models


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
