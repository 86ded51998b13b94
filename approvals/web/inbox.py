"""The inbox, its live rows, the tools, and the error pages."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import (
    HttpRequest,
    HttpResponse,
)
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_safe

from approvals.desk import inbox as desk_inbox
from approvals.web import notifications
from approvals.web.forms import (
    FilterForm,
)
from approvals.web.requests import tenants_of_request, wants_fragment
from approvals.web.tasks import question_context
from approvals.web.transactions import item_context, with_history
from ledger import contracts
from ledger.api import describe, describe_readonly
from ledger.http import problem
from ledger.models import Transaction, id_or_none
from ledger.usage.usual import of_tools


@login_required
@require_safe
def inbox_list(request: HttpRequest) -> HttpResponse:
    return render(request, "desk/_list.html", _list_context(request))


@login_required
@require_safe
def inbox_page(request: HttpRequest) -> HttpResponse:
    context = _list_context(request)
    first = next((entry for group in context["groups"] for entry in group.rows), None)
    if first is not None and first.tx is not None:
        context |= item_context(request, with_history(request, first.tx.pk))
    elif first is not None and first.question is not None:
        context |= question_context(request, first.question)
    else:
        ended = Transaction.objects.for_tenants(tenants_of_request(request)).filter(
            decided_at__isnull=False
        )
        context["last_decided"] = ended.prefetch_related("events").order_by("-pk").first()
    context["offers_notifications"] = notifications.is_to_be_offered(request)
    return render(request, "desk/inbox.html", context)


def inbox_view(request: HttpRequest) -> HttpResponse:
    """The whole page, or just the list for the script that keeps it live."""
    return inbox_list(request) if wants_fragment(request) else inbox_page(request)


@login_required
@require_GET
def rows(request: HttpRequest) -> HttpResponse:
    """The rows that changed, as they are now, in the filters of the page."""
    ids = [pk for text in request.GET.getlist("id")[:200] if (pk := id_or_none(text))]
    filters = FilterForm(request.GET).filters()
    change = desk_inbox.changed(ids, tenants_of_request(request), filters, timezone.now())
    context = {"rows": change.entries, "has_hidden": change.has_hidden, "filters": filters}
    return render(request, "desk/_rows.html", context)


def _list_context(request: HttpRequest) -> dict[str, Any]:
    form = FilterForm(request.GET)
    filters = form.filters()
    listing = desk_inbox.waiting(tenants_of_request(request), filters, timezone.now())
    return {
        "groups": desk_inbox.grouped(listing.entries),
        "shown": len(listing.entries),
        "more": listing.more,
        "agent_name": _agent_name(listing, filters.agent),
        "filters": filters,
        "form": form,
        "tool_names": sorted(contracts.tools),
    }


def _agent_name(listing: desk_inbox.Listing, principal: str) -> str:
    """The label of the one agent whose rows are listed; empty when all agents' are."""
    for entry in listing.entries[:1]:
        if principal and entry.tx is not None:
            return entry.tx.proposed_by_name
        if principal and entry.question is not None:
            return entry.question.asked_by_name
    return principal.partition("/")[2] or principal


@login_required
@require_safe
def tools(request: HttpRequest) -> HttpResponse:
    usage = of_tools(tenants_of_request(request))
    cards = [
        {**describe(tool), "contract": tool.contract, "usage": usage.get(name)}
        for name, tool in sorted(contracts.tools.items())
    ]
    looking = [describe_readonly(tool) for _, tool in sorted(contracts.readonly_tools.items())]
    return render(request, "desk/tools.html", {"cards": cards, "looking": looking})


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "403.html", status=403)


def missing(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    if request.path.startswith("/api/"):
        return problem(404, "not_found", "Not found", "There is nothing here.", "See /api/v1/docs.")
    return render(request, "404.html", status=404)
