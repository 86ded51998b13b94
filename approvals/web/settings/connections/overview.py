"""The page of all connections of an operator's tenants with other agents."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from approvals.web.settings.connections.remote_agents import kept_remote_agents
from approvals.web.settings.connections.skills import kept_skills
from approvals.web.settings.operators import kept_tenants

SHOWN = 500  # of each kind


@login_required
@require_safe
def connections(request: HttpRequest) -> HttpResponse:
    tenants = kept_tenants(request)
    context = {
        "skills": kept_skills(request).order_by("-is_active", "tenant", "name")[:SHOWN],
        "remotes": kept_remote_agents(request).order_by("agent__tenant", "agent__name")[:SHOWN],
        "functions": _functions(request),
        "buses": _buses(request),
        "has_issuers": apps.is_installed("approvals.oauth"),
        "has_tenants": len(tenants) > 1,
    }
    return render(request, "settings/connections.html", context)


def _functions(request: HttpRequest) -> Any:
    """``None`` where the app is left out."""
    if not apps.is_installed("a2a.doors.humanlayer"):
        return None
    from approvals.web.settings.connections import functions

    return functions.kept_functions(request)[:SHOWN]


def _buses(request: HttpRequest) -> Any:
    """``None`` where the app is left out."""
    if not apps.is_installed("a2a.doors.git_bus"):
        return None
    from approvals.web.settings.connections import buses

    return buses.kept_buses(request).order_by("agent__tenant", "agent__name")[:SHOWN]
