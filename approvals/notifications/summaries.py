"""Summaries by e-mail, at one or two hours of the day that a person chose: when each is due.

The next one stands in the person's row. Whoever moves it on owes the message in the same database
transaction, so that of several sweepers one does.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.utils import timezone

from approvals.models import NotificationSettings
from approvals.notifications.notification_settings import quiet_until, zone_of
from approvals.notifications.subscriptions import last_change_of
from approvals.people import letters_are_possible
from ledger.models import Delivery

ACTION, CHANNEL = "summary", "mail"
LATEST = timedelta(hours=2)  # after its hour; the next one then tells of its span, too
FIRST_SPAN = timedelta(days=1)
EVERY_S = 5.0
BATCH = 200


@dataclass(frozen=True, slots=True)
class Span:
    """The time that one summary tells of. It is due at its end."""

    since: datetime
    until: datetime

    def recipient(self, person_id: int) -> str:
        seconds = (int(self.since.timestamp()), int(self.until.timestamp()))
        return f"{ACTION}:{person_id}:{seconds[0]}:{seconds[1]}"


def span_named_in(recipient: str) -> Span:
    _, _, since, until = recipient.split(":")
    return Span(*(datetime.fromtimestamp(int(seconds), UTC) for seconds in (since, until)))


def is_too_late(span: Span, now: datetime) -> bool:
    return now - span.until > LATEST


def next_summary(chosen: NotificationSettings, after: datetime) -> datetime | None:
    """The next chosen hour where the person is, after quiet hours; ``None`` if none is chosen."""
    return min((due for due in _of_coming_days(chosen, after) if due > after), default=None)


def _of_coming_days(chosen: NotificationSettings, after: datetime) -> Iterator[datetime]:
    zone = zone_of(chosen)
    today = after.astimezone(zone).date()
    for days in range(-1, 3):
        for hour in chosen.summary_hours:
            due = datetime.combine(today + timedelta(days=days), time(hour), zone)
            yield (quiet_until(chosen, due) or due).astimezone(UTC).replace(microsecond=0)


def plan_summary(person: User) -> None:
    """Find anew when the next one is due: the hours, quiet hours or time zone have changed."""
    with atomic():
        row = NotificationSettings.objects.select_for_update().filter(user=person).first()
        if row is None:
            return
        now = timezone.now()
        is_about_to_be_owed = row.summary_due_at is not None and row.summary_due_at <= now
        if row.summary_hours and is_about_to_be_owed:
            return
        row.summary_due_at = next_summary(row, now)
        row.save(update_fields=["summary_due_at"])


_looked_at = float("-inf")


def owe_summaries() -> None:
    """The sweeper's step: owe those whose hour has come."""
    global _looked_at
    if clock.monotonic() - _looked_at < EVERY_S or not letters_are_possible():
        return
    _looked_at = clock.monotonic()
    owe_due()


def owe_due() -> None:
    """One delivery for each that is due; one that is too late is skipped."""
    due = NotificationSettings.objects.filter(summary_due_at__lte=Now()).select_related("user")
    for chosen in due.order_by("summary_due_at")[:BATCH]:
        _owe(chosen)


def _owe(chosen: NotificationSettings) -> None:
    due, now = chosen.summary_due_at, timezone.now()
    assert due is not None
    span = Span(chosen.summary_upto or due - FIRST_SPAN, due)
    # The database's clock may be ahead of this one.
    columns = {"summary_due_at": next_summary(chosen, max(now, due))}
    is_owed = not is_too_late(span, now)
    if is_owed:
        columns["summary_upto"] = due
    with atomic():
        rows = NotificationSettings.objects.filter(pk=chosen.pk, summary_due_at=due)
        if not rows.update(**columns) or not is_owed:
            return
        if (event := last_change_of(chosen.user)) is not None:
            recipient = span.recipient(chosen.pk)
            Delivery.objects.create(event=event, channel=CHANNEL, recipient=recipient)


def give_back(chosen: NotificationSettings, span: Span) -> None:
    """It was not sent: the next one tells of its span, too."""
    rows = NotificationSettings.objects.filter(pk=chosen.pk, summary_upto=span.until)
    rows.update(summary_upto=span.since)
