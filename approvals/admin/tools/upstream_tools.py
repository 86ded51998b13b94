"""Tools of MCP servers in the admin: what a server says of each, released and held by operators."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.utils.translation import gettext as _, gettext_lazy

from approvals.admin.operator_pages import OperatorPages, OwnRowPages, operated_by, origin_of
from approvals.admin.tools.tool_pages import Difference, differences_of, shown_value
from approvals.presentation import refusal_and_hint
from ledger.admin.base import ReadOnly, related
from ledger.errors import LedgerError
from ledger.foundation.characters import cleaned
from ledger.models import McpUpstream, RegisteredTool, UpstreamTool, UpstreamToolState
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


class McpUpstreamForm(forms.ModelForm):
    """Programs are named on the server alone, so an address is one of HTTP."""

    class Meta:
        model = McpUpstream
        fields = ("tenant", "name", "address", "credential")

    def clean(self) -> dict[str, Any]:
        fields = super().clean() or {}
        try:
            if not str(fields.get("address", "")).startswith(("https://", "http://")):
                raise UpstreamRefused(_("An address begins with https:// or http://."))
            mcp_upstreams.check(str(fields.get("name", "")), fields["address"])
        except UpstreamRefused as refusal:
            raise ValidationError(str(refusal)) from refusal
        return fields


@admin.register(McpUpstream)
class McpUpstreamAdmin(OperatorPages):
    """MCP servers: registered here, or on the server with ``manage.py mcp_upstream``."""

    form = McpUpstreamForm
    list_display = ("name", "tenant", "address", "revision", "read_at", "problem")
    list_select_related = ("tenant", "watched")
    ordering = ("tenant", "name")
    actions = ("read_again",)
    read_at = related("watched.read_at", "read at")
    problem = related("watched.error", "problem")

    def get_fields(self, request: HttpRequest, obj: McpUpstream | None = None) -> tuple[str, ...]:
        asked = McpUpstreamForm.Meta.fields
        return asked if obj is None else (*asked, "revision", "read_at", "problem", "stderr")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("revision", "read_at", "problem", "stderr")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(operated_by(request))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: McpUpstream, form: Any, change: bool) -> None:
        added = mcp_upstreams.add(
            obj.tenant,
            obj.name,
            obj.address,
            credential=obj.credential,
            **origin_of(request),
        )
        obj.pk = added.pk
        self.message_user(request, _("Its list of tools is being read."))

    @admin.action(description=gettext_lazy("Read the list of tools again"), permissions=["add"])
    def read_again(self, request: HttpRequest, rows: QuerySet[McpUpstream]) -> None:
        for row in rows.filter(tenant__in=operated_by(request)):
            watched.read_soon(row.watched_id)
        self.message_user(request, _("It is read within seconds."))


@admin.register(UpstreamTool)
class UpstreamToolAdmin(ReadOnly, OwnRowPages):
    """One page for each tool: what its server says now and said then; release and hold."""

    tenant_path = "upstream__tenant"
    list_display = ("name", "server", "tool", "standing", "note")
    list_select_related = ("upstream__tenant",)
    list_filter = ("state",)
    ordering = ("upstream", "name")

    @admin.display(description=gettext_lazy("MCP server"))
    def server(self, row: UpstreamTool) -> str:
        return str(row.upstream.name)

    @admin.display(description=gettext_lazy("state"))
    def standing(self, row: UpstreamTool) -> str:
        return str(STANDINGS[State(row.state)])

    @admin.display(description=gettext_lazy("why"))
    def note(self, row: UpstreamTool) -> str:
        return row.problem or row.why

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.settle_page)
        name = "ledger_upstreamtool_settle"
        return [path("<int:pk>/settle/", view, name=name), *super().get_urls()]

    def row_page(self, request: HttpRequest, row: UpstreamTool) -> HttpResponse:
        return self.page(
            request,
            "admin/ledger/upstream_tool.html",
            title=row.name,
            row=row,
            standing=self.standing(row),
            definition=[(name, _shown(value)) for name, value in row.definition.items()],
            changed=[
                Difference(name, _shown(before), _shown(now))
                for name, (before, now) in row.differences.items()
            ],
            **_release_of(row, may=row.upstream.tenant_id in operated_by(request)),
        )

    def settle_page(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Release what was on the screen, or hold it."""
        row = self.operated(request, pk)
        if request.method == "POST":
            self._settle_tool(request, row)
        return redirect("admin:ledger_upstreamtool_change", pk)

    def _settle_tool(self, request: HttpRequest, row: UpstreamTool) -> None:
        try:
            if "hold" in request.POST:
                mcp_upstreams.hold(row, "", **origin_of(request))
                self.message_user(request, _("{name} is held.").format(name=row.name))
            else:
                self._release(request, row)
        except (UpstreamRefused, Refused) as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
        except LedgerError as refusal:
            self.message_user(request, refusal_and_hint(refusal), messages.ERROR)

    def _release(self, request: HttpRequest, row: UpstreamTool) -> None:
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
        done = _("Agents may use {name} from now on.")
        self.change_tool(request, tenant, manifest, current.sha256 if current else "", done)


def _release_of(row: UpstreamTool, *, may: bool) -> dict[str, Any]:
    """The tool that a release would register, if this person may release it."""
    registered = RegisteredTool.objects.filter(tenant=row.upstream.tenant_id, name=row.tool)
    shown: dict[str, Any] = {"may_settle": may, "registered": registered.first()}
    if not may or row.state == State.RELEASED:
        return shown
    try:
        manifest = mcp_upstreams.draft(row)
    except UpstreamRefused as refusal:
        return {**shown, "refusal": str(refusal)}
    latest = registrations.latest(row.upstream.tenant, manifest.name)
    loosens = loosened(latest, manifest)
    differences = differences_of(latest, manifest, loosens)
    return {
        **shown,
        "can_release": True,
        "terms": differences,
        "takes_two": bool(loosens),
        "description": manifest.description,
    }


def _shown(value: Any) -> str:
    """Text of a server, without characters that hide text or reverse its direction."""
    return cleaned(shown_value(value))
