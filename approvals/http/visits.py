"""Middleware: when a person was last on the desk, and since when they were away."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.http import HttpRequest, HttpResponse

from approvals.http.middleware import GetResponse
from approvals.models import Visit

AWAY_AFTER = timedelta(minutes=30)  # without a page of the desk
NOTED_EVERY = timedelta(minutes=1)
# What scripts ask for by themselves, beside parts of pages.
BY_SCRIPTS = {"desk:rows", "desk:notifications-due"}

# An absence stays until the inbox has told of it; most pages find that nothing is to be written.
_NOTE = """
    WITH noted AS (
        INSERT INTO approvals_visit AS visit (user_id, last_at) VALUES (%s, statement_timestamp())
        ON CONFLICT (user_id) DO UPDATE SET last_at = excluded.last_at, away_since =
            CASE WHEN visit.last_at < excluded.last_at - %s THEN visit.last_at
                 ELSE visit.away_since END
        WHERE visit.last_at < excluded.last_at - %s
        RETURNING away_since
    )
    SELECT away_since FROM noted
    UNION ALL
    SELECT away_since FROM approvals_visit WHERE user_id = %s AND NOT EXISTS (SELECT FROM noted)
"""


class Visits:
    """Sets ``request.away_since``: since when the person was away, until that has been told."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        if _is_by_a_person(request) and request.user.is_authenticated:
            request.away_since = note_visit(request.user.pk)  # type: ignore[attr-defined]


def _is_by_a_person(request: HttpRequest) -> bool:
    """A page or a form of the desk; not what a script of an open page asks for."""
    match = request.resolver_match
    if match is None or match.app_name != "desk" or match.view_name in BY_SCRIPTS:
        return False
    return request.method == "POST" or request.headers.get("HX-Request") != "true"


def note_visit(user_id: int) -> datetime | None:
    """The person is on the desk now. Returns since when they were away, if that is to be told."""
    with connection.cursor() as cursor:
        spans: list[Any] = [AWAY_AFTER, NOTED_EVERY]
        cursor.execute(_NOTE, [user_id, *spans, user_id])
        row = cursor.fetchone()
    return row[0] if row else None


def absence_is_told(user_id: int) -> None:
    Visit.objects.filter(user=user_id).update(away_since=None)
