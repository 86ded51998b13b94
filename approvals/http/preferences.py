"""Middleware: pages in the language, time zone and formats of the person who reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation

from approvals.http.middleware import GetResponse, answer_outage
from approvals.models import Preferences
from ledger.foundation.postgres.sessions import CONNECTION_LOST

# Machines read English, whatever language their client asks for.
FOR_MACHINES = ("/static/", "/.well-known/", "/api/", "/a2a/", "/log/", "/metrics")
TIME_ZONE_COOKIE = "time_zone"  # what the browser says; written by clock.js


# The locale of dates, numbers and money, as ``de-CH``; empty: as the language has them.
_formats: ContextVar[str] = ContextVar("formats", default="")


@contextmanager
def formats_of(locale: str) -> Iterator[None]:
    """Dates, numbers and money are written as in this locale; what is signed never is."""
    token = _formats.set(locale)
    try:
        yield
    finally:
        _formats.reset(token)


def chosen_formats() -> str:
    """The locale that the reader chose; empty where they chose none."""
    return _formats.get()


class PersonalPages:
    """Activates language, time zone and formats: the account's, else the browser's; sets
    ``request.preferences``."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith(FOR_MACHINES):
            return self.get_response(request)
        try:
            preferences = preferences_of(request.user)
        except CONNECTION_LOST as failure:  # `DatabaseOutages` hears of views only
            return answer_outage(request, failure)
        request.preferences = preferences  # type: ignore[attr-defined]
        language = preferences.language or translation.get_language_from_request(request)
        zone = preferences.time_zone or request.COOKIES.get(TIME_ZONE_COOKIE, "")
        with (
            translation.override(language),
            timezone.override(zone_named(zone)),
            formats_of(preferences.formats),
        ):
            response = self.get_response(request)
        response.headers.setdefault("Content-Language", language)
        return response


def preferences_of(user: object) -> Preferences:
    """The person's choices; unsaved and empty for who chose nothing or is not signed in."""
    if not isinstance(user, User) or not user.is_authenticated:
        return Preferences()
    return Preferences.objects.filter(user=user.pk).first() or Preferences(user=user)


def zone_named(name: str) -> ZoneInfo:
    """The time zone of this name; the installation's own for a name that does not exist."""
    return ZoneInfo(name if name in _zones() else settings.TIME_ZONE)


def zones_to_choose() -> list[tuple[str, str]]:
    """Each zone by its name, and in words."""
    names = [*sorted(name for name in _zones() if "/" in name), "UTC"]
    return [(name, name.replace("_", " ")) for name in names]


_zones = cache(available_timezones)
