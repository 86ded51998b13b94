"""Questions of workers, which people or the client answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from a2a.models.answerers import CLIENT
from a2a.models.tasks import Task
from ledger.errors import Sentence
from ledger.models import id_or_none, new_id


class QuestionState(models.TextChoices):
    OPEN = "open", Sentence("waiting for an answer")
    ANSWERED = "answered", Sentence("answered")
    LAPSED = "lapsed", Sentence("not answered in time")
    WITHDRAWN = "withdrawn", Sentence("withdrawn: the task has ended")


class QuestionQuerySet(models.QuerySet["Question"]):
    def for_tenants(self, tenants: frozenset[str]) -> QuestionQuerySet:
        return self.filter(tenant__in=tenants)

    def waiting(self) -> QuestionQuerySet:
        return self.filter(state=QuestionState.OPEN)

    def for_people_only(self) -> QuestionQuerySet:
        """Those for which ``Question.is_for_client_of`` is false."""
        client = Q(may_answer__contains=[CLIENT]) | Q(
            may_answer__contains=[models.F("task__submitted_by")]
        )
        return self.filter(~client | Q(asked_by=models.F("task__submitted_by")))

    def due(self) -> QuestionQuerySet:
        """Unanswered past their deadline, by the database's clock."""
        return self.filter(state=QuestionState.OPEN, expires_at__lte=Now())


class Question(models.Model):
    """A question of a worker, which its task waits for."""

    id = models.UUIDField(primary_key=True, default=new_id)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="questions")
    tenant = models.CharField(max_length=63)
    state = models.CharField(max_length=10, choices=QuestionState, default=QuestionState.OPEN)
    text = models.TextField()
    form = models.JSONField(default=dict, help_text="JSON Schema of the answer; empty: any text.")
    evidence = models.JSONField(default=list, help_text="Parts to show beside the question.")
    may_answer = ArrayField(
        models.CharField(max_length=150),
        default=list,
        help_text="approver, operator, client, or principals. Empty: approvers and the client.",
    )
    asked_by = models.CharField(max_length=150)
    asked_by_name = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    ttl = models.DurationField()
    answer = models.JSONField(null=True)
    answered_by = models.CharField(max_length=150, blank=True)
    answered_by_name = models.CharField(max_length=200, blank=True)
    answered_via = models.CharField(max_length=20, blank=True)
    ended_at = models.DateTimeField(null=True)

    objects = QuestionQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="a2a_question_one_open_per_task", fields=["task"], condition=Q(state="open")
            ),
            models.CheckConstraint(
                name="a2a_question_answered_by_somebody",
                condition=~Q(state="answered") | ~Q(answered_by=""),
            ),
        ]
        indexes = [
            # The operators' list.
            models.Index(name="a2a_question_history", fields=["tenant", "-id"]),
            models.Index(name="a2a_question_due", fields=["expires_at"], condition=Q(state="open")),
            models.Index(
                name="a2a_question_ended", fields=["ended_at"], condition=Q(ended_at__isnull=False)
            ),
            models.Index(
                name="a2a_question_waiting",
                fields=["tenant", "expires_at"],
                condition=Q(state="open"),
            ),
            # How many an agent has open, and the most urgent of each agent on the desk.
            models.Index(
                name="a2a_question_per_agent",
                fields=["tenant", "asked_by", "expires_at"],
                condition=Q(state="open"),
            ),
        ]

    def __str__(self) -> str:
        return self.headline[:80]

    @property
    def headline(self) -> str:
        """The title that people read: the text, or that it was erased."""
        return self.text or "A question whose text was erased under retention"

    @property
    def short_id(self) -> str:
        return self.id.hex[-8:]

    @staticmethod
    def named_in(details: Mapping[str, Any]) -> UUID | None:
        """The id of the question in an event that asks, answers or lapses one; else ``None``.

        Two questions of one task may have the same text; only the id tells them apart.
        """
        return id_or_none(details.get("question", ""))

    def is_for_client_of(self, task: Task) -> bool:
        """True if the agent that submitted the task may answer; else only people may."""
        return self.asked_by != task.submitted_by and bool(
            {CLIENT, task.submitted_by} & set(self.may_answer)
        )
