"""Contents of every request of the desk, for views and templates: tenants, roles, notices."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from approvals.desk import Viewer, inbox
from approvals.http.middleware import DeskRequest, Roles
from approvals.models import Role
from approvals.people import notice_text, notices_for, principal_of
from approvals.presentation import texts_for_scripts
from ledger import workers
from ledger.models import RegisteredTool, Review

MOST_NOTICES = 5
MOST_REVIEWS = 100  # that are counted
SILENT_S = 10.0  # another sweeper takes over within 5 s


def tenants_of_request(request: HttpRequest) -> frozenset[str]:
    """The tenants whose rows the user of this request may see."""
    return frozenset(cast(DeskRequest, request).tenants)


def roles_of_request(request: HttpRequest) -> Roles:
    """The roles of the user of this request, by tenant."""
    return cast(DeskRequest, request).roles


def viewer_of(request: HttpRequest) -> Viewer:
    """The viewer of the inbox: the person of this request, with their roles and tenants."""
    principal = str(principal_of(request.user))  # type: ignore[arg-type]
    return Viewer(principal, roles_of_request(request), tenants_of_request(request))


def waiting_count(request: HttpRequest) -> int:
    """The number in the badge, counted once for each request."""
    counted: int | None = getattr(request, "waiting_count", None)
    if counted is None:
        counted = inbox.count(viewer_of(request))
        request.waiting_count = counted  # type: ignore[attr-defined]
    return counted


def wants_fragment(request: HttpRequest) -> bool:
    """True if the request comes from htmx or our script, which replace one part of the page."""
    return request.headers.get("HX-Request") == "true"


def _sweeper_silent() -> float:
    """Seconds since a sweeper last ran, if that is too long ago for deadlines to be kept; or 0."""
    beat = workers.last_beat()
    silent = (timezone.now() - beat).total_seconds() if beat else 0.0
    return silent if silent > SILENT_S else 0.0


def _notices(person: Any) -> list[dict[str, Any]]:
    return [
        {"pk": notice.pk, "at": notice.event.at, "text": notice_text(notice.event, person)}
        for notice in notices_for(person).order_by("-pk")[:MOST_NOTICES]
    ]


def _reviews_waiting(roles: Roles) -> int:
    """The number that waits for this person's review, counted up to ``MOST_REVIEWS``."""
    tenants = [tenant for tenant, names in roles.items() if Role.APPROVER in names]
    return Review.objects.waiting(tenants)[:MOST_REVIEWS].count() if tenants else 0


def _held_tools(roles: Roles) -> list[RegisteredTool]:
    """The tools that wait for an operator to look at what their owners changed."""
    tenants = [tenant for tenant, names in roles.items() if Role.OPERATOR in names]
    return list(RegisteredTool.objects.held().filter(tenant__in=tenants)[:MOST_NOTICES])


def desk(request: HttpRequest) -> dict[str, Any]:
    """The template variables that every page of the desk has."""
    live = urlsplit(settings.LIVE_URL)
    context: dict[str, Any] = {
        "now": timezone.now(),
        "push_key": settings.VAPID_PUBLIC_KEY,
        "socket_url": f"{'wss' if live.scheme == 'https' else 'ws'}://{live.netloc}/ws/desk",
        "words": texts_for_scripts,
    }
    if request.user.is_authenticated:
        person = request.user
        # Lazy: the admin's pages do not show these, nor does a part of a page.
        context["notices"] = SimpleLazyObject(lambda: _notices(person))
        is_installed = apps.is_installed("approvals.slack")
        context["has_slack"] = is_installed and bool(settings.SLACK_BOT_TOKENS)
        context["waiting_count"] = SimpleLazyObject(lambda: waiting_count(request))
        roles = roles_of_request(request)
        context["has_role"] = bool(roles)
        context["reviews_waiting"] = SimpleLazyObject(lambda: _reviews_waiting(roles))
        managers = {Role.APPROVER, Role.OPERATOR}
        context["has_insight"] = apps.is_installed("approvals.insight")
        context["is_manager"] = any(managers & set(names) for names in roles.values())
        context["is_operator"] = any(Role.OPERATOR in names for names in roles.values())
        if context["is_operator"]:
            context["sweeper_silent"] = _sweeper_silent
            context["held_tools"] = SimpleLazyObject(lambda: _held_tools(roles))
    return context
