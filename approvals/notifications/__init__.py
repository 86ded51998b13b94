"""Telling people that something waits for them: in their browsers, and by e-mail."""

from approvals.notifications.mails import person_behind_token, stop_mails
from approvals.notifications.notification_settings import (
    notification_settings_of,
    quiet_until,
    wants,
    zone_of,
)
from approvals.notifications.subjects import Item, is_for_people, item_as_it_is, waits_for
from approvals.notifications.subscriptions import (
    Browser,
    SubscriptionRefused,
    add_subscription,
    last_change_of,
    remove_subscription,
    renew_subscription,
)
from approvals.notifications.summaries import plan_summary
from approvals.notifications.texts import words_of

__all__ = [
    "Browser",
    "Item",
    "SubscriptionRefused",
    "add_subscription",
    "is_for_people",
    "item_as_it_is",
    "last_change_of",
    "notification_settings_of",
    "person_behind_token",
    "plan_summary",
    "quiet_until",
    "remove_subscription",
    "renew_subscription",
    "stop_mails",
    "waits_for",
    "wants",
    "words_of",
    "zone_of",
]
