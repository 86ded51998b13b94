"""Project wiring: the REST interface, and how whatever goes wrong in it is said."""

from __future__ import annotations

import json
import logging
import math
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.parser import Parser

from a2a.rest import tasks, workers
from approvals.http import openapi
from approvals.http.openapi import DescribedAPI
from ledger.api.log import router as log_router
from ledger.api.problems import not_authenticated, problem, problem_of
from ledger.api.tools import tools_router
from ledger.api.transactions import router
from ledger.errors import LedgerError

logger = logging.getLogger(__name__)


class StrictJSON(Parser):
    """JSON as RFC 8259 has it: no NaN, no name twice, no nesting without end."""

    def parse_body(self, request: HttpRequest) -> Any:
        try:
            return json.loads(
                request.body,
                parse_constant=_refuse_constant,
                parse_float=_finite,
                object_pairs_hook=_no_name_twice,
            )
        except RequestDataTooBig:
            raise
        except (ValueError, RecursionError) as refusal:
            raise HttpError(400, f"The body is not JSON: {refusal}") from refusal


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    """``1e400`` is JSON, but no number that anybody could read back."""
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is too large a number")
    return number


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("an object names the same member twice")
    return result


api = DescribedAPI(
    title="Assent",
    version="1",
    description="Agents propose; people sign off; workers commit, exactly once.",
    parser=StrictJSON(),
    urls_namespace="api-v1",
    openapi_extra=openapi.info(),
)
api.add_router("/transactions", router)
api.add_router("/tools", tools_router)
api.add_router("/log", log_router)
api.add_router("/tasks", tasks.router)
api.add_router("/work", workers.router)


@api.exception_handler(LedgerError)
def on_refusal(request: HttpRequest, error: LedgerError) -> HttpResponse:
    return problem_of(error)


@api.exception_handler(ValidationError)
def on_invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    errors = [
        {"field": ".".join(map(str, item["loc"])), "message": item["msg"]} for item in error.errors
    ]
    return problem(
        422,
        "invalid_request",
        "The request is not valid",
        f"{len(errors)} field{'' if len(errors) == 1 else 's'} cannot be used as sent.",
        "Correct the fields named in errors. Nothing was changed.",
        errors=errors[:50],
    )


@api.exception_handler(AuthenticationError)
def on_stranger(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    return not_authenticated()


@api.exception_handler(RequestDataTooBig)
def on_huge(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    return problem(
        413,
        "too_large",
        "Too large",
        "The body is larger than 256 KiB.",
        "Send references instead.",
    )


@api.exception_handler(Http404)
def on_missing(request: HttpRequest, error: Http404) -> HttpResponse:
    return problem(404, "not_found", "Not found", "There is nothing here.", "See /api/v1/docs.")


@api.exception_handler(HttpError)
def on_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    codes = {400: "malformed", 405: "method_not_allowed"}
    return problem(
        error.status_code,
        codes.get(error.status_code, "refused"),
        "The request cannot be read",
        str(error),
        "Nothing was changed. Send JSON as /api/v1/docs describes it.",
    )


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
