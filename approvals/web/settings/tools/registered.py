"""Registered tools, one page each: terms, versions, what its owner publishes, a try.

Each change is shown first, and then made as it was shown; what loosens a tool takes two operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from approvals.presentation import refusal_and_hint
from approvals.web.settings.operators import kept_tenants, origin_of
from approvals.web.settings.tools import published_contracts, published_tools, versions
from approvals.web.settings.tools.forms import AddressForm, NewTextForm, TermsForm, TextForm
from approvals.web.settings.tools.versions import Preview
from ledger.agents import enrolment
from ledger.api import describe
from ledger.errors import LedgerError
from ledger.models import RegisteredTool, Tenant
from ledger.reporting.usage import usage_of_tools
from ledger.tools import NotPinned, last_named, manifests, registrations
from ledger.tools.http.published import Unreadable, Unusable
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


@login_required
@require_safe
def tool(request: HttpRequest, tool_id: int) -> HttpResponse:
    """The state of a tool, what waits, and every version with what it changed."""
    row = _visible(request, tool_id)
    latest = registrations.latest(row.tenant, row.name)
    described = last_named(row.tenant_id, row.name)
    context = {
        "row": row,
        "tool": {**describe(described), "contract": described.contract} if described else None,
        "runs_at": versions.runs_at(row),
        "usage": usage_of_tools({row.tenant_id}).get(row.name),
        "standing": versions.standing(row),
        "kind": versions.kind_of(row),
        "versions": versions.versions_of(row),
        "waiting": versions.waiting_for(row),
        "silences": versions.silences_of(row),
        "late_calls": late_calls([row.tenant_id], row.name),
        "form": TermsForm(manifest=latest) if latest else None,
    }
    return render(request, "settings/tool.html", context)


def _visible(request: HttpRequest, tool_id: int) -> RegisteredTool:
    """A tool of a tenant that the operator keeps."""
    rows = RegisteredTool.objects.filter(tenant__in=kept_tenants(request))
    return get_object_or_404(rows.select_related("tenant", "watched"), pk=tool_id)


# --- changing it ----------------------------------------------------------------------------------


@login_required
@require_http_methods(["GET", "POST"])
def new_by_address(request: HttpRequest) -> HttpResponse:
    """Add a tool over HTTP: its address, then what it publishes, then its terms."""
    form = AddressForm(request.POST or None, tenants=kept_tenants(request))
    if request.method == "POST" and form.is_valid():
        wanted = dict(form.cleaned_data)
        tenant = wanted.pop("tenant")
        try:
            read = published_tools.read(tenant, wanted)
        except (Unreadable, Unusable, ManifestRefused) as refusal:
            form.add_error("address", str(refusal))
        else:
            text = manifests.texts.text_of(read.manifest)
            edited = NewTextForm({"tenant": tenant.pk, "text": text}, tenants=kept_tenants(request))
            return _edit(request, edited, None, {"contract": read.contract})
    status = 422 if form.errors else 200
    return render(request, "settings/tool_new.html", {"form": form}, status=status)


@login_required
@require_http_methods(["GET", "POST"])
def new_by_text(request: HttpRequest) -> HttpResponse:
    """Register a tool that is new, or that was withdrawn."""
    initial = {"text": BEGINNING}
    form = NewTextForm(request.POST or None, initial=initial, tenants=kept_tenants(request))
    return _edit(request, form, None)


@login_required
@require_http_methods(["GET", "POST"])
def version(request: HttpRequest, tool_id: int) -> HttpResponse:
    """Change one tool by its text."""
    row = _visible(request, tool_id)
    latest = registrations.latest(row.tenant, row.name)
    text = manifests.texts.text_of(latest) if latest else ""
    return _edit(request, TextForm(request.POST or None, initial={"text": text}), row)


@login_required
@require_POST
def terms(request: HttpRequest, tool_id: int) -> HttpResponse:
    """Change who signs and how long it waits: the same preview as of its text."""
    row = _visible(request, tool_id)
    latest = registrations.latest(row.tenant, row.name)
    form = TermsForm(request.POST, manifest=latest) if latest else None
    if form is None or not form.is_valid():
        messages.error(request, _("Nothing was changed: look at the terms again."))
        return redirect("desk:tool", row.pk)
    try:
        text = form.text()
    except ManifestRefused as refusal:
        messages.error(request, str(refusal))
        return redirect("desk:tool", row.pk)
    return _edit(request, TextForm({"text": text}), row)


def _edit(
    request: HttpRequest,
    form: TextForm,
    row: RegisteredTool | None,
    shown: Mapping[str, Any] | None = None,
) -> HttpResponse:
    """The form; then what would change; then, if that was confirmed as it was shown, do it."""
    preview: Preview | None = None
    if request.method == "POST" and form.is_valid() and "back" not in request.POST:
        tenant = row.tenant if row else form.cleaned_data["tenant"]
        try:
            preview = versions.preview(tenant, form.cleaned_data["text"], row)
            if preview.is_confirmed_by(request.POST):
                return _carry_out(request, tenant, preview)
        except (ManifestRefused, Refused) as refusal:
            form.add_error("text", str(refusal))
            preview = None
    terms = preview.manifest.contract.model_dump(mode="json") if preview else {}
    context = {"form": form, "row": row, "preview": preview, "terms": terms, **(shown or {})}
    status = 422 if form.errors else 200
    return render(request, "settings/tool_edit.html", context, status=status)


def _carry_out(request: HttpRequest, tenant: Tenant, preview: Preview) -> HttpResponse:
    """Raises ``Refused``."""
    manifest = preview.manifest
    origin = {"in_place_of": preview.in_place_of, **origin_of(request)}
    change = registrations.change(tenant, manifest, **origin)
    if change is not None:
        text = _("{name} changes when another operator has confirmed it.")
        messages.warning(request, text.format(name=manifest.name))
        return redirect("desk:change", change.pk)
    text = _("Agents get this version of {name} from now on.")
    messages.success(request, text.format(name=manifest.name))
    row = RegisteredTool.objects.get(tenant=tenant, name=manifest.name)
    allow(request, row)
    return redirect("desk:tool", row.pk)


def allow(request: HttpRequest, row: RegisteredTool) -> None:
    """A tool that its tenant's agents may not ask for yet: whoever registers it means them to."""
    if not {"*", row.name} & {*row.tenant.tools}:
        enrolment.allow_tools(row.tenant, [row.name], **origin_of(request))


@login_required
@require_POST
def withdraw(request: HttpRequest, tool_id: int) -> HttpResponse:
    row = _visible(request, tool_id)
    try:
        registrations.withdraw(row.tenant, row.name, **origin_of(request))
    except LedgerError as refusal:
        messages.error(request, refusal_and_hint(refusal))
    else:
        messages.success(request, _("{name} was withdrawn.").format(name=row.name))
    return redirect("desk:tool", row.pk)


@login_required
@require_http_methods(["GET", "POST"])
def contract(request: HttpRequest, tool_id: int) -> HttpResponse:
    """The contract that its owner publishes: pin it, see what differs, accept that."""
    row = _visible(request, tool_id)
    offered: dict[str, Any] | None = None
    if request.method == "POST":
        try:
            offered = published_contracts.act(row, request.POST, **origin_of(request))
        except NotPinned as refusal:
            messages.error(request, str(refusal))
        if offered is None:
            return redirect(request.path)
    context = {"row": row, "offered": offered, **published_contracts.shown(row, offered)}
    return render(request, "settings/tool_contract.html", context)
