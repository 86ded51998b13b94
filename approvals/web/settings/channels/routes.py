"""The pages of Slack's routes: add, change, remove and try one."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from approvals.models import SlackRoute, SlackWorkspace
from approvals.slack import edits
from approvals.web.settings.channels.forms import RouteForm
from approvals.web.settings.channels.sentences import sentence_of
from approvals.web.settings.channels.workspaces import served
from approvals.web.settings.operators import kept_tenants, origin_of


@login_required
@require_http_methods(["GET", "POST"])
def new_route(request: HttpRequest, workspace_id: int) -> HttpResponse:
    tenants = kept_tenants(request)
    workspace = get_object_or_404(served(tenants), pk=workspace_id)
    own, empty = tenants.filter(slack_workspaces=workspace), SlackRoute(workspace=workspace)
    form = RouteForm(request.POST or None, route=empty, tenants=own, kept=tenants)
    if request.method == "POST" and form.is_valid():
        wanted = {**form.wanted(), "tenant": form.cleaned_data["tenant"]}
        try:
            edits.add_route(SlackRoute(workspace=workspace, **wanted), **origin_of(request))
        except ValidationError as refusal:
            form.add_error(None, refusal.messages)
        else:
            messages.success(request, _("Saved."))
            return redirect("desk:channels")
    return _page(request, form, workspace)


@login_required
@require_http_methods(["GET", "POST"])
def route(request: HttpRequest, route_id: int) -> HttpResponse:
    """One route; what is posted is saved."""
    row = _kept(request, route_id)
    form = RouteForm(
        request.POST or None, route=row, tenants=[row.tenant], kept=kept_tenants(request)
    )
    if request.method == "POST" and form.is_valid():
        try:
            edits.change_route(row.pk, form.wanted(), **origin_of(request))
        except SlackRoute.DoesNotExist:
            raise Http404 from None
        except ValidationError as refusal:
            form.add_error(None, refusal.messages)
        else:
            messages.success(request, _("Saved."))
            return redirect("desk:channels")
    return _page(request, form, row.workspace)


def _page(request: HttpRequest, form: RouteForm, workspace: SlackWorkspace) -> HttpResponse:
    route = form.route
    context = {
        "form": form,
        "workspace": workspace,
        "route": route,
        "sentence": sentence_of(route, names_tenant=False) if route.pk else "",
    }
    status = 422 if form.errors else 200
    return render(request, "settings/channel_route.html", context, status=status)


@login_required
@require_POST
def remove_route(request: HttpRequest, route_id: int) -> HttpResponse:
    edits.remove_route(_kept(request, route_id).pk, **origin_of(request))
    messages.success(request, _("Removed. Messages that were posted stay."))
    return redirect("desk:channels")


@login_required
@require_POST
def try_route(request: HttpRequest, route_id: int) -> HttpResponse:
    """Post a test message where the route leads."""
    row = _kept(request, route_id)
    try:
        edits.try_route(row, **origin_of(request))
    except edits.NotSent as refusal:
        told = _("Nothing was posted: {why}").format(why=refusal)
        messages.error(request, told)
    else:
        messages.success(request, _("Slack has taken a test message."))
    return redirect("desk:channel-route", row.pk)


def _kept(request: HttpRequest, route_id: int) -> SlackRoute:
    rows = SlackRoute.objects.filter(tenant__in=kept_tenants(request))
    return get_object_or_404(rows.select_related("workspace", "tenant", "approver"), pk=route_id)
