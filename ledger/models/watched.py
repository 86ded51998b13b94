"""Documents that others publish, as accepted and as last read."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Watched(models.Model):
    """A document that is read again every few minutes. Written by ``ledger.tools.watched`` only.

    The row that it belongs to refers to it.
    """

    kind = models.CharField(max_length=20)
    pinned = models.JSONField(default=dict, help_text="As accepted: what its owner is held to.")
    pinned_at = models.DateTimeField(
        db_default=Now(), help_text="What was read before this counts no more."
    )
    seen = models.JSONField(default=dict, help_text="As last read.")
    held_why = models.TextField(blank=True, help_text="How it differs; empty: it does not.")
    error = models.TextField(blank=True, help_text="Why it could not be read last time.")
    failing_since = models.DateTimeField(null=True)
    read_at = models.DateTimeField(null=True)
    read_again_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(name="ledger_watched_due", fields=["read_again_at"])]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"
