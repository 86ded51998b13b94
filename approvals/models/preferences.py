"""A person's choices for their own pages, their saved views and their last visit."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


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


class ViewPlace(models.TextChoices):
    INBOX = "inbox", "inbox"
    HISTORY = "history", "history"
    LEDGER = "ledger", "ledger"  # a list of the admin, which the query names


class SavedView(models.Model):
    """Filters of a list that one person gave a name. Nobody else sees them."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views"
    )
    place = models.CharField(max_length=10, choices=ViewPlace)
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=2000, help_text="Read through the form of its place.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="approvals_savedview_one_per_name", fields=["user", "place", "name"]
            ),
            models.CheckConstraint(
                name="approvals_savedview_place_exists",
                condition=models.Q(place__in=ViewPlace.values),
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Visit(models.Model):
    """The last time that one person opened a page of the desk, to about a minute."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="visit"
    )
    last_at = models.DateTimeField(db_default=Now())
    away_since = models.DateTimeField(
        null=True, help_text="Until the inbox has told what was decided meanwhile."
    )

    def __str__(self) -> str:
        return f"last visit of {self.user}"
