"""The skills of agents: what they can do, and on which terms."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from ledger.contracts import LONGEST_RETENTION
from ledger.models import Agent

QUESTION_TTL = timedelta(minutes=10)
TASK_TTL = timedelta(hours=24)
LEASE = timedelta(seconds=60)


class SkillQuerySet(models.QuerySet["Skill"]):
    def offered_to(self, tenant: str) -> SkillQuerySet:
        """Skills that agents of this tenant may submit to."""
        usable = Q(agent__tenant=tenant) | Q(open_to__contains=[tenant])
        return self.filter(usable, is_active=True, agent__is_active=True)


class Skill(models.Model):
    """An ability of a registered agent, and its terms."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="skills")
    tenant = models.CharField(max_length=63, editable=False)
    slug = models.SlugField("id", max_length=100)
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    tags = ArrayField(models.CharField(max_length=50), default=list, blank=True)
    input_schema = models.JSONField(default=dict, blank=True, help_text="JSON Schema 2020-12.")
    output_schema = models.JSONField(default=dict, blank=True, help_text="JSON Schema 2020-12.")
    required_scope = models.CharField(
        max_length=50, blank=True, help_text="The envelope has to carry it among its scopes."
    )
    max_concurrency = models.PositiveIntegerField(
        null=True, blank=True, help_text="Open tasks at a time; the next one is rejected."
    )
    timeout = models.DurationField(
        default=TASK_TTL, help_text="From submission to the end, without the waits for people."
    )
    lease = models.DurationField(
        default=LEASE, help_text="How long a worker may be silent while it works."
    )
    question_ttl = models.DurationField(
        default=QUESTION_TTL, help_text="How long a question waits for its answer."
    )
    retention = models.DurationField(
        null=True,
        blank=True,
        validators=[
            MinValueValidator(timedelta(seconds=1)),
            MaxValueValidator(LONGEST_RETENTION),
        ],
        help_text="How long the content of a task is kept. Empty: ASSENT_TASK_RETENTION_DAYS.",
    )
    is_retry_safe = models.BooleanField(
        default=False, help_text="A task whose worker fell silent is given to another one."
    )
    max_attempts = models.PositiveSmallIntegerField(default=3)
    open_to = ArrayField(
        models.SlugField(max_length=63),
        default=list,
        blank=True,
        help_text="Other tenants whose agents may submit, with an envelope.",
    )
    requires_envelope = models.BooleanField(
        default=False,
        help_text="Requests of the skill's own tenant, too, have to carry a whole envelope.",
    )
    is_active = models.BooleanField(default=True)
    drift = models.TextField(
        blank=True, help_text="How a remote agent's card changed; stops new tasks until pinned."
    )

    objects = SkillQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="a2a_skill_one_per_tenant", fields=["tenant", "slug"])
        ]

    def __str__(self) -> str:
        return f"{self.slug} ({self.tenant})"

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.tenant = self.agent.tenant_id
        super().save(*args, **kwargs)
