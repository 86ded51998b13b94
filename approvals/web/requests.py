"""What views ask of every request of the desk."""

from __future__ import annotations

from django.http import HttpRequest


def tenants_of_request(request: HttpRequest) -> frozenset[str]:
    return frozenset(request.tenants)  # type: ignore[attr-defined]


def wants_fragment(request: HttpRequest) -> bool:
    """The script that keeps the page live asks for the part that it replaces."""
    return request.headers.get("HX-Request") == "true"
