"""The inbox, its live rows, the tools, and the error pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import (
    HttpRequest,
    HttpResponse,
)
from django.shortcuts import render
from django.urls import resolve, reverse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_GET, require_safe

from approvals.desk import MINE, either_of, holders_of, inbox, voters_of
from approvals.models import Role
from approvals.people import name_of
from approvals.web.account import notifications
from approvals.web.forms import (
    FilterForm,
)
from approvals.web.item.transactions import item_context, with_history
from approvals.web.listing import list_context
from approvals.web.requests import tenants_of_request, viewer_of, wants_fragment
from approvals.web.tasks.tasks import question_context
from ledger.api import describe, describe_readonly
from ledger.api.http import problem
from ledger.models import Event, Transaction, id_or_none
from ledger.reporting.usage import usage_of_tools
from ledger.tools import readonly_tools_of, tools_of

MOST_CHANGED = 200  # rows that are fetched one by one; beyond them the whole list
CATCH_UP = timedelta(minutes=2)  # a longer gap is not read from the events
# Events become visible only when their database transaction ends, and clocks differ a little.
OVERLAP = timedelta(seconds=20)


@login_required
@require_safe
def inbox_list(request: HttpRequest) -> HttpResponse:
    context = list_context(request)
    if request.GET.get("after"):
        context |= {"rows": context["listing"].entries, "is_page": True}
        return render(request, "desk/_rows.html", context)
    return render(request, "desk/_list.html", context)


@login_required
@require_safe
def inbox_page(request: HttpRequest) -> HttpResponse:
    context = list_context(request)
    entries = context["listing"].entries
    first = next((entry for entry in entries if entry.rank in MINE), None)
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
    """The whole page, or just the list for the script that keeps it live.

    An agent's client that knows nothing but the origin is given the agent card.
    """
    if request.accepts("application/json") and not request.accepts("text/html"):
        return _agent_card(request)
    return inbox_list(request) if wants_fragment(request) else inbox_page(request)


def _agent_card(request: HttpRequest) -> HttpResponse:
    response: HttpResponse = resolve(reverse("a2a:card")).func(request)
    patch_vary_headers(response, ["Accept"])
    return response


@login_required
@require_GET
def rows(request: HttpRequest) -> HttpResponse:
    """The rows that changed, as they are now, in the filters of the page.

    They are named (``id``), or are all that changed since the browser last heard of anything
    (``since``). 205, without content: too much has changed, ask for the whole list.
    """
    viewer, filters = viewer_of(request), FilterForm(request.GET).filters()
    ids = [pk for text in request.GET.getlist("id")[:MOST_CHANGED] if (pk := id_or_none(text))]
    if since := request.GET.get("since"):
        missed = _changed_since(since, viewer.tenants)
        if missed is None:
            return HttpResponse(status=205)
        ids += missed
    change = inbox.changed(ids, viewer, filters, timezone.now())
    context = {"rows": change.entries, "has_hidden": change.has_hidden, "filters": filters}
    voters = voters_of(entry.tx for entry in change.entries if entry.tx)
    return render(request, "desk/_rows.html", context | {"voters": voters, "viewer": viewer})


def _changed_since(text: str, tenants: frozenset[str]) -> list[Any] | None:
    """The subjects of the events since then; ``None`` if that is long ago or they are many."""
    try:
        since = parse_datetime(text)
    except ValueError:
        since = None
    if since is None or timezone.is_naive(since) or timezone.now() - since > CATCH_UP:
        return None
    events = Event.objects.filter(tenant__in=tenants, at__gte=since - OVERLAP)
    subjects = list(
        events.order_by().values_list("subject", flat=True).distinct()[: MOST_CHANGED + 1]
    )
    return subjects if len(subjects) <= MOST_CHANGED else None


@login_required
@require_safe
def tools(request: HttpRequest) -> HttpResponse:
    usage = usage_of_tools(tenants_of_request(request))
    cards = [
        {
            **describe(tool),
            "contract": tool.contract,
            "runs_at": tool.runs_at,
            "asked_over": tool.asked_over,
            "permit_for": tool.permit_for,
            "usage": usage.get(name),
        }
        for name, tool in sorted(tools_of(tenants_of_request(request)).items())
    ]
    readonly = readonly_tools_of(tenants_of_request(request))
    looking = [
        {**describe_readonly(tool), "runs_at": tool.runs_at} for _, tool in sorted(readonly.items())
    ]
    return render(request, "desk/tools.html", {"cards": cards, "looking": looking})


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    operators = []
    if request.user.is_authenticated:
        for tenant in sorted(tenants_of_request(request)):
            operators += holders_of(tenant, Role.OPERATOR)
    names = either_of(list(dict.fromkeys(name_of(person) for person in operators)))
    return render(request, "403.html", {"operators": names}, status=403)


def missing(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    if request.path.startswith("/api/"):
        return problem(404, "not_found", "Not found", "There is nothing here.", "See /api/v1/docs.")
    return render(request, "404.html", status=404)
