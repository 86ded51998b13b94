"""The tenants and roles of a request of the desk, and the kind of answer that it wants."""

from __future__ import annotations

from typing import cast

from django.http import HttpRequest

from approvals.http.middleware import DeskRequest, Roles


def tenants_of_request(request: HttpRequest) -> frozenset[str]:
    """The tenants whose rows the user of this request may see."""
    return frozenset(cast(DeskRequest, request).tenants)


def roles_of_request(request: HttpRequest) -> Roles:
    """The roles of the user of this request, by tenant."""
    return cast(DeskRequest, request).roles


def wants_fragment(request: HttpRequest) -> bool:
    """Whether the request comes from htmx or our script, which replace one part of the page."""
    return request.headers.get("HX-Request") == "true"
