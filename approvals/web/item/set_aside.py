"""Setting a transaction aside, and taking it back: for the person alone."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from approvals.desk import inbox, policies
from approvals.web.item.transactions import with_history
from approvals.web.requests import viewer_of


@login_required
@require_POST
def set_aside(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    """Off the list of who may decide it; the inbox opens what comes next."""
    row, viewer = with_history(request, transaction_id), viewer_of(request)
    now = timezone.now()
    if not policies.may_decide(row, viewer.principal, viewer.roles, now):
        raise PermissionDenied
    inbox.set_aside(row, viewer, request.POST.get("until", ""), now)
    return redirect("desk:inbox")


@login_required
@require_POST
def take_back(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    row = with_history(request, transaction_id)
    inbox.take_back(row, viewer_of(request))
    return redirect("desk:transaction", row.pk)
