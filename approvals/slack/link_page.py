"""The page where a person links their Slack user with their account, once."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from approvals.models import SlackIdentity, SlackWorkspace
from approvals.people import principal_of
from approvals.slack.api import is_configured
from approvals.slack.identities import (
    NotLinked,
    ask_to_link,
    link_account,
    link_request_of,
    unlink_account,
    workspaces_for,
)
from ledger.principals import Surface


@login_required
@require_safe
def slack(request: HttpRequest) -> HttpResponse:
    person = cast(User, request.user)
    linked = {
        identity.workspace_id: identity for identity in SlackIdentity.objects.filter(user=person)
    }
    rows = [(workspace, linked.get(workspace.pk)) for workspace in workspaces_for(person)]
    context = {"rows": rows, "is_configured": is_configured()}
    return render(request, "desk/slack.html", context)


@login_required
@require_POST
def ask(request: HttpRequest, workspace_id: int) -> HttpResponse:
    person, workspace = cast(User, request.user), _workspace(request, workspace_id)
    try:
        ask_to_link(person, workspace)
    except NotLinked as refusal:
        messages.error(request, str(refusal))
    else:
        told = _("A link waits among your direct messages in {workspace}.")
        messages.success(request, told.format(workspace=workspace.name))
    return redirect("desk:slack")


@login_required
@require_http_methods(["GET", "POST"])
def confirm(request: HttpRequest, token: str) -> HttpResponse:
    """Opening the link shows what would be linked; only pressing the button does it."""
    person = cast(User, request.user)
    try:
        link_request = link_request_of(token, person)
        if request.method == "POST":
            link_account(token, person)
    except NotLinked as refusal:
        return render(request, "desk/slack_confirm.html", {"problem": str(refusal)}, status=409)
    if request.method == "POST":
        told = _("Linked. What you click in {workspace} counts.")
        messages.success(request, told.format(workspace=link_request.workspace.name))
        return redirect("desk:slack")
    return render(request, "desk/slack_confirm.html", {"link_request": link_request})


@login_required
@require_POST
def unlink(request: HttpRequest, workspace_id: int) -> HttpResponse:
    person = cast(User, request.user)
    unlink_account(
        person, _workspace(request, workspace_id), by=principal_of(person), via=Surface.WEB
    )
    messages.success(request, _("Unlinked. What you click in Slack decides nothing any more."))
    return redirect("desk:slack")


def _workspace(request: HttpRequest, workspace_id: int) -> SlackWorkspace:
    """A workspace that serves a tenant of this person; ``Http404`` for any other."""
    for workspace in workspaces_for(cast(User, request.user)):
        if workspace.pk == workspace_id:
            return workspace
    raise Http404


# Among the addresses of the desk.
urlpatterns = [
    path("slack/", slack, name="slack"),
    path("slack/<int:workspace_id>/link", ask, name="slack-ask"),
    path("slack/<int:workspace_id>/unlink", unlink, name="slack-unlink"),
    path("slack/link/<str:token>/", confirm, name="slack-confirm"),
]
