"""The outbox table: messages to deliver because of an event."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from ledger.models.events import Event


class DeliveryState(models.TextChoices):
    WAITING = "waiting", "waiting"
    DONE = "done", "done"
    GIVEN_UP = "given_up", "given up"


class Delivery(models.Model):
    """One message to one recipient, because of one event.

    Inserted with the event and without a recipient; the channel then adds a row per recipient.
    """

    event = models.ForeignKey(Event, on_delete=models.PROTECT, related_name="deliveries")
    channel = models.CharField(max_length=30)
    recipient = models.CharField(max_length=300, blank=True)
    state = models.CharField(max_length=10, choices=DeliveryState, default=DeliveryState.WAITING)
    # Counts claims; a write of an older claim matches no row.
    attempts = models.PositiveIntegerField(default=0)
    failures = models.PositiveSmallIntegerField(db_default=0)
    next_attempt_at = models.DateTimeField(db_default=Now())
    error = models.TextField(blank=True)
    done_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(
                fields=["event", "channel", "recipient"], name="ledger_delivery_one_per_recipient"
            )
        ]
        indexes = [
            models.Index(
                name="ledger_delivery_overdue",
                fields=["next_attempt_at"],
                condition=Q(state=DeliveryState.WAITING),
            ),
            # What operators see; few rows among very many.
            models.Index(
                name="ledger_delivery_given_up",
                fields=["-id"],
                condition=Q(state=DeliveryState.GIVEN_UP),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.channel} to {self.recipient or 'whom it concerns'}"
