"""Registered tools in the admin: their versions, and changes, which may take a second operator."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _, gettext_lazy

from approvals.admin.operator_pages import OwnRowPages, operated_by, origin_of
from approvals.admin.tools import published_contracts, tool_pages
from approvals.admin.tools.tool_pages import Preview
from approvals.presentation import refusal_and_hint
from ledger import four_eyes
from ledger.admin.base import ReadOnly
from ledger.errors import LedgerError
from ledger.models import ChangeRequest, RegisteredTool, Tenant
from ledger.tools import NotPinned, manifests, registrations
from ledger.tools.manifests import ManifestRefused
from ledger.tools.registrations import Refused
from ledger.tools.silent_addresses import late_calls

BEGINNING = """\
name: refund_invoice
kind: http
address: https://payments.example/assent
description: Refunds an invoice in the billing system.
arguments:
  type: object
  additionalProperties: false
  required: [invoice, amount]
  properties:
    invoice: {type: string, maxLength: 40}
    amount: {type: string, pattern: '^[0-9]{1,6}\\.[0-9]{2}$'}
routes: [plan, rollback, find_receipt]
contract:
  owner_service: billing
  operation_key: "refund_invoice:{tenant}:{invoice}"
"""


class ManifestForm(forms.Form):
    text = forms.CharField(
        label=gettext_lazy("Manifest"),
        max_length=manifests.texts.MOST,
        widget=forms.Textarea(attrs={"rows": 28, "spellcheck": "false", "class": "manifest"}),
        help_text=gettext_lazy(
            "YAML or JSON. What you leave out of the contract is the strictest there is. "
            "Nothing is registered before you have seen what changes."
        ),
    )


class NewManifestForm(ManifestForm):
    tenant = forms.ModelChoiceField(Tenant.objects.none(), label=gettext_lazy("Tenant"))
    field_order = ("tenant", "text")


@admin.register(RegisteredTool)
class RegisteredToolAdmin(ReadOnly, OwnRowPages):
    """Tools that are not Python. Each change is a preview first, and then a compare-and-set."""

    change_list_template = "admin/ledger/tools.html"
    list_display = ("name", "tenant", "runs_at", "standing", "version_")
    list_select_related = ("tenant",)
    ordering = ("tenant", "name")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(operated_by(request))

    @admin.display(description=gettext_lazy("runs at"))
    def runs_at(self, row: RegisteredTool) -> str:
        return tool_pages.runs_at(row)

    @admin.display(description=gettext_lazy("state"))
    def standing(self, row: RegisteredTool) -> str:
        return tool_pages.standing(row)

    @admin.display(description=gettext_lazy("version"))
    def version_(self, row: RegisteredTool) -> SafeString:
        return format_html("<code>{}</code>", row.version[:12])

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """With the changes that wait: that of a new tool has no row in the list yet."""
        waiting = four_eyes.waiting(registrations.KIND).filter(tenant__in=operated_by(request))
        context = {"waiting": waiting.order_by("pk"), **(extra_context or {})}
        return super().changelist_view(request, context)

    # --- pages ------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("add/", view(self.add_page), name=self._name("add")),
            path("<int:pk>/version/", view(self.version_page), name=self._name("version")),
            path("<int:pk>/withdraw/", view(self.withdraw_page), name=self._name("withdraw")),
            path("<int:pk>/contract/", view(self.contract_page), name=self._name("contract")),
            path("changes/<int:change_id>/", view(self.waiting_page), name=self._name("waiting")),
            *super().get_urls(),
        ]

    def _name(self, page: str) -> str:
        return f"ledger_registeredtool_{page}"

    def row_page(self, request: HttpRequest, row: RegisteredTool) -> HttpResponse:
        """The state of a tool, what waits, and every version with what it changed."""
        return self.page(
            request,
            "admin/ledger/tool.html",
            title=row.name,
            row=row,
            standing=tool_pages.standing(row),
            kind=tool_pages.kind_of(row),
            versions=tool_pages.versions_of(row),
            waiting=tool_pages.waiting_for(row),
            silences=tool_pages.silences_of(row),
            late_calls=late_calls([row.tenant_id], row.name),
            may_change=row.tenant_id in operated_by(request),
        )

    def add_page(self, request: HttpRequest) -> HttpResponse:
        """Register a tool that is new, or that was withdrawn."""
        if not (tenants := operated_by(request)):
            raise PermissionDenied
        form = NewManifestForm(request.POST or None, initial={"text": BEGINNING})
        tenant: Any = form.fields["tenant"]
        tenant.queryset = Tenant.objects.filter(slug__in=tenants)
        if len(tenants) == 1:
            tenant.initial = next(iter(tenants))
        return self._edit(request, form, None)

    def version_page(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Change one tool."""
        row = self.operated(request, pk)
        latest = registrations.latest(row.tenant, row.name)
        text = manifests.texts.text_of(latest) if latest else ""
        return self._edit(request, ManifestForm(request.POST or None, initial={"text": text}), row)

    def _edit(
        self, request: HttpRequest, form: ManifestForm, row: RegisteredTool | None
    ) -> HttpResponse:
        """The form; then what would change; then, if that was confirmed as it was shown, do it."""
        preview: Preview | None = None
        if request.method == "POST" and form.is_valid() and "back" not in request.POST:
            tenant = row.tenant if row else form.cleaned_data["tenant"]
            try:
                preview = tool_pages.preview(tenant, form.cleaned_data["text"], row)
                if preview.is_confirmed_by(request.POST):
                    return self._carry_out(request, tenant, preview)
            except (ManifestRefused, Refused) as refusal:
                form.add_error("text", str(refusal))
                preview = None
        title = _("Change {name}").format(name=row.name) if row else _("Register a tool")
        page = {"title": title, "form": form, "row": row, "preview": preview}
        return self.page(request, "admin/ledger/tool_edit.html", **page)

    def _carry_out(self, request: HttpRequest, tenant: Tenant, preview: Preview) -> HttpResponse:
        done = _("Agents get this version of {name} from now on.")
        manifest = preview.manifest
        change = self.change_tool(request, tenant, manifest, preview.in_place_of, done)
        if change is not None:
            return redirect("admin:ledger_registeredtool_waiting", change.pk)
        row = RegisteredTool.objects.get(tenant=tenant, name=manifest.name)
        return redirect("admin:ledger_registeredtool_change", row.pk)

    def withdraw_page(self, request: HttpRequest, pk: int) -> HttpResponse:
        row = self.operated(request, pk)
        if request.method == "POST":
            try:
                registrations.withdraw(row.tenant, row.name, **origin_of(request))
            except LedgerError as refusal:
                self.message_user(request, refusal_and_hint(refusal), messages.ERROR)
            else:
                text = _("{name} was withdrawn.").format(name=row.name)
                self.message_user(request, text, messages.SUCCESS)
            return redirect("admin:ledger_registeredtool_change", pk)
        title = _("Withdraw {name}").format(name=row.name)
        return self.page(request, "admin/ledger/tool_withdraw.html", title=title, row=row)

    def contract_page(self, request: HttpRequest, pk: int) -> HttpResponse:
        """The contract that its owner publishes: pin it, see what differs, accept that."""
        row = self.operated(request, pk)
        shown: dict[str, Any] = {"offered": None}
        if request.method == "POST":
            try:
                shown["offered"] = published_contracts.act(row, request.POST, **origin_of(request))
            except NotPinned as refusal:
                self.message_user(request, str(refusal), messages.ERROR)
            if shown["offered"] is None:
                return redirect(request.path)
        title = _("What the owner of {name} publishes").format(name=row.name)
        shown |= {"title": title, "row": row, **published_contracts.shown(row, shown["offered"])}
        return self.page(request, "admin/ledger/tool_contract.html", **shown)

    def waiting_page(self, request: HttpRequest, change_id: int) -> HttpResponse:
        rows = ChangeRequest.objects.filter(
            kind=registrations.KIND, tenant__in=operated_by(request)
        )
        change = get_object_or_404(rows, pk=change_id)
        tool = RegisteredTool.objects.filter(tenant=change.tenant, name=change.subject).first()
        return self.waiting(
            request,
            "admin/ledger/tool_waiting.html",
            change,
            title=_("Change of {name}").format(name=change.subject),
            shown=tool_pages.shown_change(change),
            tool=tool,
        )
