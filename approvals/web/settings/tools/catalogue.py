"""The page of all tools: what agents may propose, and what each owner promises."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from approvals.models import Role
from approvals.web.requests import roles_of_request, tenants_of_request
from approvals.web.settings.tools.versions import standing
from ledger.api import describe, describe_readonly
from ledger.models import RegisteredTool
from ledger.reporting.usage import usage_of_tools
from ledger.tools import readonly_tools_of, tools_of


@login_required
@require_safe
def tools(request: HttpRequest) -> HttpResponse:
    tenants = tenants_of_request(request)
    keeps = _keeps(request)
    usage, kept = usage_of_tools(tenants), _registered(keeps)
    there = tools_of(tenants)
    cards = [
        {
            **describe(tool),
            "contract": tool.contract,
            "runs_at": tool.runs_at,
            "asked_over": tool.asked_over,
            "permit_for": tool.permit_for,
            "usage": usage.get(name),
            "row": kept.get(name),
            "tried_in": _tried_in(keeps, kept.get(name)),
        }
        for name, tool in sorted(there.items())
    ]
    readonly = readonly_tools_of(tenants)
    looking = [
        {**describe_readonly(tool), "runs_at": tool.runs_at} for _, tool in sorted(readonly.items())
    ]
    others = [
        (row, standing(row)) for name, row in sorted(kept.items()) if name not in there | readonly
    ]
    context = {"cards": cards, "looking": looking, "others": others}
    return render(request, "desk/tools.html", context)


def _keeps(request: HttpRequest) -> list[str]:
    """The tenants that the person keeps."""
    roles = roles_of_request(request)
    return sorted(slug for slug, names in roles.items() if Role.OPERATOR in names)


def _registered(tenants: list[str]) -> dict[str, RegisteredTool]:
    """The registered tools of these tenants, by name."""
    rows = RegisteredTool.objects.filter(tenant__in=tenants).order_by("-tenant")
    return {row.name: row for row in rows}


def _tried_in(tenants: list[str], row: RegisteredTool | None) -> str:
    """The tenant in which an operator tries the tool; empty for whoever is none."""
    if row is not None:
        return str(row.tenant_id)
    return tenants[0] if tenants else ""
