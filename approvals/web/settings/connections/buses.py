"""Git buses of an operator's tenants, one page each: repository, keys, signers, methods.

One is switched off rather than deleted, because its requests refer to it.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from a2a.doors.git_bus import changes
from a2a.doors.git_bus.changes import BusChange
from a2a.doors.git_bus.models import GitBus
from a2a.doors.git_bus.repository import access
from approvals.web.settings.connections.bus_forms import KEYS, BusForm, MethodFormSet, readable
from approvals.web.settings.operators import TRIES, kept_tenants, origin_of
from approvals.web.settings.saving import NOT_SHOWN, edits_of_new, set_changed
from ledger.events import edits_between
from ledger.models import Agent

REMOVED = ["not shown", ""]
SECRETS = frozenset({"new_deploy_key", "new_password"})
sensitive = sensitive_post_parameters("new_deploy_key", "new_password")


@sensitive
@login_required
@require_http_methods(["GET", "POST"])
def new_bus(request: HttpRequest) -> HttpResponse:
    """The repository and its keys; its page asks for the methods."""
    form = BusForm(request.POST or None, agents=_agents(request))
    if request.method == "POST" and form.is_valid():
        with atomic():
            row = form.save()
            GitBus.objects.filter(pk=row.pk).update(look_at=Now(), **form.secrets(row))
            edits = _without_secrets(edits_of_new(form))
            changes.record(row, BusChange.ADDED, edits, **origin_of(request))
        messages.success(request, _("Added. Say now which methods it has."))
        return redirect("desk:connection-bus", row.pk)
    return _page(request, form, None, None)


@sensitive
@login_required
@require_http_methods(["GET", "POST"])
def bus(request: HttpRequest, bus_id: int) -> HttpResponse:
    """One bus; what is posted is saved, its methods too."""
    row = get_object_or_404(kept_buses(request), pk=bus_id)
    form = BusForm(request.POST or None, instance=row)
    methods = _methods(request, row)
    is_valid = form.is_valid() and (not methods.is_bound or methods.is_valid())
    if request.method == "POST" and is_valid:
        edits = _save(request, row, form, methods)
        messages.success(request, _("Saved. The process of the buses looks within seconds."))
        if edits.get("new_password") == REMOVED:
            text = _("The access token was for the server before, and is removed: enter another.")
            messages.warning(request, text)
        return redirect("desk:connection-bus", row.pk)
    return _page(request, form, get_object_or_404(kept_buses(request), pk=bus_id), methods)


def _methods(request: HttpRequest, row: GitBus) -> Any:
    posted = request.POST if "methods-TOTAL_FORMS" in request.POST else None
    return MethodFormSet(posted, instance=row)


def _save(request: HttpRequest, row: GitBus, form: BusForm, methods: Any) -> dict[str, list[Any]]:
    """Only what was changed: the process of the buses writes other columns meanwhile."""
    with atomic():
        kept = kept_buses(request).select_for_update(of=("self",)).get(pk=row.pk)
        before, url = changes.methods_in_words(kept), kept.url
        edits = _without_secrets(set_changed(kept, form, but=KEYS))
        keys = {name: [None, True] for name in form.changed_data if name in KEYS}
        edits |= _without_secrets(keys)
        secrets = form.secrets(kept)
        if "password" not in secrets and access.server_of(url) != access.server_of(kept.url):
            edits |= _without_password(kept)
        GitBus.objects.filter(pk=kept.pk).update(look_at=Now(), **secrets)
        if methods.is_bound:
            methods.instance = kept
            methods.save()
        edits |= edits_between({"methods": before}, {"methods": changes.methods_in_words(kept)})
        if edits:
            changes.record(kept, BusChange.CHANGED, edits, **origin_of(request))
    return edits


def _without_password(kept: GitBus) -> dict[str, list[Any]]:
    """Forget the access token, which another server must not get."""
    rows = GitBus.objects.filter(pk=kept.pk).exclude(password="")
    return {"new_password": REMOVED} if rows.update(password="") else {}


def _without_secrets(edits: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Of secrets only that they were changed is written down."""
    return {name: NOT_SHOWN if name in SECRETS else edit for name, edit in edits.items()}


@login_required
@require_POST
def look_now(request: HttpRequest, bus_id: int) -> HttpResponse:
    row = get_object_or_404(kept_buses(request), pk=bus_id)
    GitBus.objects.filter(pk=row.pk).update(look_at=Now())
    messages.success(request, _("The process of the buses looks within seconds."))
    return redirect("desk:connection-bus", row.pk)


def kept_buses(request: HttpRequest) -> QuerySet[GitBus]:
    """Of the tenants that the person keeps, and without what is secret."""
    rows = GitBus.objects.without_secrets().filter(agent__tenant__in=kept_tenants(request))
    return rows.select_related("agent__tenant")


def _agents(request: HttpRequest) -> QuerySet[Agent]:
    """Agents without another transport: tasks of a remote agent go to its address."""
    rows = Agent.objects.filter(tenant__in=kept_tenants(request))
    free = rows.filter(remote__isnull=True, bus__isnull=True).exclude(slug__startswith=TRIES)
    return free.order_by("tenant", "name")


def _page(request: HttpRequest, form: BusForm, row: GitBus | None, methods: Any) -> HttpResponse:
    context = {"form": form, "row": row, "methods": methods}
    if row is not None:
        context |= {"public_key": _public_key(row), "signer_line": _signer_line(row)}
    has_errors = form.errors or (methods is not None and methods.is_bound and any(methods.errors))
    status = 422 if has_errors else 200
    return render(request, "settings/bus.html", context, status=status)


def _public_key(row: GitBus) -> str:
    """The public half of the deploy key; empty where there is none."""
    return _public_half(readable(row, "deploy_key"), f"assent-{row.agent.slug}")


def _signer_line(row: GitBus) -> str:
    """Our line for the allowed signers of others; empty where our commits are not signed."""
    line = _public_half(readable(row, "signing_key"), "")
    return f"{row.our_address} {line.strip()}" if line else ""


def _public_half(key: str, name: str) -> str:
    if not key:
        return ""
    try:
        return access.public_line(key, name)
    except access.Unusable as refusal:
        return str(refusal)


urlpatterns = [
    path("connections/buses/new/", new_bus, name="connection-bus-new"),
    path("connections/buses/<int:bus_id>/", bus, name="connection-bus"),
    path("connections/buses/<int:bus_id>/look", look_now, name="connection-bus-look"),
]
