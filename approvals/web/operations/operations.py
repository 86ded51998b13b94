"""The operations page, and the same figures for Prometheus."""

from __future__ import annotations

import secrets
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from a2a.models import RemoteAgent
from approvals import metrics
from approvals.desk.operations import (
    agents_near_a_limit,
    agreement_in,
    decisions_by_hour,
    recent_refusals,
    stacked,
    time_to_decide,
)
from approvals.models import Role
from approvals.web.operations.deliveries import owed
from approvals.web.requests import roles_of_request
from ledger.events import outbox
from ledger.models import Delivery, DeliveryState, RegisteredTool
from ledger.tools import silent_addresses
from ledger.tools.silent_addresses import late_calls


@require_safe
def prometheus(request: HttpRequest) -> HttpResponse:
    """Figures for a scraper with the bearer token; 404 where no token is configured."""
    wanted = f"Bearer {settings.METRICS_TOKEN}"
    authorization = request.headers.get("Authorization", "")
    if not settings.METRICS_TOKEN:
        raise Http404
    if not secrets.compare_digest(authorization.encode(), wanted.encode()):
        response = HttpResponse("Send Authorization: Bearer <ASSENT_METRICS_TOKEN>.\n", status=401)
        response["WWW-Authenticate"] = "Bearer"
        return response
    text = metrics.as_prometheus(metrics.gathered())
    return HttpResponse(text, content_type=CONTENT_TYPE_PLAIN_0_0_4)


@login_required
@require_safe
def operations(request: HttpRequest) -> HttpResponse:
    tenants = _operated(request)
    remotes = RemoteAgent.objects.filter(agent__tenant__in=tenants).select_related(
        "agent", "watched", "probe"
    )
    hours = decisions_by_hour(tenants)
    gathered = metrics.gathered(tenants)
    jobs = gathered["assent_queue_jobs"].values
    context = {
        "metrics": gathered,
        "queues": len(jobs),
        "busy_queues": [(key[0][1], round(number)) for key, number in jobs.items() if number],
        "given_up": owed(tenants, state=DeliveryState.GIVEN_UP),
        "still_trying": owed(tenants, state=DeliveryState.WAITING, error__gt=""),
        "hours": hours,
        "chart": stacked(hours),
        "waits": time_to_decide(tenants),
        "agreement": agreement_in(tenants),
        "checkpoints_late_after_s": 2 * settings.CHECKPOINT_EVERY_S,
        "full_agents": agents_near_a_limit(tenants),
        "refusals": recent_refusals(tenants),
        "silences": list(silent_addresses.silences().filter(tenant__in=tenants)),
        "late_calls": late_calls(tenants),
        "remotes": list(remotes.order_by("agent__slug")),
        "buses": _buses(tenants),
        "elsewhere": _elsewhere(tenants),
    }
    return render(request, "desk/operations.html", context)


def _buses(tenants: frozenset[str]) -> list[dict[str, Any]]:
    if not apps.is_installed("a2a.doors.git_bus"):
        return []
    from approvals.web.operations import buses

    return buses.seen_by(tenants)


def _elsewhere(tenants: frozenset[str]) -> list[RegisteredTool]:
    """The tools whose owners publish what they promise."""
    registered = RegisteredTool.objects.filter(tenant__in=tenants, is_withdrawn=False)
    shown = registered.exclude(watched=None).select_related("watched")
    return list(shown.order_by("name"))


@login_required
@require_POST
def send_again(request: HttpRequest, delivery_id: int) -> HttpResponse:
    """Make a delivery due at once that waits or was given up."""
    rows = Delivery.objects.filter(pk=delivery_id, event__tenant__in=_operated(request))
    if not rows.exists():
        raise Http404
    outbox.retry(delivery_id)
    return redirect("desk:operations")


def _operated(request: HttpRequest) -> frozenset[str]:
    """The tenants that the person is an operator of; ``PermissionDenied`` if there is none."""
    roles = roles_of_request(request)
    tenants = frozenset(tenant for tenant, names in roles.items() if Role.OPERATOR in names)
    if not tenants:
        raise PermissionDenied
    return tenants
