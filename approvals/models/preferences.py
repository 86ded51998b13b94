"""A person's choices for their own pages."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Theme(models.TextChoices):
    LIGHT = "light", "light"
    DARK = "dark", "dark"


class Preferences(models.Model):
    """One person's view of the desk. An empty field leaves the choice to their browser."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="preferences",
    )
    time_zone = models.CharField(
        max_length=64, blank=True, help_text="A name of the IANA database: Europe/Zurich."
    )
    language = models.CharField(max_length=10, blank=True, help_text="Of settings.LANGUAGES.")
    formats = models.CharField(
        max_length=20, blank=True, help_text="The locale of dates and numbers: en-GB, de-CH."
    )
    theme = models.CharField(max_length=5, blank=True, choices=Theme)
    opens_next = models.BooleanField(
        default=False, help_text="Whether the next item opens by itself after a decision."
    )

    def __str__(self) -> str:
        return f"preferences of {self.user}"
