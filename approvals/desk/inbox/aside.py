"""Transactions that a person has set aside: off their own list for a while, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from approvals.desk.viewers import Viewer
from approvals.models import LAST_PART, LEAST_LEFT, SetAside
from ledger.models import Transaction

HOUR, NEXT, LATEST = "hour", "next", "latest"
MORNING, AFTERNOON = time(9), time(14)


class Choice(NamedTuple):
    """A time that the page offers, in words."""

    name: str
    label: str
    at: datetime


def is_aside(principal: str) -> Exists:
    """The condition that a transaction is set aside by this person now."""
    own = SetAside.objects.standing().filter(person=principal)
    return Exists(own.filter(transaction=OuterRef("pk")))


def set_aside_by(viewer: Viewer) -> dict[UUID, datetime]:
    """The transactions that the person has set aside, each with the time when it is back."""
    own = SetAside.objects.standing().filter(
        person=viewer.principal, transaction__tenant__in=viewer.tenants
    )
    return dict(own.values_list("transaction", "back_at"))  # type: ignore[misc]


def choices(row: Transaction, now: datetime) -> list[Choice]:
    """Until when it can be set aside; nothing if it expires too soon."""
    left = max((row.expires_at - row.created_at) / LAST_PART, LEAST_LEFT)
    latest = Choice(LATEST, _("Until shortly before it expires"), row.expires_at - left)
    offered = [Choice(HOUR, _("For an hour"), now + timedelta(hours=1)), _next(now), latest]
    return [choice for choice in offered if now < choice.at <= latest.at]


def _next(now: datetime) -> Choice:
    """The next morning or afternoon that is more than an hour away, where the person is."""
    return next(choice for choice in _parts_of_days(now) if choice.at > now + timedelta(hours=1))


def _parts_of_days(now: datetime) -> Iterator[Choice]:
    zone, today = timezone.get_current_timezone(), timezone.localdate(now)
    tomorrow = today + timedelta(days=1)
    for day, begin, label in (
        (today, MORNING, _("Until this morning")),
        (today, AFTERNOON, _("Until this afternoon")),
        (tomorrow, MORNING, _("Until tomorrow morning")),
    ):
        yield Choice(NEXT, label, datetime.combine(day, begin, zone))


def set_aside(row: Transaction, viewer: Viewer, name: str, now: datetime) -> None:
    """Until the choice of this name; until the latest one if the page offered it too long ago."""
    times = {choice.name: choice.at for choice in choices(row, now) if choice.name != LATEST}
    own = SetAside.objects.filter(person=viewer.principal)
    own.exclude(pk__in=own.standing().values("pk")).delete()
    own.update_or_create(
        person=viewer.principal,
        transaction=row,
        defaults={"until": times.get(name), "set_at": Now()},
    )


def take_back(row: Transaction, viewer: Viewer) -> None:
    SetAside.objects.filter(person=viewer.principal, transaction=row).delete()
