"""Changes that one operator asked for and that wait until another confirms or declines them."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from ledger.errors import Sentence


class RequestState(models.TextChoices):
    WAITING = "waiting", Sentence("waits for a second operator")
    CONFIRMED = "confirmed", Sentence("confirmed")
    DECLINED = "declined", Sentence("declined")
    OVERTAKEN = "overtaken", Sentence("replaced by a later one")
    # Counts already: there was no second operator, and one has to read it once there is.
    ALONE = "alone", Sentence("made by the only operator, and not read by another yet")
    READ = "read", Sentence("made by the only operator, and read by another")


class ChangeRequest(models.Model):
    """A change that takes two operators. Written by ``ledger.events.four_eyes`` only."""

    tenant = models.CharField(max_length=63, blank=True, help_text="Empty: of the installation.")
    kind = models.CharField(max_length=30)
    subject = models.CharField(max_length=200, help_text="What it changes.")
    concerns = models.CharField(
        max_length=150, blank=True, help_text="The person whom it is about, who cannot confirm it."
    )
    in_place_of = models.CharField(
        max_length=100, blank=True, help_text="What it replaces, as it was; empty: nothing."
    )
    after = models.JSONField(help_text="The subject as it will be.")
    sha256 = models.CharField(max_length=64, help_text="Of both: what the second operator saw.")
    loosens = models.JSONField(default=list, help_text="Why it takes a second operator.")
    state = models.CharField(max_length=10, choices=RequestState, default=RequestState.WAITING)
    asked_by = models.CharField(max_length=150)
    asked_by_name = models.CharField(max_length=200)
    asked_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    ended_by = models.CharField(max_length=150, blank=True)
    ended_by_name = models.CharField(max_length=200, blank=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "kind", "subject"],
                condition=Q(state=RequestState.WAITING),
                name="ledger_change_request_one_waits",
            ),
            models.CheckConstraint(
                name="ledger_change_request_takes_two",
                condition=~Q(state=RequestState.CONFIRMED)
                | (~Q(ended_by="") & ~Q(ended_by=F("asked_by")) & ~Q(ended_by=F("concerns"))),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"

    @property
    def asker(self) -> dict[str, str]:
        """The user who asked for it, as the event of the change keeps it."""
        return {"asked_by": self.asked_by, "asked_by_name": self.asked_by_name}
