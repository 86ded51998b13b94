"""Project wiring: the REST interface and the rendering of its errors."""

from __future__ import annotations

import logging
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.parser import Parser

from a2a.rest import tasks, workers
from approvals.http.middleware import UNREADABLE, answer_outage, too_large, unreadable
from approvals.http.reference import openapi
from approvals.http.reference.api_page import ApiPage
from approvals.http.reference.openapi import DescribedAPI
from ledger.api import routers
from ledger.api.http import UnstorableText, not_authenticated, parse_json, problem, problem_of
from ledger.errors import LedgerError, UnsafeText

logger = logging.getLogger(__name__)


class StrictJSON(Parser):
    """JSON as RFC 8259 has it: no NaN, no name twice, no nesting without end."""

    def parse_body(self, request: HttpRequest) -> Any:
        return parse_json(request.body)


api = DescribedAPI(
    title="Assent",
    version="1",
    description="Agents propose; people sign off; workers commit, exactly once.",
    parser=StrictJSON(),
    docs=ApiPage(),
    urls_namespace="api-v1",
    openapi_extra=openapi.info(),
)
for prefix, router in routers.items():
    api.add_router(prefix, router)
api.add_router("/tasks", tasks.router)
api.add_router("/work", workers.router)


@api.exception_handler(LedgerError)
def on_refusal(request: HttpRequest, error: LedgerError) -> HttpResponse:
    return problem_of(error)


@api.exception_handler(ValidationError)
def on_invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    errors = [{"field": field_of(item), "message": item["msg"]} for item in error.errors]
    return problem(
        422,
        "invalid_request",
        "The request is not valid",
        faults_in_words(error.errors),
        "Correct the fields named in errors. Nothing was changed.",
        errors=errors[:50],
    )


def faults_in_words(errors: list[dict[str, Any]]) -> str:
    """The first three faults in words: ``reason: at most 2,000 characters.``"""
    shown = [f"{field_of(error)}: {fault(error)}." for error in errors]
    more = [f"{len(errors) - 3} more in errors."] if len(errors) > 3 else []
    return " ".join(shown[:3] + more)


def field_of(error: dict[str, Any]) -> str:
    """The field as the request has it: ``arguments.amount``; ``body`` for all of a body."""
    source, *path = error["loc"]
    # The first step within a body is the name of a parameter of ours.
    return ".".join(map(str, path[1:] if source == "body" else path)) or "body"


def fault(error: dict[str, Any]) -> str:
    """The fault of one field, in a few words."""
    limits = error.get("ctx", {})
    template = {
        "missing": "required, and not there",
        "extra_forbidden": "not a field of this request",
        "string_too_long": "at most {max_length:,} characters",
        "string_too_short": "at least {min_length:,} characters",
        "too_long": "at most {max_length:,} entries",
        "too_short": "at least {min_length:,} entries",
        "greater_than": "more than {gt}",
        "greater_than_equal": "{ge} or more",
        "less_than": "less than {lt}",
        "less_than_equal": "at most {le}",
        "uuid_parsing": "an id (UUID)",
        "string_type": "a text",
    }.get(error["type"])
    return template.format(**limits) if template else str(error["msg"]).rstrip(".")


@api.exception_handler(AuthenticationError)
def on_stranger(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    return not_authenticated()


@api.exception_handler(RequestDataTooBig)
def on_huge(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    return too_large()


@api.exception_handler(Http404)
def on_missing(request: HttpRequest, error: Http404) -> HttpResponse:
    return problem(404, "not_found", "Not found", "There is nothing here.", "See /api/v1/docs.")


@api.exception_handler(HttpError)
def on_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    cause = error.__cause__  # of a body that the parser refused
    if isinstance(cause, UnstorableText):
        return problem_of(UnsafeText(f"In the body {cause}."))
    codes = {400: "malformed", 405: "method_not_allowed"}
    detail = f"{error}: {cause}" if cause else str(error)
    return unreadable(detail, error.status_code, codes.get(error.status_code, "refused"))


def on_unreadable(request: HttpRequest, error: Any) -> HttpResponse:
    return unreadable(str(error))


for kind in UNREADABLE:
    api.add_exception_handler(kind, on_unreadable)


@api.exception_handler(OperationalError)
@api.exception_handler(InterfaceError)
def on_outage(request: HttpRequest, error: Exception) -> HttpResponse:
    return answer_outage(request, error)


@api.exception_handler(Exception)
def on_bug(request: HttpRequest, error: Exception) -> HttpResponse:
    logger.exception("unexpected failure of %s %s", request.method, request.path)
    return problem(
        500,
        "internal",
        "Assent failed",
        "Something unexpected went wrong; it was logged.",
        "Repeat the request with the same Idempotency-Key: it is done at most once.",
    )
