"""The tables of Slack: workspaces, routes, linked people, posted messages and commands."""

from __future__ import annotations

import re
from datetime import timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from a2a.models import Question
from ledger.contracts import RiskLevel
from ledger.models import Tenant, Transaction

RISKS = [level.value for level in RiskLevel]  # from low to critical
LINK_VALID = timedelta(minutes=15)


class SlackWorkspace(models.Model):
    """One workspace that has Assent's bot. ``manage.py slack_connect`` creates the row."""

    team_id = models.CharField(max_length=20, unique=True)
    name = models.CharField(max_length=200)
    bot_user_id = models.CharField(max_length=20)
    app = models.CharField(max_length=16, blank=True, help_text="Names the bot token, without it.")
    language = models.CharField(
        max_length=10,
        blank=True,
        db_default="",
        help_text="Of messages in its channels; people who are linked are answered in their own.",
    )
    tenants = models.ManyToManyField(
        Tenant,
        blank=True,
        related_name="slack_workspaces",
        help_text="Whose transactions and questions may be shown and decided there.",
    )

    class Meta:
        verbose_name = "Slack workspace"

    def __str__(self) -> str:
        return f"{self.name} ({self.team_id})"


class Concern(models.TextChoices):
    EVERYTHING = "everything", "transactions and questions"
    TRANSACTIONS = "transactions", "transactions"
    QUESTIONS = "questions", "questions"


class SlackRoute(models.Model):
    """Destination of messages. Of the routes that match, only the most specific ones are used."""

    workspace = models.ForeignKey(SlackWorkspace, on_delete=models.CASCADE, related_name="routes")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="slack_routes")
    concerns = models.CharField(max_length=12, choices=Concern, default=Concern.EVERYTHING)
    tool = models.CharField(max_length=100, blank=True, help_text="A tool or a skill; empty: any.")
    owner = models.CharField(
        max_length=100, blank=True, help_text="Only tools of this owner_service; empty: any."
    )
    min_risk = models.CharField(
        max_length=10,
        blank=True,
        choices=[(risk, risk.lower()) for risk in RISKS],
        help_text="Only transactions of this risk or a higher one; empty: any.",
    )
    channel = models.CharField(
        max_length=20, blank=True, help_text="The channel's id (C…), or else an approver."
    )
    approver = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="slack_routes",
        help_text="Gets a direct message, once linked to Slack.",
    )
    escalate_to = models.CharField(
        max_length=20, blank=True, help_text="The next channel's id, when nobody acted in time."
    )
    escalate_after = models.DurationField(
        null=True, blank=True, help_text="How long the first has: hours:minutes:seconds."
    )

    class Meta:
        verbose_name = "Slack route"
        constraints = [
            models.CheckConstraint(
                name="approvals_slackroute_one_target",
                condition=(Q(channel="") & Q(approver__isnull=False))
                | (~Q(channel="") & Q(approver=None)),
                violation_error_message="Name a channel or an approver, one of the two.",
            ),
            models.CheckConstraint(
                name="approvals_slackroute_escalation_is_whole",
                condition=Q(escalate_to="", escalate_after=None)
                | (~Q(escalate_to="") & Q(escalate_after__gt=timedelta(0))),
                violation_error_message="An escalation has a channel and a time, or neither.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id}: {self.tool or 'anything'} to {self.channel or self.approver}"

    def clean(self) -> None:
        for name in ("channel", "escalate_to"):
            if not re.fullmatch(r"([CG][A-Z0-9]+)?", getattr(self, name)):
                raise ValidationError({name: "The id of a channel begins with C."})
        if not self.workspace_id or not self.tenant_id:
            return
        if not self.workspace.tenants.filter(pk=self.tenant_id).exists():
            raise ValidationError(_("The workspace does not serve this tenant."))
        if self.approver and not self.approver.memberships.filter(tenant=self.tenant_id).exists():
            raise ValidationError(_("That person has no role in this tenant."))


class SlackIdentity(models.Model):
    """One Slack user of one workspace is one person of the desk."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="slack_identities"
    )
    workspace = models.ForeignKey(
        SlackWorkspace, on_delete=models.CASCADE, related_name="identities"
    )
    slack_user_id = models.CharField(max_length=20)
    # The workspace of a guest in a shared channel; Slack sends it with every click.
    home_team_id = models.CharField(
        max_length=20, blank=True, help_text="Empty: the workspace itself."
    )
    linked_by = models.CharField(max_length=150)
    linked_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name = "Slack identity"
        verbose_name_plural = "Slack identities"
        constraints = [
            models.UniqueConstraint(
                name="approvals_slackidentity_one_person", fields=["workspace", "slack_user_id"]
            ),
            models.UniqueConstraint(
                name="approvals_slackidentity_one_each", fields=["workspace", "user"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.slack_user_id} is {self.user}"


class SlackLinkRequest(models.Model):
    """A one-time link: sent to one Slack user, and usable by one person of the desk."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    workspace = models.ForeignKey(SlackWorkspace, on_delete=models.CASCADE)
    slack_user_id = models.CharField(max_length=20)
    home_team_id = models.CharField(max_length=20, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.user} to {self.slack_user_id}"


class SlackMessage(models.Model):
    """One message about one transaction or question, in one channel or direct conversation."""

    workspace = models.ForeignKey(SlackWorkspace, on_delete=models.CASCADE, related_name="messages")
    target = models.CharField(max_length=20, help_text="Channel (C…), or user (U…).")
    transaction = models.ForeignKey(
        Transaction, on_delete=models.PROTECT, null=True, related_name="slack_messages"
    )
    question = models.ForeignKey(
        Question, on_delete=models.CASCADE, null=True, related_name="slack_messages"
    )
    why = models.CharField(max_length=200, blank=True, help_text="Said above an escalated one.")
    escalate_to = models.CharField(max_length=20, blank=True, help_text="The next channel.")
    # Set when it is posted; a direct message has a channel (D…) of its own.
    channel = models.CharField(max_length=20, blank=True)
    ts = models.CharField(max_length=30, blank=True)
    # The hash of what it shows.
    shown = models.CharField(max_length=64, blank=True)
    # The worker that writes to Slack about it has a lease until then.
    busy_until = models.DateTimeField(null=True)
    # Incremented with each lease; updates under an older lease are ignored.
    hold = models.PositiveIntegerField(default=0)
    # Set before the first post; while ts is empty, the outcome of that post is not known.
    posting_at = models.DateTimeField(null=True)
    reminder_ts = models.CharField(max_length=30, blank=True, help_text="A reminder to rewrite.")
    is_gone = models.BooleanField(default=False, help_text="Slack does not know it any more.")

    class Meta:
        verbose_name = "Slack message"
        constraints = [
            models.UniqueConstraint(
                name="approvals_slackmessage_one_per_transaction",
                fields=["transaction", "workspace", "target"],
                condition=Q(transaction__isnull=False),
            ),
            models.UniqueConstraint(
                name="approvals_slackmessage_one_per_question",
                fields=["question", "workspace", "target"],
                condition=Q(question__isnull=False),
            ),
            models.CheckConstraint(
                name="approvals_slackmessage_has_one_subject",
                condition=Q(transaction=None, question__isnull=False)
                | Q(transaction__isnull=False, question=None),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.target} {self.ts or 'not posted yet'}"

    @property
    def tenant(self) -> str:
        subject = self.transaction or self.question
        assert subject is not None
        return subject.tenant


class SlackCommand(models.Model):
    """A click that was acknowledged, or a reply to somebody, until a worker has carried it out."""

    id = models.UUIDField(primary_key=True)
    queue = models.CharField(max_length=20, help_text="The queue whose job carries it out.")
    command = models.TextField(help_text="As JSON (interactions.commands); empty once it is done.")
    created_at = models.DateTimeField(db_default=Now())
    # When a worker may take it: at once, after the lease of the last one, or after a pause.
    due_at = models.DateTimeField(db_default=Now())
    done_at = models.DateTimeField(null=True)
    # Incremented on each claim; updates from an older claim are ignored.
    tries = models.PositiveIntegerField(db_default=0)

    class Meta:
        verbose_name = "Slack command"
        indexes = [
            # The sweeper's queries, once a second: due commands, and those older than a day.
            models.Index(
                name="approvals_slackcommand_open",
                fields=["queue", "due_at"],
                condition=Q(done_at=None),
            ),
            models.Index(name="approvals_slackcommand_old", fields=["created_at"]),
        ]

    def __str__(self) -> str:
        return str(self.id)
