"""E-mail as a channel of the outbox: one for each item, a digest of all that waits, or a summary.

An e-mail has links and no way to decide. A mail server that hangs delays nothing else
(``approvals.mail_server``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db.models import F
from django.utils import timezone

from approvals import mail_server
from approvals.models import Mail, NotificationSettings
from approvals.notifications import (
    grant_news,
    mails,
    notification_settings,
    subjects,
    summaries,
    texts,
)
from approvals.notifications.subjects import ASKS, Item
from approvals.people import letters_are_possible
from ledger.events.outbox import NotNow, Owed
from ledger.models import Delivery, Event

NAME = "mail"
EACH, DIGEST, NEWS, TEST = "each", "digest", "news", "test"
SUMMARY = summaries.ACTION
MOST_AN_HOUR = 20  # to one person; a digest counts too
MORNING = 8  # o'clock where the person is


class _Readers(notification_settings.Audience):
    def ask(self) -> bool:
        return NotificationSettings.objects.exclude(mail=Mail.OFF).exists()


readers = _Readers()


is_configured = letters_are_possible


class MailChannel:
    name = NAME

    def wants(self, kind: str) -> bool:
        tells = kind in ASKS or kind in grant_news.KINDS
        return is_configured() and tells and readers.is_there()

    def address(self, event: Event) -> Iterable[Owed]:
        if event.kind in grant_news.KINDS:
            people = grant_news.readers_of(event).filter(notification_settings__mail__gt=Mail.OFF)
            return [Owed(f"{NEWS}:{person.pk}") for person in people.exclude(email="")]
        item = subjects.item_of(event)
        return list(_to_write(item, timezone.now())) if item is not None else []

    def send(self, delivery: Delivery) -> None:
        """Raises ``NotNow``, ``OSError`` and ``smtplib.SMTPException``."""
        action, _, rest = delivery.recipient.partition(":")
        person = User.objects.filter(pk=rest.partition(":")[0], is_active=True).first()
        if person is None or not person.email:
            return
        chosen = notification_settings.notification_settings_of(person)
        with texts.language_of(person), timezone.override(notification_settings.zone_of(chosen)):
            SENDERS[action](delivery, chosen)


def _to_write(item: Item, now: datetime) -> Iterator[Owed]:
    people = subjects.people_for(item).exclude(email="")
    for person in people.exclude(notification_settings__mail=Mail.OFF).order_by("pk"):
        chosen = notification_settings.notification_settings_of(person)
        if chosen.mail == Mail.OFF or not notification_settings.wants(chosen, item):
            continue
        if chosen.mail == Mail.EACH:
            yield Owed(f"{EACH}:{person.pk}", notification_settings.quiet_until(chosen, now))
        else:
            yield Owed(f"{DIGEST}:{person.pk}", next_digest(chosen, now))


def next_digest(chosen: NotificationSettings, now: datetime) -> datetime:
    """The next full hour, or the next morning where the person is; after quiet hours."""
    local = now.astimezone(notification_settings.zone_of(chosen))
    if chosen.mail == Mail.HOURLY:
        due = local.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    else:
        due = local.replace(hour=MORNING, minute=0, second=0, microsecond=0)
        due += timedelta(days=1) if due <= local else timedelta()
    return notification_settings.quiet_until(chosen, due) or due


# --- sending -------------------------------------------------------------------------------------


def _send_each(delivery: Delivery, chosen: NotificationSettings) -> None:
    """The item as it is now, if it still waits for this person."""
    item, now = subjects.item_of(delivery.event), timezone.now()
    if item is None or chosen.mail != Mail.EACH or not notification_settings.wants(chosen, item):
        return
    _wait_while_quiet(chosen, now)
    if subjects.waits_for(item, chosen.user, now):
        _send(delivery, chosen, mails.about([item], chosen, now))


def _send_digest(delivery: Delivery, chosen: NotificationSettings) -> None:
    """All that waits for the person now, unless a digest was sent since the event."""
    before, now = chosen.digest_at, timezone.now()
    is_covered = before is not None and delivery.event.at <= before
    if chosen.mail not in {Mail.HOURLY, Mail.DAILY} or is_covered:
        return
    _wait_while_quiet(chosen, now)
    items = subjects.all_for(chosen.user, now)
    items = [item for item in items if notification_settings.wants(chosen, item)]
    if not items:
        return
    row = NotificationSettings.objects.filter(pk=chosen.pk)
    if not row.filter(digest_at=before).update(digest_at=now):
        raise NotNow(
            timedelta(seconds=random.uniform(30, 60)), "Another courier sends this digest."
        )
    try:
        _send(delivery, chosen, mails.about(items, chosen, now))
    except BaseException:
        row.filter(digest_at=now).update(digest_at=before)
        raise


def _send_summary(delivery: Delivery, chosen: NotificationSettings) -> None:
    """Tell of its span and of what waits now, unless it is late or there is nothing to say.

    The span of one that comes too late belongs to the next.
    """
    span, now = summaries.span_named_in(delivery.recipient), timezone.now()
    if not chosen.summary_hours:
        return
    if summaries.is_too_late(span, now):
        summaries.give_back(chosen, span)
        return
    _wait_while_quiet(chosen, now)
    letter = mails.summary(chosen, span.since, span.until, now)
    if letter is not None:
        _send(delivery, chosen, letter)


def _send_news(delivery: Delivery, chosen: NotificationSettings) -> None:
    """It waits for no digest; who has lost the role by now is told nothing."""
    if not chosen.mail or not grant_news.readers_of(delivery.event).contains(chosen.user):
        return
    _wait_while_quiet(chosen, timezone.now())
    news = grant_news.news_of(delivery.event, hides_details=chosen.hides_details)
    _send(delivery, chosen, mails.about_grant(news))


def _send_test(delivery: Delivery, chosen: NotificationSettings) -> None:
    _send(delivery, chosen, mails.test(chosen))


SENDERS: dict[str, Callable[[Delivery, NotificationSettings], None]] = {
    EACH: _send_each,
    DIGEST: _send_digest,
    SUMMARY: _send_summary,
    NEWS: _send_news,
    TEST: _send_test,
}


def _send(delivery: Delivery, chosen: NotificationSettings, letter: mails.Letter) -> None:
    with mail_server.turn():
        _count(chosen)
        mails.message_of(letter, chosen.user, mark=str(delivery.pk)).send()


def _wait_while_quiet(chosen: NotificationSettings, now: datetime) -> None:
    if until := notification_settings.quiet_until(chosen, now):
        raise NotNow(until - now, "It is quiet hours for this person.")


def _count(chosen: NotificationSettings) -> None:
    """Raises ``NotNow`` beyond the e-mails of an hour."""
    now = timezone.now()
    row = NotificationSettings.objects.filter(pk=chosen.pk)
    begun = now - timedelta(hours=1)
    if row.filter(mails_since__gt=begun, mails__lt=MOST_AN_HOUR).update(mails=F("mails") + 1):
        return
    if row.exclude(mails_since__gt=begun).update(mails_since=now, mails=1):
        return
    since = row.values_list("mails_since", flat=True).get()
    wait = (since or now) + timedelta(hours=1) - now
    raise NotNow(wait, f"This person had {MOST_AN_HOUR} e-mails within an hour.")
