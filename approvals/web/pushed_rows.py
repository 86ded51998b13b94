"""Rows for many open desks, rendered once for all whose pages show the same.

For most people a row depends on their roles alone. Whoever is involved otherwise (has voted, keeps
its agent) fetches it; see ``inbox.involved``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone, translation

from approvals.desk import Viewer, inbox, standing_for, stopped_among, voters_of
from approvals.http.preferences import TIME_ZONE_COOKIE, formats_of, zone_named
from approvals.models import Preferences
from approvals.web.open_sessions import OpenSession

# Between two looks of a desk at its whole list, for rows that are only counted there. Each takes
# some 40 ms of a processor; all desks together take at most half of one.
LEAST_PAUSE_S, PAUSE_OF_A_DESK_S = 2, 0.08
NOBODY = "user:0"  # has roles, and nothing to do with any row


@dataclass(frozen=True, slots=True)
class Reader:
    """Everything that rows depend on, apart from the person: the same for many."""

    tenants: frozenset[str]
    roles: frozenset[tuple[str, frozenset[str]]]
    language: str
    zone: str
    formats: str


class Browser(NamedTuple):
    """The language and the time zone of a browser, for who has chosen none."""

    language: str
    zone: str


class Rows(NamedTuple):
    """As ``/rows`` answers them. ``not_for`` are the principals who have to fetch theirs."""

    html: str
    not_for: frozenset[str]


def browser_of(cookies: dict[str, str], accepts: str) -> Browser:
    """``accepts`` is the header Accept-Language."""
    request = HttpRequest()
    request.COOKIES, request.META = cookies, {"HTTP_ACCEPT_LANGUAGE": accepts}
    return Browser(
        translation.get_language_from_request(request), cookies.get(TIME_ZONE_COOKIE, "")
    )


def reader_of(session: OpenSession, browser: Browser) -> Reader:
    chosen = session.preferences or Preferences()
    return Reader(
        session.tenants,
        session.roles,
        chosen.language or browser.language,
        str(zone_named(chosen.time_zone or browser.zone)),
        chosen.formats,
    )


def rows_for(reader: Reader, subjects: Collection[str], desks: int) -> Rows:
    """The rows of these transactions and tasks, as they are now, for one of so many open desks."""
    viewer = Viewer(NOBODY, dict(reader.roles), reader.tenants)
    ids, now = [UUID(subject) for subject in subjects], timezone.now()
    with (
        translation.override(reader.language),
        timezone.override(zone_named(reader.zone)),
        formats_of(reader.formats),
    ):
        change = inbox.changed(ids, viewer, inbox.Filters(), now)
        context = {
            "rows": change.entries,
            "has_hidden": change.has_hidden,
            "filters": inbox.Filters(),
            "voters": voters_of(entry.tx for entry in change.entries if entry.tx),
            "stopped": stopped_among(
                (entry.tx for entry in change.entries if entry.tx), standing_for(reader.tenants)
            ),
            "viewer": viewer,
            "counts": inbox.counts(viewer),
            "now": now,
            "refresh_after": max(LEAST_PAUSE_S, round(desks * PAUSE_OF_A_DESK_S)),
        }
        html = render_to_string("desk/_rows.html", context)
    return Rows(html, inbox.involved(reader.tenants, ids))
