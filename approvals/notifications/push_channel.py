"""Web push as a channel of the outbox: one notification per item and browser, withdrawn in time.

A delivery names what it does and the browser: ``tell:7`` shows a notification, ``soon:7`` shows it
again shortly before the item expires, ``check:7:<item>`` withdraws it once it no longer waits for
that person, ``news:7`` tells of a grant, ``test:7:…`` is a test. What is true is read when it is
sent: who has lost the role by then is told nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.db.models.functions import Now
from django.utils import timezone

from approvals.models import About, NotificationSettings, PushSubscription, ShownNotification
from approvals.notifications import (
    grant_news,
    notification_settings,
    subjects,
    subscriptions,
    texts,
    web_push,
)
from approvals.notifications.subjects import ASKS, CHANGES, Item
from approvals.notifications.texts import Words
from ledger.events.outbox import HttpChannel, NotNow, Owed
from ledger.foundation.http_out import Post
from ledger.models import Delivery, DeliveryState, Event

NAME = "web_push"
TELL, SOON, CHECK, NEWS, TEST = "tell", "soon", "check", "news", "test"
SOON_BEFORE = timedelta(minutes=5)
TOLERANCE = timedelta(seconds=5)  # between the time that it is due and the next look
LONGEST_S = 12 * 60 * 60  # that a push service keeps a message for a browser that is off
WITHDRAWN_WITHIN_S = 60 * 60
GONE = {404, 410}  # RFC 8030: the subscription has expired, or its person ended it
# Where a browser that is sent a message and shows none loses the permission to be told.
ALWAYS_SHOWS = "push.apple.com"


class _Browsers(notification_settings.Audience):
    def ask(self) -> bool:
        return PushSubscription.objects.exists()


audience = _Browsers()


def is_configured() -> bool:
    return bool(settings.VAPID_PUBLIC_KEY)


class PushChannel(HttpChannel):
    name = NAME

    def wants(self, kind: str) -> bool:
        is_told = kind in ASKS or kind in CHANGES or kind in grant_news.KINDS
        return is_configured() and is_told and audience.is_there()

    def address(self, event: Event) -> Iterable[Owed]:
        if event.kind in ASKS:
            return list(_to_tell(event))
        if event.kind in grant_news.KINDS:
            browsers = PushSubscription.objects.filter(user__in=grant_news.readers_of(event))
            return [Owed(f"{NEWS}:{browser.pk}") for browser in browsers.order_by("pk")]
        shown = ShownNotification.objects.filter(subject=event.subject)
        pairs = shown.values_list("subscription_id", "item")
        return [Owed(f"{CHECK}:{browser}:{item.hex}") for browser, item in pairs]

    def request(self, delivery: Delivery) -> Post | None:
        """The message to send now, if any. Raises ``NotNow`` in quiet hours."""
        action, _, rest = delivery.recipient.partition(":")
        key, _, item = rest.partition(":")
        subscription = PushSubscription.objects.select_related("user").filter(pk=key).first()
        if subscription is None:
            return None
        if subscriptions.is_over(subscription):
            subscription.delete()
            return None
        with texts.language_of(subscription.user):
            if action == CHECK:
                return _withdrawal(subscription, UUID(item))
            if action == TEST:
                return _test(subscription)
            if action == NEWS:
                return _news(delivery, subscription)
            return _notification(delivery, subscription, is_again=action == SOON)

    def accepted(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            action, _, rest = delivery.recipient.partition(":")
            key, _, item = rest.partition(":")
            PushSubscription.objects.filter(pk=key).update(last_success_at=Now())
            if action == CHECK:
                ShownNotification.objects.filter(subscription=int(key), item=UUID(item)).delete()

    def is_gone(self, delivery: Delivery, status: int) -> bool:
        if status not in GONE:
            return False
        PushSubscription.objects.filter(pk=delivery.recipient.split(":")[1]).delete()
        return True


def _to_tell(event: Event) -> Iterator[Owed]:
    item = subjects.item_of(event)
    if item is None:
        return
    now = timezone.now()
    browsers = PushSubscription.objects.filter(user__in=subjects.people_for(item))
    for browser in browsers.select_related("user").order_by("pk"):
        chosen = notification_settings.notification_settings_of(browser.user)
        if not notification_settings.wants(chosen, item):
            continue
        yield Owed(f"{TELL}:{browser.pk}", notification_settings.quiet_until(chosen, now))
        reminder_at = item.row.expires_at - SOON_BEFORE
        if chosen.before_expiry and item.about != About.DOUBT and reminder_at > now:
            recipient = f"{SOON}:{browser.pk}"
            if not _waits_already(event, recipient):
                yield Owed(recipient, reminder_at)


def _waits_already(event: Event, recipient: str) -> bool:
    """True if an earlier event has the person reminded; when, the deadline of then decides."""
    owed = Delivery.objects.filter(event__subject=event.subject, recipient=recipient)
    return owed.filter(channel=NAME, state=DeliveryState.WAITING).exists()


def _notification(delivery: Delivery, browser: PushSubscription, *, is_again: bool) -> Post | None:
    """The item as it is now, unless it waits for this person no longer."""
    item = subjects.item_of(delivery.event)
    chosen, now = notification_settings.notification_settings_of(browser.user), timezone.now()
    if item is None or not notification_settings.wants(chosen, item):
        return None
    _wait_while_quiet(chosen, now)
    if is_again and item.about != About.DOUBT:
        _wait_until_soon(item, now)
    # Noted before the last look: whoever decides after that look finds the note, and withdraws.
    shown, is_new = ShownNotification.objects.get_or_create(
        subscription=browser,
        item=item.row.pk,
        defaults={"subject": item.subject, "about": item.about},
    )
    fresh = subjects.find(item.about, item.row.pk)
    if fresh is None or not subjects.waits_for(fresh, browser.user, now):
        if is_new:
            shown.delete()
        return None
    if not is_new and not is_again and delivery.attempts == 1:
        return None
    words = texts.words_of(fresh, now, hides_details=chosen.hides_details)
    message = {"show": message_of(fresh, words, has_sound=chosen.sound, is_again=is_again)}
    is_urgent = is_again or fresh.is_high
    return web_push.post_to(
        browser,
        message,
        topic=fresh.row.pk.hex,
        ttl_s=_seconds_left(fresh, now),
        urgency=web_push.HIGH if is_urgent else web_push.NORMAL,
    )


def _wait_until_soon(item: Item, now: datetime) -> None:
    """Raises ``NotNow`` where people have given it more time since."""
    left = item.row.expires_at - SOON_BEFORE - now
    if left > TOLERANCE:
        raise NotNow(left, "It has been given more time.")


def _wait_while_quiet(chosen: NotificationSettings, now: datetime) -> None:
    if until := notification_settings.quiet_until(chosen, now):
        raise NotNow(until - now, "It is quiet hours for this person.")


def message_of(
    item: Item, words: Words, *, has_sound: bool, is_again: bool = False
) -> dict[str, Any]:
    """The notification for the service worker. The tag makes it one per item."""
    return {
        "title": words.title,
        "body": words.body,
        "tag": item.row.pk.hex,
        "address": texts.address_of(item),
        "silent": not has_sound,
        "again": is_again,
    }


def _withdrawal(browser: PushSubscription, key: UUID) -> Post | None:
    shown = ShownNotification.objects.filter(subscription=browser, item=key).first()
    if shown is None:
        return None
    item = subjects.find(About(shown.about), key)
    if item is not None and subjects.waits_for(item, browser.user, timezone.now()):
        return None
    message: dict[str, Any] = {"close": key.hex}
    if (urlsplit(browser.endpoint).hostname or "").endswith(ALWAYS_SHOWS):
        words = texts.no_longer_waits()
        message["instead"] = {"title": words.title, "body": words.body, "tag": key.hex}
    return web_push.post_to(browser, message, topic=key.hex, ttl_s=WITHDRAWN_WITHIN_S)


def _news(delivery: Delivery, browser: PushSubscription) -> Post | None:
    if not grant_news.readers_of(delivery.event).contains(browser.user):
        return None
    chosen = notification_settings.notification_settings_of(browser.user)
    _wait_while_quiet(chosen, timezone.now())
    news = grant_news.news_of(delivery.event, hides_details=chosen.hides_details)
    shown = {
        "title": news.words.title,
        "body": news.words.body,
        "tag": news.tag,
        "address": news.address,
        "silent": not chosen.sound,
    }
    return web_push.post_to(browser, {"show": shown}, topic=news.tag, ttl_s=LONGEST_S)


def _test(browser: PushSubscription) -> Post:
    words = texts.test_words()
    shown = {"title": words.title, "body": words.body, "tag": "test", "address": "/"}
    return web_push.post_to(browser, {"show": shown}, topic="test", ttl_s=60)


def _seconds_left(item: Item, now: datetime) -> int:
    if item.about == About.DOUBT:
        return LONGEST_S
    return max(0, min(LONGEST_S, int((item.row.expires_at - now).total_seconds())))
