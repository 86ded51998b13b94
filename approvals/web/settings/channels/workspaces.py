"""Slack's workspaces of an operator's tenants: routes in words, linked people, language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from approvals.models import SlackIdentity, SlackLinkRequest, SlackRoute, SlackWorkspace
from approvals.people import name_of
from approvals.slack import edits, identities
from approvals.slack.api import is_configured
from approvals.slack.changes import SlackChange
from approvals.web.settings.channels.forms import LinkForm, WorkspaceForm
from approvals.web.settings.channels.sentences import sentence_of
from approvals.web.settings.operators import kept_people, kept_tenants, origin_of, people_in
from ledger.events import chain_of
from ledger.models import Delivery, DeliveryState, Event, Tenant

ASKED_LATELY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Linked:
    """A linked person. Operators of any of their tenants unlink them: it only takes rights away."""

    identity: SlackIdentity
    name: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A link that a person has not confirmed."""

    request: SlackLinkRequest
    name: str
    standing: str


@dataclass(frozen=True, slots=True)
class Workspace:
    row: SlackWorkspace
    since: Any  # when its first tenant was connected, if the log says so
    serves: list[str]
    language: str
    is_kept: bool  # serves no other tenant
    routes: list[tuple[SlackRoute, str]]
    linked: list[Linked]
    asked: list[Asked]


def served(tenants: Any) -> QuerySet[SlackWorkspace]:
    return SlackWorkspace.objects.filter(tenants__in=tenants).distinct().order_by("name")


def kept(tenants: Any) -> QuerySet[SlackWorkspace]:
    """The workspaces that serve no other tenants."""
    others = SlackWorkspace.objects.filter(tenants__in=Tenant.objects.exclude(pk__in=tenants))
    return served(tenants).exclude(pk__in=others.values("pk"))


def seen_by(tenants: QuerySet[Tenant]) -> dict[str, Any]:
    """Slack's part of the page of channels."""
    return {
        "has_slack_app": True,
        "is_slack_configured": is_configured(),
        "workspaces": [_seen(row, tenants) for row in served(tenants)],
    }


def _seen(row: SlackWorkspace, tenants: QuerySet[Tenant]) -> Workspace:
    since = Event.objects.filter(
        subject=chain_of(f"slack_workspace:{row.pk}"), kind=SlackChange.WORKSPACE_CONNECTED
    ).order_by("pk")
    routes = SlackRoute.objects.filter(workspace=row, tenant__in=tenants)
    several = len(tenants) > 1
    return Workspace(
        row=row,
        since=since.values_list("at", flat=True).first(),
        serves=[each.name for each in row.tenants.filter(pk__in=tenants).order_by("name")],
        language=str(dict(WorkspaceForm.languages()).get(row.language, row.language)),
        is_kept=kept(tenants).filter(pk=row.pk).exists(),
        routes=[
            (route, sentence_of(route, names_tenant=several))
            for route in routes.select_related("tenant", "approver").order_by("tenant", "pk")
        ],
        linked=list(_linked(row, tenants)),
        asked=list(_asked(row, tenants)),
    )


def _linked(row: SlackWorkspace, tenants: Any) -> Iterator[Linked]:
    rows = SlackIdentity.objects.filter(workspace=row, user__in=people_in(tenants))
    for identity in rows.select_related("user").order_by("user__first_name", "user__username"):
        yield Linked(identity, name_of(identity.user))


def _asked(row: SlackWorkspace, tenants: Any) -> Iterator[Asked]:
    """Of each person the newest that was asked for lately."""
    rows = SlackLinkRequest.objects.filter(
        workspace=row, user__in=kept_people(tenants), created_at__gt=Now() - ASKED_LATELY
    )
    for request in rows.select_related("user").order_by("user", "-pk").distinct("user"):
        if request.used_at is None:
            yield Asked(request, name_of(request.user), _standing(request))


def _standing(request: SlackLinkRequest) -> str:
    delivery = Delivery.objects.filter(
        channel=identities.CHANNEL, recipient=str(request.pk)
    ).first()
    if delivery is None or delivery.state == DeliveryState.DONE:
        return _("The link was sent. It is good for 15 minutes, signed in at the desk.")
    if delivery.error:
        return _("The link could not be sent: {error}").format(error=delivery.error[:200])
    return _("The link is being sent.")


@login_required
@require_http_methods(["GET", "POST"])
def workspace(request: HttpRequest, workspace_id: int) -> HttpResponse:
    """Its language, and whom it serves; what is posted is saved."""
    tenants = kept_tenants(request)
    with atomic():
        locked = SlackWorkspace.objects.select_for_update().filter(pk__in=kept(tenants))
        row = get_object_or_404(locked, pk=workspace_id)
        form = WorkspaceForm(request.POST or None, row=row, tenants=tenants)
        if request.method == "POST" and form.is_valid():
            wanted = {name: form.cleaned_data[name] for name in form.changed_data}
            edits.change_workspace(row, wanted, **origin_of(request))
            messages.success(request, _("Saved."))
            return redirect("desk:channels")
    context = {"form": form, "workspace": row}
    status = 422 if form.errors else 200
    return render(request, "settings/channel_workspace.html", context, status=status)


@login_required
@require_http_methods(["GET", "POST"])
def link_person(request: HttpRequest, workspace_id: int) -> HttpResponse:
    """Send a Slack user a link, which counts when the person confirms it."""
    tenants = kept_tenants(request)
    row = get_object_or_404(served(tenants), pk=workspace_id)
    there = people_in(row.tenants.filter(pk__in=tenants)).values("pk")
    people = kept_people(tenants).filter(pk__in=there, is_active=True)
    form = LinkForm(request.POST or None, people=people)
    if request.method == "POST" and form.is_valid():
        person = form.cleaned_data["person"]
        user_id, home = form.cleaned_data["slack_user_id"], form.cleaned_data["home_team_id"]
        identities.propose_link(person, row, user_id, home, **origin_of(request))
        told = _("A link goes to {slack_user}. It counts when {name} confirms it here.")
        messages.success(request, told.format(slack_user=user_id, name=name_of(person)))
        return redirect("desk:channels")
    context = {"form": form, "workspace": row}
    status = 422 if form.errors else 200
    return render(request, "settings/channel_link.html", context, status=status)


@login_required
@require_POST
def unlink_person(request: HttpRequest, workspace_id: int, person_id: int) -> HttpResponse:
    tenants = kept_tenants(request)
    row = get_object_or_404(served(tenants), pk=workspace_id)
    person: User = get_object_or_404(people_in(tenants), pk=person_id)
    identities.unlink_account(person, row, **origin_of(request))
    messages.success(request, _("Unlinked. What they click in Slack decides nothing any more."))
    return redirect("desk:channels")
