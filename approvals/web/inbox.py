"""The inbox, its live rows, and the error pages."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any, cast
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
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

from approvals.desk import MINE, either_of, holders_of, inbox, stopped_among, voters_of
from approvals.http.visits import absence_is_told
from approvals.models import Role, ViewPlace
from approvals.people import name_of
from approvals.presentation import decided_in_words, to_the_minute
from approvals.web.account import notifications
from approvals.web.account.saved_views import views_context
from approvals.web.first_day import first_day_of
from approvals.web.forms import (
    FilterForm,
)
from approvals.web.item.transactions import item_context, with_history
from approvals.web.listing import list_context
from approvals.web.requests import brakes_of, tenants_of_request, viewer_of, wants_fragment
from approvals.web.tasks.tasks import question_context
from ledger.api.http import problem
from ledger.models import Event, Transaction, id_or_none
from ledger.reporting.usage import count_decided

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
        context["first_day"] = first_day_of(request)
    context["offers_notifications"] = notifications.is_to_be_offered(request)
    context |= views_context(request, ViewPlace.INBOX)
    context["away"] = _away_line(request)
    return render(request, "desk/inbox.html", context)


def _away_line(request: HttpRequest) -> dict[str, Any] | None:
    """Numbers of what was decided while the person was away; told once."""
    since = getattr(request, "away_since", None)
    if since is None or request.method != "GET":
        return None
    parts = decided_in_words(count_decided(tenants_of_request(request), since))
    absence_is_told(cast(User, request.user).pk)
    if not parts:
        return None
    moment = {"decided_since": since.astimezone(UTC).isoformat(timespec="microseconds")}
    links = [
        (urlencode({**moment, "decided": kind} if kind else moment), text) for kind, text in parts
    ]
    return {"since": to_the_minute(since), "links": links}


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
    rows = [entry.tx for entry in change.entries if entry.tx]
    stopped = stopped_among(rows, brakes_of(request))
    context |= {"voters": voters_of(rows), "stopped": stopped, "viewer": viewer}
    context["aside"] = inbox.set_aside_by(viewer) if filters.aside else {}
    return render(request, "desk/_rows.html", context)


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
