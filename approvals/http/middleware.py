"""Middleware: security headers, tenants of the person, problems under /api/."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.http.multipartparser import MultiPartParserError
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import render
from django.utils.functional import SimpleLazyObject
from django.views.defaults import server_error

from approvals.models import Membership
from ledger import principals
from ledger.api.http import CERTAIN, database_away, problem, problem_of
from ledger.foundation.characters import is_storable
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.foundation.telemetry import log_context
from ledger.models import Tenant

CACHED_BY_THEIR_OWN_RULES = ("/static/", "/.well-known/", "/a2a/", "/log/")
# Whoever calls these reads JSON, whatever happens.
FOR_MACHINES = (
    *("/api/", "/humanlayer/", "/scim/"),
    *("/oauth/token", "/oauth/revoke", "/oauth/register"),
)
Roles = Mapping[str, frozenset[str]]  # the roles of one person, by tenant
GetResponse = Callable[[HttpRequest], HttpResponse]


def content_security_policy(sends_to: str = "") -> str:
    """Nothing inline, nothing from elsewhere; live updates may come from ``LIVE_URL``.

    ``sends_to``: where else an answer to a form of the page may redirect.
    """
    live = urlsplit(settings.LIVE_URL)
    socket = f"{'wss' if live.scheme == 'https' else 'ws'}://{live.netloc}"
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "font-src 'self'",
            "manifest-src 'self'",
            "worker-src 'self'",
            f"connect-src 'self' {settings.LIVE_URL} {socket}",
            f"form-action 'self' {sends_to}".rstrip(),
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    )


class SecurityHeaders:
    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.policy = content_security_policy()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", self.policy)
        response.headers.setdefault(
            "Permissions-Policy", "camera=(), geolocation=(), microphone=()"
        )
        if not request.path.startswith(CACHED_BY_THEIR_OWN_RULES):
            # Pages, exports, the admin, REST: nothing between us and the reader keeps them.
            response.headers.setdefault("Cache-Control", "no-store")
        return response


class CompressedPages(GZipMiddleware):
    """Compresses pages and exports; a list of 500 rows is a twentieth as long then.

    Against BREACH, which guesses a secret by the length of a page that also repeats input: the CSRF
    token is masked anew in each page, Django adds up to 100 random bytes to each answer, and with
    SameSite=Lax another site can only open pages in a window, not fetch them by the thousand.
    Answers to agents are short and may have tokens in them: they stay as they are.
    """

    max_random_bytes = 100
    compressed = ("text/html", "text/csv")

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if response.headers.get("Content-Type", "").startswith(self.compressed):
            return super().process_response(request, response)
        return response


class StorableTexts:
    """Refuses texts that no column can have, before a view looks for them or keeps them.

    Views that are exempt from CSRF read their body themselves, with ``parse_json``. In a query such
    a character is replaced, as Django does with bytes that are no UTF-8: nothing fits it.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        query = request.META.get("QUERY_STRING", "")
        request.META["QUERY_STRING"] = re.sub("%00|\0", "%EF%BF%BD", query)
        request.COOKIES = {
            name: value for name, value in request.COOKIES.items() if is_storable(value)
        }
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, path: Mapping[str, Any]
    ) -> HttpResponse | None:
        if not all(is_storable(str(part)) for part in path.values()):
            raise Http404
        if getattr(view, "csrf_exempt", False):
            return None
        try:
            fields = request.POST.lists()
        except RequestDataTooBig:
            return too_large()
        except UNREADABLE as refusal:
            return unreadable(str(refusal))
        if all(is_storable(text) for name, texts in fields for text in (name, *texts)):
            return None
        return unreadable("The form has a text that cannot be stored.")


# A form without its boundary, too many fields, too many files.
UNREADABLE = (MultiPartParserError, BadRequest, SuspiciousOperation)


def unreadable(detail: str, status: int = 400, code: str = "malformed") -> HttpResponse:
    hint = "Nothing was changed. Send the body as /api/v1/docs describes it."
    return problem(status, code, "The request cannot be read", detail, hint)


def too_large() -> HttpResponse:
    """The answer to a body beyond Django's limit, which the gate lets pass for its framing."""
    return problem(
        413,
        "too_large",
        "Too large",
        f"The body is larger than {settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 1024} KiB.",
        "Send references instead.",
    )


class DeskRequest(HttpRequest):
    """A request with what ``TenantsOfUser`` adds; each attribute is read when first used."""

    roles: Roles
    tenants: frozenset[str]


class TenantsOfUser:
    """Sets ``request.roles`` and ``request.tenants``: see ``DeskRequest``."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        desk_request = cast(DeskRequest, request)
        desk_request.roles = cast(Roles, SimpleLazyObject(lambda: roles_of(request.user)))
        desk_request.tenants = cast(
            frozenset[str],
            SimpleLazyObject(lambda: tenants_of(request.user, desk_request.roles)),
        )
        response = self.get_response(request)
        user = getattr(request, "_cached_user", None)  # nobody is read for the log alone
        if user is not None and user.is_authenticated:
            log_context.note(principal=principals.user(user.pk, ""))
        return response


def roles_of(user: object) -> dict[str, frozenset[str]]:
    """The roles that a person was given, by tenant. A superuser has none by being one."""
    if not isinstance(user, User) or not user.is_active:
        return {}
    roles_by_tenant: dict[str, set[str]] = defaultdict(set)
    for membership in Membership.objects.filter(user=user.pk):
        roles_by_tenant[membership.tenant_id].add(membership.role)
    return {tenant: frozenset(roles) for tenant, roles in roles_by_tenant.items()}


def tenants_of(user: object, roles: Roles | None = None) -> frozenset[str]:
    """The tenants whose rows this person may see; a superuser sees all, and decides on none.

    ``roles`` are those of this person, for whoever has read them already.
    """
    if getattr(user, "is_superuser", False) and getattr(user, "is_active", False):
        return frozenset(Tenant.objects.values_list("slug", flat=True))
    return frozenset(roles_of(user) if roles is None else roles)


class ProblemsForMachines:
    """For machines Django's own error pages become problem+json, like all other errors."""

    PROBLEMS = {
        400: ("malformed", "The request cannot be read", "Correct it; nothing was changed."),
        404: ("not_found", "There is nothing here", "See /api/v1/docs for what there is."),
        405: ("method_not_allowed", "This method is not for this address", "See /api/v1/docs."),
        413: ("too_large", "Too large", "Send less than 256 KiB."),
    }

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        if response.status_code < 400 or not is_page or not request.path.startswith(FOR_MACHINES):
            return response
        code, title, hint = self.PROBLEMS.get(
            response.status_code, ("internal", "Assent failed", "Try again with the same key.")
        )
        answer = problem(response.status_code, code, title, f"{request.method} failed.", hint)
        if "Allow" in response.headers:
            answer["Allow"] = response.headers["Allow"]
        return answer


class DatabaseOutages:
    """Middleware: a view that could not reach the database in time answers 503."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, failure: Exception) -> HttpResponse | None:
        return answer_outage(request, failure) if isinstance(failure, CONNECTION_LOST) else None


def failed(request: HttpRequest) -> HttpResponse:
    """The answer to what no view has dealt with: middleware may need the database, too."""
    failure = sys.exc_info()[1]
    if isinstance(failure, CONNECTION_LOST):
        return answer_outage(request, failure)
    return server_error(request)


def answer_outage(request: HttpRequest, failure: Exception) -> HttpResponse:
    """A problem for machines, a page for people. Says whether anything can have been changed."""
    is_read = request.method in {"GET", "HEAD"}
    away = database_away(failure, f"{request.method} {request.path}", is_read=is_read)
    if request.path.startswith(FOR_MACHINES):
        return problem_of(away)
    response = render(None, "503.html", {"is_certain": away.detail == CERTAIN}, status=503)
    response["Retry-After"] = str(away.retry_after_s)
    return response
