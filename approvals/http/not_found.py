"""Middleware: the page for people where nothing is, also while debugging."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import get_resolver

from approvals.http.middleware import GetResponse


class MissingPages:
    """With ``DEBUG`` Django answers with its URL patterns, which tell a newcomer nothing."""

    def __init__(self, get_response: GetResponse) -> None:
        if not settings.DEBUG:
            raise MiddlewareNotUsed
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        is_nowhere = response.status_code == 404 and request.resolver_match is None
        return _missing(request) if is_nowhere else response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return _missing(request) if isinstance(exception, Http404) else None


def _missing(request: HttpRequest) -> HttpResponse:
    handler = cast(Callable[..., HttpResponse], get_resolver().resolve_error_handler(404))
    return handler(request, exception=Http404())
