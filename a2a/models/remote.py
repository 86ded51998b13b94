"""Remote agents, and the tasks that they do."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from ledger.foundation.crypto.encryption import SecretField
from ledger.models import Agent, Watched


class RemoteAgent(models.Model):
    """An agent elsewhere that does tasks for Assent, with its pinned card.

    Its skills belong to ``agent``, so that clients submit to them as to any other.
    """

    agent = models.OneToOneField(Agent, on_delete=models.PROTECT, related_name="remote")
    url = models.URLField(max_length=2000, help_text="Of the agent, or of its card.")
    token = SecretField(blank=True, help_text="Bearer token that we send; empty: none.")
    required_capabilities = ArrayField(
        models.CharField(max_length=50),
        default=list,
        blank=True,
        help_text="streaming, push_notifications, extended_agent_card",
    )
    wants_push = models.BooleanField(
        default=False, help_text="Ask it to push news to us, where its card allows that."
    )
    card_version = models.CharField(max_length=100, blank=True)
    sample = models.JSONField(
        default=dict,
        blank=True,
        db_default={},
        help_text="A harmless task, sent on demand and after its card has changed: "
        '{"skill": "echo", "input": {}}.',
    )
    probe = models.ForeignKey(
        "Task",
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
        help_text="The last sample task.",
    )
    watched = models.OneToOneField(
        Watched, on_delete=models.PROTECT, related_name="remote", help_text="Its card."
    )

    def __str__(self) -> str:
        return f"{self.agent} at {self.url}"

    @property
    def card(self) -> dict[str, Any]:
        """Its card as pinned: what we hold it to."""
        return dict(self.watched.pinned)


class Mirror(models.Model):
    """One task that a remote agent does, as it was when last polled."""

    task = models.OneToOneField("Task", on_delete=models.CASCADE, related_name="mirror")
    remote = models.ForeignKey(RemoteAgent, on_delete=models.PROTECT, related_name="mirrors")
    remote_task_id = models.CharField(max_length=200, blank=True)
    remote_context_id = models.CharField(max_length=200, blank=True)
    # Authenticates their push notifications.
    secret = SecretField()
    is_over = models.BooleanField(default=False)
    look_at = models.DateTimeField(db_default=Now())
    # Until then one worker holds it (a2a.remote.mirror_leases); a push may change look_at, and
    # never this.
    busy_until = models.DateTimeField(null=True)
    hold = models.PositiveIntegerField(default=0)
    unchanged_looks = models.PositiveSmallIntegerField(default=0)
    failing_since = models.DateTimeField(null=True)
    last_seen = models.CharField(max_length=64, blank=True, help_text="Digest of its last state.")
    sent = models.JSONField(default=list, help_text="The messages that it was sent, as sent.")
    answers_sent = ArrayField(models.UUIDField(), default=list)

    class Meta:
        indexes = [
            models.Index(name="a2a_mirror_due", fields=["look_at"], condition=Q(is_over=False))
        ]

    def __str__(self) -> str:
        return f"{self.task} at {self.remote.agent.name}"
