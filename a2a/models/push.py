"""Push notification configs: addresses that clients registered for updates of their tasks."""

from __future__ import annotations

from django.db import models

from a2a.models.tasks import Task
from ledger.foundation.crypto.encryption import SecretField

PUSH = "push"  # the delivery channel of push notifications


class PushConfig(models.Model):
    """An address of a client to which changes of one task are pushed."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="push_configs")
    config_id = models.CharField(max_length=200)
    url = models.CharField(max_length=2000)
    token = SecretField(blank=True)
    scheme = models.CharField(max_length=50, blank=True)
    credentials = SecretField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="a2a_push_one_per_id", fields=["task", "config_id"])
        ]

    def __str__(self) -> str:
        return self.url
