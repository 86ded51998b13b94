"""The uses of read-only tools."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from ledger.models.ids import new_id


class Reading(models.Model):
    """One use of a read-only tool."""

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.CharField(max_length=63)
    agent = models.CharField(max_length=150)
    tool = models.CharField(max_length=100)
    arguments = models.JSONField()
    result_hash = models.CharField(max_length=64, blank=True)
    error = models.TextField(blank=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(name="ledger_reading_history", fields=["tenant", "-id"])]

    def __str__(self) -> str:
        return f"{self.tool} by {self.agent}"
