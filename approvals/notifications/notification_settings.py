"""The choices of a person: what to be told of, and when to be left alone."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.contrib.auth.models import User

from approvals.http.preferences import preferences_of, zone_named
from approvals.models import About, NotificationSettings
from approvals.notifications.subjects import Item


def notification_settings_of(person: User) -> NotificationSettings:
    """The person's choices; unsaved, with the defaults, for who chose nothing."""
    chosen = NotificationSettings.objects.filter(user=person.pk).first()
    return chosen or NotificationSettings(user=person)


def wants(chosen: NotificationSettings, item: Item) -> bool:
    if item.about == About.QUESTION:
        return chosen.questions
    if item.about == About.DOUBT:
        return chosen.in_doubt
    return chosen.waiting and (item.is_high or not chosen.only_high)


def zone_of(chosen: NotificationSettings) -> ZoneInfo:
    """The person's: as they chose it, else that of the browser they set this in."""
    return zone_named(preferences_of(chosen.user).time_zone or chosen.time_zone)


def quiet_until(chosen: NotificationSettings, now: datetime) -> datetime | None:
    """The end of the quiet hours, if it is quiet now in the person's time zone."""
    begin, end = chosen.quiet_from, chosen.quiet_until
    if begin is None or end is None or begin == end:
        return None
    local = now.astimezone(zone_of(chosen))
    clock = local.time()
    is_quiet = begin <= clock < end if begin < end else clock >= begin or clock < end
    if not is_quiet:
        return None
    day = local.date() if clock < end else local.date() + timedelta(days=1)
    return datetime.combine(day, end, local.tzinfo)


class Audience:
    """Tells if anybody is to be told at all in some way; asked at most once in some seconds.

    Proposals are the hot path: where nobody asked to be told, they owe nothing.
    """

    ASKED_EVERY_S = 5.0

    def __init__(self) -> None:
        self._asked_at, self._is_there = 0.0, False

    def ask(self) -> bool:
        raise NotImplementedError

    def is_there(self) -> bool:
        now = time.monotonic()
        if not self._asked_at or now - self._asked_at > self.ASKED_EVERY_S:
            self._asked_at, self._is_there = now, self.ask()
        return self._is_there

    def forget(self) -> None:
        self._asked_at = 0.0
