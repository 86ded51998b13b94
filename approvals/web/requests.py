"""Contents of every request of the desk, for views and templates: tenants, roles, notices."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from approvals.desk import Viewer, broken_glass, inbox, may_lift, scope_in_words, standing_for
from approvals.http.middleware import DeskRequest, Roles
from approvals.models import Role
from approvals.people import notice_text, notices_for, principal_of
from approvals.presentation import in_words, texts_for_scripts
from approvals.web import places
from ledger import workers
from ledger.errors import Sentence
from ledger.events import ChangeKind
from ledger.models import Brake, RegisteredTool

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


def counts_of(request: HttpRequest) -> inbox.Counts:
    """The numbers behind the badge, counted once for each request."""
    counted: inbox.Counts | None = getattr(request, "inbox_counts", None)
    if counted is None:
        counted = inbox.counts(viewer_of(request))
        request.inbox_counts = counted  # type: ignore[attr-defined]
    return counted


def brakes_of(request: HttpRequest) -> list[Brake]:
    """The brakes that stand in the tenants of this person, read once for each request."""
    standing: list[Brake] | None = getattr(request, "standing_brakes", None)
    if standing is None:
        standing = standing_for(tenants_of_request(request))
        request.standing_brakes = standing  # type: ignore[attr-defined]
    return standing


def wants_fragment(request: HttpRequest) -> bool:
    """True if the request comes from htmx or our script, which replace one part of the page."""
    return request.headers.get("HX-Request") == "true"


def _sweeper_silent() -> float:
    """Seconds since a sweeper last ran, if that is too long ago for deadlines to be kept; or 0."""
    beat = workers.last_beat()
    silent = (timezone.now() - beat).total_seconds() if beat else 0.0
    return silent if silent > SILENT_S else 0.0


def _notice(request: HttpRequest, person: Any) -> dict[str, Any] | None:
    """The newest notice. What a person did themselves is told on the page of their account only."""
    rows = notices_for(person).order_by("-pk")
    if not _page_of(request).startswith("desk:account"):
        rows = rows.exclude(event__principal=str(principal_of(person)))
    notice = rows.first()
    if notice is None:
        return None
    return {
        "pk": notice.pk,
        "at": notice.event.at,
        "text": notice_text(notice.event, person),
        "is_key": notice.event.kind == ChangeKind.SIGNING_KEY_ENROLLED,
    }


def _page_of(request: HttpRequest) -> str:
    """The name of the page's URL, as ``desk:inbox``."""
    return request.resolver_match.view_name if request.resolver_match else ""


def _brakes(request: HttpRequest, person: Any) -> list[dict[str, Any]]:
    """The brakes in the tenants of this person, and whether they may lift each."""
    principal, roles = str(principal_of(person)), roles_of_request(request)
    return [
        {
            "brake": brake,
            "what": scope_in_words(brake),
            "why": in_words(Sentence(brake.why)) if brake.is_hold else brake.why,
            "may_lift": may_lift(brake, principal, roles, is_superuser=person.is_superuser),
            "changed": _changed_tool(brake, roles),
        }
        for brake in brakes_of(request)
    ]


def _changed_tool(brake: Brake, roles: Roles) -> RegisteredTool | None:
    """The tool of a hold, for operators, who alone accept what has changed."""
    if not brake.is_hold or Role.OPERATOR not in roles.get(brake.tenant, ()):
        return None
    return RegisteredTool.objects.filter(tenant=brake.tenant, name=brake.tool).first()


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
        context |= _of_person(request)
    return context


def _of_person(request: HttpRequest) -> dict[str, Any]:
    """Lazy: the admin's pages do not show these, nor does a part of a page."""
    person, roles = request.user, roles_of_request(request)
    names = {name for of_tenant in roles.values() for name in of_tenant}
    context: dict[str, Any] = {
        "brakes": SimpleLazyObject(lambda: _brakes(request, person)),
        "broken_glass": SimpleLazyObject(lambda: broken_glass(tenants_of_request(request))),
        "account_notice": SimpleLazyObject(lambda: _notice(request, person)),
        "has_connections": bool(settings.AUTHORIZATION_SERVER),
        "has_slack": apps.is_installed("approvals.slack") and bool(settings.SLACK_BOT_TOKENS),
        "counts": SimpleLazyObject(lambda: counts_of(request)),
        "waiting_count": SimpleLazyObject(lambda: counts_of(request).total),
        "has_role": bool(roles),
        "is_manager": bool(names & {Role.APPROVER, Role.OPERATOR}),
        "is_operator": Role.OPERATOR in names,
        "places": SimpleLazyObject(lambda: _places(request, names)),
    }
    if context["is_operator"]:
        context["sweeper_silent"] = _sweeper_silent
    return context


def _places(request: HttpRequest, roles: Collection[str]) -> list[places.ShownPlace]:
    person: Any = request.user
    kinds = {*roles, *(["staff"] * person.is_staff), *(["superuser"] * person.is_superuser)}
    has_insight = apps.is_installed("approvals.insight")
    return places.places_of(kinds, _page_of(request), has_insight=has_insight)
