"""The pages of trusted issuers, and what the second operator sees of a change."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from approvals.oauth.issuer_tables import CERTIFICATES, Issuer
from approvals.oauth.workloads import issuers
from approvals.oauth.workloads.assertions import ALGORITHMS
from approvals.presentation import refusal_in_words
from approvals.web.record.pending import (
    Difference,
    Pending,
    asks_to_change,
    show,
    shown_value,
    strong,
)
from approvals.web.settings.connections.json_fields import KeptJSONField
from approvals.web.settings.operators import choose_tenant, kept_tenants, origin_of
from ledger.errors import LedgerError
from ledger.events import four_eyes
from ledger.models import ChangeRequest, Tenant

LEFT_EMPTY: dict[str, Any] = {"jwks_url": "", "keys": []}  # one of the two always is
EXAMPLE = [
    {
        "agent": "helpdesk",
        "scopes": ["propose"],
        "claims": {"repository": "acme/refunds", "ref": "refs/heads/main"},
    }
]


class IssuerForm(forms.Form):
    """One issuer; of one that is known, tenant and name stay."""

    tenant = forms.ModelChoiceField(Tenant.objects.none(), label=gettext_lazy("Tenant"))
    issuer = forms.CharField(
        label=gettext_lazy("Issuer"),
        max_length=150,
        help_text=gettext_lazy(
            "Exactly as its tokens name it (iss): https://token.actions.githubusercontent.com. "
            "For certificates that a proxy verifies: client-certificate."
        ),
    )
    jwks_url = forms.CharField(
        label=gettext_lazy("Address of its keys"),
        max_length=500,
        required=False,
        help_text=gettext_lazy(
            "A JSON Web Key Set, by https: jwks_uri in its /.well-known/openid-configuration."
        ),
    )
    keys = KeptJSONField(
        label=gettext_lazy("Its keys themselves"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": "mono"}),
        help_text=gettext_lazy(
            "In place of the address: a JSON Web Key Set, or a list of its keys."
        ),
    )
    audience = forms.CharField(
        label=gettext_lazy("For whom its tokens have to be (aud)"),
        max_length=300,
        required=False,
        help_text=gettext_lazy("Empty: the address of this desk."),
    )
    algorithms = forms.MultipleChoiceField(
        label=gettext_lazy("Signed with"),
        choices=[(name, name) for name in ALGORITHMS],
        initial=["RS256", "ES256"],
        widget=forms.CheckboxSelectMultiple,
    )
    longest_minutes = forms.IntegerField(
        label=gettext_lazy("A token may expire so many minutes ahead"),
        min_value=1,
        max_value=issuers.MOST_MINUTES,
        initial=60,
    )
    is_reusable = forms.BooleanField(
        label=gettext_lazy("A token counts more than once, until it expires"),
        required=False,
        help_text=gettext_lazy("As Kubernetes needs, where a pod reads the same file again."),
    )
    is_active = forms.BooleanField(label=gettext_lazy("Switched on"), required=False, initial=True)
    rules = KeptJSONField(
        label=gettext_lazy("Rules"),
        widget=forms.Textarea(attrs={"rows": 12, "class": "mono"}),
        initial=EXAMPLE,
        help_text=gettext_lazy(
            "A list: which agent, by its short name, a token is, if all these claims are equal. "
            "Exactly one rule has to fit."
        ),
    )

    def __init__(self, *args: Any, tenants: Any, row: Issuer | None = None, **kwargs: Any) -> None:
        if row is not None:
            document = row.as_document()
            kwargs["initial"] = document | {"keys": document["keys"] or None}
        super().__init__(*args, **kwargs)
        self.row = row
        if row is None:
            choose_tenant(self, tenants)
        else:
            del self.fields["tenant"], self.fields["issuer"]

    def clean(self) -> dict[str, Any]:
        fields = super().clean() or {}
        keys = fields.get("keys") or []
        fields["keys"] = keys.get("keys", keys) if isinstance(keys, dict) else keys
        if self.errors:
            return fields
        if self.row is None:
            tenant, issuer = fields.pop("tenant"), fields.pop("issuer")
            if Issuer.objects.filter(tenant=tenant, issuer=issuer).exists():
                self.add_error("issuer", _("There is such an issuer already: change it there."))
        else:
            tenant, issuer = self.row.tenant, self.row.issuer
        self.asked = (tenant, issuer)
        try:
            issuers.check(tenant, issuer, fields)
        except LedgerError as refusal:
            self.add_error(None, refusal_in_words(refusal))
        return fields


@login_required
@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    rows = kept_issuers(request).order_by("-is_active", "tenant", "issuer")
    waiting = four_eyes.waiting(issuers.KIND).filter(tenant__in=kept_tenants(request))
    return render(request, "oauth/issuers.html", {"issuers": rows, "waiting": waiting})


@login_required
@require_http_methods(["GET", "POST"])
def new_issuer(request: HttpRequest) -> HttpResponse:
    form = IssuerForm(request.POST or None, tenants=kept_tenants(request))
    return _asked(request, form)


@login_required
@require_http_methods(["GET", "POST"])
def issuer(request: HttpRequest, issuer_id: int) -> HttpResponse:
    """One issuer, and what waits for a second operator."""
    row = get_object_or_404(kept_issuers(request), pk=issuer_id)
    return _asked(request, IssuerForm(request.POST or None, tenants=[row.tenant], row=row))


@login_required
@require_POST
def switch_off(request: HttpRequest, issuer_id: int) -> HttpResponse:
    row = get_object_or_404(kept_issuers(request), pk=issuer_id)
    issuers.switch_off(row, **origin_of(request))
    messages.success(request, _("Switched off: what it vouched for opens nothing from now on."))
    return redirect("oauth2_provider:issuer", row.pk)


def kept_issuers(request: HttpRequest) -> QuerySet[Issuer]:
    """Of the tenants that the person keeps."""
    return Issuer.objects.filter(tenant__in=kept_tenants(request)).select_related("tenant")


def _asked(request: HttpRequest, form: IssuerForm) -> HttpResponse:
    if request.method == "POST" and form.is_valid():
        change = issuers.ask(*form.asked, form.cleaned_data, **origin_of(request))
        messages.warning(request, _("It counts when another operator has confirmed it."))
        return redirect("desk:change", change.pk)
    row = form.row
    waiting = row and four_eyes.waiting_for(issuers.KIND, row.tenant_id, row.issuer)
    context = {"form": form, "row": row, "waiting": waiting}
    return render(request, "oauth/issuer.html", context, status=422 if form.errors else 200)


# --- the page of the second operator --------------------------------------------------------------


def _pending(change: ChangeRequest) -> Pending:
    """Every member that differs from what counts now."""
    row = Issuer.objects.filter(tenant=change.tenant, issuer=change.subject).first()
    before = row.as_document() if row else {}
    names = {name: str(field.label) for name, field in IssuerForm.base_fields.items()}
    is_certificates = change.subject == CERTIFICATES
    differences = [
        Difference(names[name], shown_value(before.get(name)), shown_value(value))
        for name, value in change.after.items()
        if before.get(name, LEFT_EMPTY.get(name)) != value
        and (name in {"rules", "is_active"} or not is_certificates)
    ]
    return Pending(
        asks_to_change(change, change.subject) if row else _asks_to_trust(change),
        differences,
        is_overtaken=issuers.version_of(change.tenant, change.subject) != change.in_place_of,
    )


def _asks_to_trust(change: ChangeRequest) -> SafeString:
    asker, issuer = strong(change.asked_by_name), strong(change.subject)
    return format_html(_("{asker} asks to trust {issuer}."), asker=asker, issuer=issuer)


def register() -> None:
    issuers.register()
    show(issuers.KIND, _pending)
