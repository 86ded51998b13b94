"""Notifications: what people want to be told of, in which browsers, and what each shows."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from ledger.foundation.crypto.encryption import SecretField


class Mail(models.TextChoices):
    OFF = "", gettext_lazy("no e-mail")
    EACH = "each", gettext_lazy("an e-mail for each")
    HOURLY = "hourly", gettext_lazy("at most one e-mail an hour")
    DAILY = "daily", gettext_lazy("one e-mail in the morning")


class NotificationSettings(models.Model):
    """The events that one person wants to be told of. Who has no row is told nothing."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="notification_settings",
    )
    waiting = models.BooleanField(default=True, help_text="What waits for their sign-off.")
    only_high = models.BooleanField(default=False, help_text="Of that, only high risk and above.")
    before_expiry = models.BooleanField(default=False, help_text="Again, 5 minutes before its end.")
    questions = models.BooleanField(default=True)
    in_doubt = models.BooleanField(default=True, help_text="For operators.")
    sound = models.BooleanField(default=False)
    hides_details = models.BooleanField(default=False, help_text="No word of what it is about.")
    quiet_from = models.TimeField(null=True, blank=True)
    quiet_until = models.TimeField(null=True, blank=True)
    time_zone = models.CharField(
        max_length=64, blank=True, help_text="Of their browser; their preference comes first."
    )
    mail = models.CharField(max_length=6, choices=Mail, default=Mail.OFF, blank=True)
    was_asked_at = models.DateTimeField(null=True, help_text="They answered the bar in the inbox.")
    # The last digest, and the e-mails of the present hour.
    digest_at = models.DateTimeField(null=True)
    mails_since = models.DateTimeField(null=True)
    mails = models.PositiveSmallIntegerField(default=0)
    # Summaries: hours of the day in the person's time zone, when the next one is due, and up to
    # when the last one told.
    summary_hour = models.PositiveSmallIntegerField(null=True, blank=True)
    second_summary_hour = models.PositiveSmallIntegerField(null=True, blank=True)
    summary_due_at = models.DateTimeField(null=True)
    summary_upto = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="approvals_notificationsettings_summary_hours_exist",
                condition=Q(summary_hour=None, second_summary_hour=None)
                | Q(summary_hour__lt=24)
                & (Q(second_summary_hour=None) | Q(second_summary_hour__lt=24)),
            ),
            models.CheckConstraint(
                name="approvals_notificationsettings_quiet_is_whole",
                condition=Q(quiet_from=None, quiet_until=None)
                | Q(quiet_from__isnull=False, quiet_until__isnull=False),
            ),
            models.CheckConstraint(
                name="approvals_notificationsettings_mail_exists",
                condition=Q(mail__in=Mail.values),
            ),
        ]

    def __str__(self) -> str:
        return f"what {self.user} is told of"

    @property
    def gets_mail(self) -> bool:
        return bool(self.mail) or self.summary_hour is not None

    @property
    def summary_hours(self) -> set[int]:
        hours = (self.summary_hour, self.second_summary_hour)
        return {hour for hour in hours if hour is not None}


class PushSubscription(models.Model):
    """One browser in which one person is told. Its address and keys are capabilities."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="push_subscriptions"
    )
    endpoint = SecretField()
    endpoint_hash = models.CharField(max_length=64, unique=True)
    p256dh = SecretField(help_text="The browser's public key.")
    auth = SecretField(help_text="The secret that it shares with us.")
    # Of the session in which it was made, and of the password then: it ends with either.
    session = models.UUIDField()
    password_hash = models.CharField(max_length=64)
    browser = models.CharField(max_length=60)
    made_at = models.DateTimeField(db_default=Now())
    last_success_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.browser} of {self.user}"


class About(models.TextChoices):
    DECISION = "decision", "waits for a decision"
    QUESTION = "question", "waits for an answer"
    DOUBT = "doubt", "is in doubt"


class ShownNotification(models.Model):
    """A notification that a browser was sent and that has not been withdrawn."""

    subscription = models.ForeignKey(
        PushSubscription, on_delete=models.CASCADE, related_name="shown"
    )
    subject = models.UUIDField(help_text="Of the events: a transaction, or a question's task.")
    item = models.UUIDField(help_text="The transaction or the question.")
    about = models.CharField(max_length=10, choices=About)
    shown_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="approvals_shownnotification_one_per_item", fields=["subscription", "item"]
            )
        ]
        indexes = [models.Index(name="approvals_shown_subject", fields=["subject"])]

    def __str__(self) -> str:
        return f"{self.about} {self.item}"
