"""The pace at which a person approves; nobody else is told."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Pace(models.Model):
    """The latest approvals of one person at the desk."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="pace"
    )
    fast_in_a_row = models.PositiveSmallIntegerField(
        default=0, help_text="Approvals shortly after the item was opened."
    )

    def __str__(self) -> str:
        return f"pace of {self.user}"
