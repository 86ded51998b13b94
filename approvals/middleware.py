"""What every request gets, whichever page it is for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject

from approvals.models import Membership
from ledger.models import Tenant

GetResponse = Callable[[HttpRequest], HttpResponse]


def content_security_policy() -> str:
    """Nothing inline, nothing from elsewhere; live updates may come from ``LIVE_URL``."""
    live = urlsplit(settings.LIVE_URL)
    socket = f"{'wss' if live.scheme == 'https' else 'ws'}://{live.netloc}"
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "font-src 'self'",
            f"connect-src 'self' {settings.LIVE_URL} {socket}",
            "form-action 'self'",
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
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        return response


class TenantsOfUser:
    """``request.roles`` (tenant → roles) and ``request.tenants``, asked for when first used."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.roles = SimpleLazyObject(lambda: roles_of(request.user))  # type: ignore[attr-defined]
        request.tenants = SimpleLazyObject(lambda: tenants_of(request.user))  # type: ignore[attr-defined]
        return self.get_response(request)


def roles_of(user: object) -> dict[str, frozenset[str]]:
    """The roles that a person was given, by tenant. A superuser has none by being one."""
    if not getattr(user, "is_authenticated", False) or not getattr(user, "is_active", False):
        return {}
    found: dict[str, set[str]] = defaultdict(set)
    rows = Membership.objects.filter(user_id=user.pk)  # type: ignore[attr-defined]
    for tenant, role in rows.values_list("tenant_id", "role"):
        found[tenant].add(role)
    return {tenant: frozenset(roles) for tenant, roles in found.items()}


def tenants_of(user: object) -> frozenset[str]:
    """The tenants whose rows this person may see; a superuser sees all, and decides on none."""
    if getattr(user, "is_superuser", False) and getattr(user, "is_active", False):
        return frozenset(Tenant.objects.values_list("slug", flat=True))
    return frozenset(roles_of(user))


