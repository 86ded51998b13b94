"""MCP servers of an operator's tenants, and their tools: what each says; release and hold."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from approvals.presentation import refusal_and_hint
from approvals.web.record.pending import Difference, shown_value
from approvals.web.settings.operators import choose_tenant, kept_tenants, origin_of
from approvals.web.settings.tools.registered import allow
from approvals.web.settings.tools.versions import differences_of
from ledger.errors import LedgerError
from ledger.foundation.characters import cleaned
from ledger.models import McpUpstream, RegisteredTool, Tenant, UpstreamTool, UpstreamToolState
from ledger.tools import mcp_upstreams, registrations, watched
from ledger.tools.mcp_upstreams import UpstreamRefused
from ledger.tools.registrations import Refused, loosened

State = UpstreamToolState
STANDINGS = {
    State.NEW: gettext_lazy("waits for an operator"),
    State.RELEASED: gettext_lazy("released"),
    State.HELD: gettext_lazy("held"),
    State.GONE: gettext_lazy("gone from its list"),
}
MOST_TOOLS = 500  # of one server on the page


class ServerForm(forms.Form):
    """Programs are named on the server alone, so an address is one of HTTP."""

    tenant = forms.ModelChoiceField(Tenant.objects.none(), label=gettext_lazy("Tenant"))
    address = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=500,
        help_text=gettext_lazy("As https://billing.example/mcp."),
    )
    name = forms.CharField(
        label=gettext_lazy("Short name"),
        max_length=31,
        help_text=gettext_lazy("It stands before the names of its tools: billing."),
    )
    credential = forms.SlugField(
        label=gettext_lazy("Secret that it asks for"), max_length=63, required=False
    )

    def __init__(self, *args: Any, tenants: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choose_tenant(self, tenants)

    def clean(self) -> dict[str, Any]:
        fields = super().clean() or {}
        try:
            if not str(fields.get("address", "")).startswith(("https://", "http://")):
                raise UpstreamRefused(_("An address begins with https:// or http://."))
            mcp_upstreams.check(str(fields.get("name", "")), fields["address"])
        except UpstreamRefused as refusal:
            raise ValidationError(str(refusal)) from refusal
        return fields


@login_required
@require_http_methods(["GET", "POST"])
def servers(request: HttpRequest) -> HttpResponse:
    """All servers with their tools; a posted form registers another one."""
    tenants = kept_tenants(request)
    form = ServerForm(request.POST or None, tenants=tenants)
    if request.method == "POST" and form.is_valid():
        wanted = dict(form.cleaned_data)
        try:
            mcp_upstreams.add(
                wanted["tenant"],
                wanted["name"],
                wanted["address"],
                credential=wanted["credential"],
                **origin_of(request),
            )
        except UpstreamRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, _("Its list of tools is being read."))
            return redirect("desk:mcp-servers")
    rows = McpUpstream.objects.filter(tenant__in=tenants).select_related("tenant", "watched")
    context = {
        "servers": [(row, _listed(row)) for row in rows.order_by("tenant", "name")],
        "form": form,
        "has_tenants": len(tenants) > 1,
    }
    status = 422 if form.errors else 200
    return render(request, "settings/mcp_servers.html", context, status=status)


def _listed(row: McpUpstream) -> list[tuple[UpstreamTool, str]]:
    tools = UpstreamTool.objects.filter(upstream=row).order_by("name")[:MOST_TOOLS]
    return [(tool, str(STANDINGS[State(tool.state)])) for tool in tools]


@login_required
@require_POST
def read_again(request: HttpRequest, server_id: int) -> HttpResponse:
    rows = McpUpstream.objects.filter(tenant__in=kept_tenants(request))
    watched.read_soon(get_object_or_404(rows, pk=server_id).watched_id)
    messages.success(request, _("It is read within seconds."))
    return redirect("desk:mcp-servers")


# --- one of its tools -----------------------------------------------------------------------------


@login_required
@require_safe
def server_tool(request: HttpRequest, tool_id: int) -> HttpResponse:
    """The present and the released words of the server about one tool."""
    row = _visible(request, tool_id)
    context = {
        "row": row,
        "standing": STANDINGS[State(row.state)],
        "definition": [(name, _shown(value)) for name, value in row.definition.items()],
        "changed": [
            Difference(name, _shown(before), _shown(now))
            for name, (before, now) in row.differences.items()
        ],
        **_release_of(row),
    }
    return render(request, "settings/mcp_tool.html", context)


@login_required
@require_POST
def settle_tool(request: HttpRequest, tool_id: int) -> HttpResponse:
    """Release what was on the screen, or hold it."""
    row = _visible(request, tool_id)
    try:
        if "hold" in request.POST:
            mcp_upstreams.hold(row, "", **origin_of(request))
            messages.success(request, _("{name} is held.").format(name=row.name))
        else:
            return _release(request, row)
    except (UpstreamRefused, Refused) as refusal:
        messages.error(request, str(refusal))
    except LedgerError as refusal:
        messages.error(request, refusal_and_hint(refusal))
    return redirect("desk:mcp-tool", row.pk)


def _release(request: HttpRequest, row: UpstreamTool) -> HttpResponse:
    """Release it. A change that loosens waits for a second operator, as with every tool."""
    if row.sha256 != request.POST.get("seen"):
        raise UpstreamRefused(_("It has changed since you looked at it: look again."))
    stated = {"errors_mean_nothing_happened"} & request.POST.keys()
    terms: dict[str, Any] = dict.fromkeys(stated, True)
    if description := request.POST.get("description", "").replace("\r\n", "\n").strip():
        terms["description"] = description
    manifest = mcp_upstreams.draft(row, is_readonly="read_only" in request.POST, **terms)
    tenant = row.upstream.tenant
    current = registrations.current(tenant, manifest.name)
    origin = {"in_place_of": current.sha256 if current else "", **origin_of(request)}
    change = registrations.change(tenant, manifest, **origin)
    if change is not None:
        text = _("{name} changes when another operator has confirmed it.")
        messages.warning(request, text.format(name=manifest.name))
        return redirect("desk:change", change.pk)
    text = _("Agents may use {name} from now on.")
    messages.success(request, text.format(name=manifest.name))
    allow(request, RegisteredTool.objects.get(tenant=tenant, name=manifest.name))
    return redirect("desk:mcp-tool", row.pk)


def _visible(request: HttpRequest, tool_id: int) -> UpstreamTool:
    rows = UpstreamTool.objects.filter(upstream__tenant__in=kept_tenants(request))
    return get_object_or_404(rows.select_related("upstream__tenant"), pk=tool_id)


def _release_of(row: UpstreamTool) -> dict[str, Any]:
    """The tool that a release would register."""
    registered = RegisteredTool.objects.filter(tenant=row.upstream.tenant_id, name=row.tool)
    shown: dict[str, Any] = {"registered": registered.first()}
    if row.state == State.RELEASED:
        return shown
    try:
        manifest = mcp_upstreams.draft(row)
    except UpstreamRefused as refusal:
        return {**shown, "refusal": str(refusal)}
    latest = registrations.latest(row.upstream.tenant, manifest.name)
    loosens = loosened(latest, manifest)
    return {
        **shown,
        "can_release": True,
        "terms": differences_of(latest, manifest, loosens),
        "takes_two": bool(loosens),
        "description": manifest.description,
    }


def _shown(value: Any) -> str:
    """Text of a server, without characters that hide text or reverse its direction."""
    return cleaned(shown_value(value))
