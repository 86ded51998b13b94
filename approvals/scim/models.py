"""The table of the directory's entries."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models.functions import Now

LONGEST_ID = 255  # characters


class Entry(models.Model):
    """An account that the directory keeps; of all others it learns and changes nothing."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    external_id = models.CharField(
        max_length=LONGEST_ID,
        blank=True,
        db_default="",
        db_index=True,
        help_text="Of the directory.",
    )
    groups = ArrayField(
        models.CharField(max_length=255),
        default=list,
        db_default=[],
        help_text="Names of the directory's groups that the person is in.",
    )
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "entries"
        indexes = [
            # Who is in a group is read with each page about it.
            GinIndex(name="scim_entry_of_group", fields=["groups"]),
        ]

    def __str__(self) -> str:
        return f"the directory's entry of {self.user}"
