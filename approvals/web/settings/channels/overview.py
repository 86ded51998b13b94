"""The page *Channels*: the ways in which this installation tells people what waits for them."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from approvals.notifications import mail_channel, push_channel
from approvals.web.operations.deliveries import owed
from approvals.web.settings.operators import kept_tenants
from ledger.models import DeliveryState, Tenant

TO_PEOPLE = ("slack", "notice", mail_channel.NAME, push_channel.NAME)


@login_required
@require_safe
def channels(request: HttpRequest) -> HttpResponse:
    tenants = kept_tenants(request)
    slugs = frozenset(tenant.slug for tenant in tenants)
    context = {
        "first_tenant": min(slugs),
        "has_mail": mail_channel.is_configured(),
        "has_push": push_channel.is_configured(),
        "given_up": owed(slugs, state=DeliveryState.GIVEN_UP, channel__in=TO_PEOPLE),
        "still_trying": owed(
            slugs, state=DeliveryState.WAITING, error__gt="", channel__in=TO_PEOPLE
        ),
        **_slack(tenants),
    }
    return render(request, "settings/channels.html", context)


def _slack(tenants: QuerySet[Tenant]) -> dict[str, Any]:
    if not apps.is_installed("approvals.slack"):
        return {}
    from approvals.web.settings.channels import workspaces

    return workspaces.seen_by(tenants)
