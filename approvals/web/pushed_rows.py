"""Rows for many open desks, rendered once for all whose pages show the same.

What a row is to somebody depends on their roles, and on whether they have to do with it otherwise:
they have voted, proposed it, keep its agent, are named by a question. Those few fetch theirs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone, translation

from approvals.desk import Viewer, inbox, voters_of
from approvals.http.preferences import TIME_ZONE_COOKIE, formats_of, zone_named
from approvals.models import Preferences
from ledger.models import Agent, Decision, Transaction

NOBODY = "user:0"  # has roles, and nothing to do with any row


@dataclass(frozen=True, slots=True)
class Reader:
    """All that rows depend on but the person, so that it is the same for many."""

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


def reader_of(
    tenants: frozenset[str],
    roles: frozenset[tuple[str, frozenset[str]]],
    preferences: Preferences,
    browser: Browser,
) -> Reader:
    zone = zone_named(preferences.time_zone or browser.zone)
    language = preferences.language or browser.language
    return Reader(tenants, roles, language, str(zone), preferences.formats)


def rows_for(reader: Reader, subjects: Collection[str]) -> Rows:
    """The rows of these transactions and tasks, as they are now."""
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
            "viewer": viewer,
            "waiting_count": inbox.count(viewer),
            "now": now,
        }
        html = render_to_string("desk/_rows.html", context)
    return Rows(html, _involved(reader.tenants, ids))


def _involved(tenants: frozenset[str], ids: list[UUID]) -> frozenset[str]:
    """Who has more to do with these rows, or with those that are counted, than by their roles."""
    counted = inbox.needs_somebody(tenants)
    of_rows = Transaction.objects.for_tenants(tenants).filter(Q(pk__in=ids) | Q(pk__in=counted))
    decided = Decision.objects.filter(transaction__in=of_rows).values_list("principal", "kept_by")
    asked = inbox.questions(tenants).values_list("may_answer", "task__submitted_by")
    return frozenset(
        {
            *of_rows.filter(proposed_by__startswith="user:").values_list("proposed_by", flat=True),
            *of_rows.exclude(settlement=None).values_list("settlement__by", flat=True),
            *Agent.objects.filter(tenant__in=tenants).values_list("kept_by", flat=True),
            *(name for names in decided for name in names),
            *(name for may_answer, by in asked for name in (*may_answer, by)),
        }
    )
