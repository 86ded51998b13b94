"""Every refusal as application/problem+json (RFC 9457)."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from ledger.errors import LedgerError
from ledger.http.responses import json_response

# Stable names, not addresses; docs/errors.md lists them.
PROBLEM_TYPE = "urn:assent:problem:"


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
        "Send Authorization: Bearer <token>; an operator issues tokens in the admin.",
    )
    response["WWW-Authenticate"] = 'Bearer realm="assent"'
    return response


def problem_of(error: LedgerError) -> HttpResponse:
    response = problem(
        error.status, error.code, error.title, error.detail, error.hint, **error.extra
    )
    if retry_after := getattr(error, "retry_after_s", None):
        response["Retry-After"] = str(retry_after)
    return response
