"""Every refusal as application/problem+json (RFC 9457)."""

from __future__ import annotations

import logging
from typing import Any

from django.http import HttpResponse

from ledger.api.http.responses import json_response
from ledger.errors import DatabaseAway, LedgerError, PlanRefused
from ledger.foundation.postgres import sessions
from ledger.transactions import refused_by_tool

logger = logging.getLogger(__name__)

# Stable names, not addresses; docs/errors.md lists them.
PROBLEM_TYPE = "urn:assent:problem:"
CERTAIN = "Nothing was changed."
UNCERTAIN = "It is not known whether anything was changed."


def problem(
    status: int, code: str, title: str, detail: str, hint: str = "", **extra: Any
) -> HttpResponse:
    body = {
        "type": PROBLEM_TYPE + code,
        "title": title,
        "status": status,
        "detail": detail,
        "hint": hint,
        "code": code,
        **extra,
    }
    return json_response(body, status, content_type="application/problem+json", default=str)


def not_authenticated() -> HttpResponse:
    response = problem(
        401,
        "not_authenticated",
        "Not authenticated",
        "The bearer token is missing, unknown, revoked or expired.",
        "Send Authorization: Bearer <token>; an operator issues tokens in Settings, Agents.",
    )
    response["WWW-Authenticate"] = 'Bearer realm="assent"'
    return response


def problem_of(error: LedgerError) -> HttpResponse:
    extra = error.extra
    if isinstance(error, PlanRefused):
        extra = {**extra, "outcome": refused_by_tool(str(error.detail)).as_json()}
    response = problem(error.status, error.code, error.title, error.detail, error.hint, **extra)
    if retry_after := getattr(error, "retry_after_s", None):
        response["Retry-After"] = str(retry_after)
    return response


def database_away(failure: Exception, request: str, *, is_read: bool) -> DatabaseAway:
    """The answer to a request that the database did not answer, which is logged.

    ``failure`` is one of ``sessions.CONNECTION_LOST``; ``request`` names the request in the log.
    """
    line = str(failure).strip().partition("\n")[0]
    logger.warning("%s: no answer of the database: %s", request, line)
    is_certain = is_read or not sessions.may_have_committed(failure)
    return DatabaseAway(CERTAIN if is_certain else UNCERTAIN)
