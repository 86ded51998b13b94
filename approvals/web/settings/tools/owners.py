"""Services that own tools, and the webhooks by which each is told of what goes wrong."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from approvals.web.settings.operators import choose_tenant, kept_tenants, origin_of
from approvals.web.settings.saving import saves_changes_only
from ledger.agents import enrolment
from ledger.foundation import http_out
from ledger.models import Owner, Tenant
from ledger.tools import tools_of


class WebhookForm(forms.Form):
    webhook_url = forms.URLField(
        label=gettext_lazy("It is told at this address"),
        assume_scheme="https",
        max_length=200,
        help_text=gettext_lazy(
            "When a transaction of one of its tools is in doubt, fails, gets stuck or is late."
        ),
    )

    def clean_webhook_url(self) -> str:
        url: str = self.cleaned_data["webhook_url"]
        try:
            http_out.parse(url)
        except http_out.AddressRefused as refusal:
            raise ValidationError(str(refusal)) from None
        return url


class OwnerForm(WebhookForm):
    """Of a service that owns a tool: any other would never be told of anything."""

    tenant = forms.ModelChoiceField(Tenant.objects.none(), label=gettext_lazy("Tenant"))
    service = forms.ChoiceField(label=gettext_lazy("Service that owns tools"))
    field_order = ("tenant", "service", "webhook_url")

    def __init__(self, *args: Any, tenants: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choose_tenant(self, tenants)
        service: Any = self.fields["service"]
        service.choices = [(name, name) for name in _services(tenants)]

    def clean(self) -> dict[str, Any]:
        fields = super().clean() or {}
        tenant, service = fields.get("tenant"), fields.get("service")
        if tenant is None or service is None:
            return fields
        if service not in _services([tenant]):
            self.add_error("service", _("It owns no tool of this tenant."))
        elif Owner.objects.filter(tenant=tenant, service=service).exists():
            self.add_error("service", _("It is told already: change it there."))
        return fields


def _services(tenants: Any) -> list[str]:
    there = tools_of([tenant.pk for tenant in tenants]).values()
    return sorted({tool.contract.owner_service for tool in there})


@login_required
@require_http_methods(["GET", "POST"])
def owners(request: HttpRequest) -> HttpResponse:
    """All of them; a posted form adds one, and its secret is shown once."""
    form = OwnerForm(request.POST or None, tenants=kept_tenants(request))
    if request.method == "POST" and form.is_valid():
        wanted = form.cleaned_data
        row = enrolment.add_owner(
            wanted["tenant"], wanted["service"], wanted["webhook_url"], **origin_of(request)
        )
        return _page(request, row, secret=str(row.webhook_secret))
    rows = _kept(request).order_by("tenant", "service")
    status = 422 if form.errors else 200
    return render(request, "settings/owners.html", {"owners": rows, "form": form}, status=status)


@login_required
@require_http_methods(["GET", "POST"])
def owner(request: HttpRequest, owner_id: int) -> HttpResponse:
    """One of them; what is posted is saved."""
    row = get_object_or_404(_kept(request), pk=owner_id)
    if request.method != "POST":
        return _page(request, row)
    form = _webhook_form(row, request.POST)
    if not form.is_valid():
        return _page(request, row, form=form)
    if form.has_changed():
        url = form.cleaned_data["webhook_url"]
        enrolment.set_owner_address(row, url, **origin_of(request))
    messages.success(request, _("Saved."))
    return redirect("desk:tool-owner", row.pk)


def _webhook_form(row: Owner, posted: Any = None) -> WebhookForm:
    form = WebhookForm(posted, initial={"webhook_url": row.webhook_url})
    saves_changes_only(form)
    return form


@login_required
@require_POST
def renew_secret(request: HttpRequest, owner_id: int) -> HttpResponse:
    """Another secret, which the answer shows once."""
    row = get_object_or_404(_kept(request), pk=owner_id)
    secret = enrolment.renew_owner_secret(row, **origin_of(request))
    return _page(request, row, secret=secret)


@login_required
@require_POST
def remove(request: HttpRequest, owner_id: int) -> HttpResponse:
    enrolment.remove_owner(get_object_or_404(_kept(request), pk=owner_id), **origin_of(request))
    messages.success(request, _("Removed. Its team is told of nothing from now on."))
    return redirect("desk:tool-owners")


def _kept(request: HttpRequest) -> QuerySet[Owner]:
    """Of the tenants that the person keeps, and without what is secret."""
    rows = Owner.objects.filter(tenant__in=kept_tenants(request))
    return rows.select_related("tenant").defer("webhook_secret")


def _page(
    request: HttpRequest, row: Owner, *, form: WebhookForm | None = None, secret: str = ""
) -> HttpResponse:
    there = tools_of([row.tenant_id])
    context = {
        "row": row,
        "form": form or _webhook_form(row),
        "secret": secret,
        "tools": sorted(
            name for name, tool in there.items() if tool.contract.owner_service == row.service
        ),
    }
    return render(request, "settings/owner.html", context, status=422 if form else 200)
