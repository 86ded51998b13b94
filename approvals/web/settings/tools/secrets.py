"""Secrets that tools elsewhere ask for: written, and never shown again."""

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
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from approvals.web.settings.operators import choose_tenant, kept_tenants, origin_of
from ledger.errors import NotFound
from ledger.models import Credential, CredentialKind
from ledger.tools import credentials
from ledger.tools.credentials import CredentialRefused


class WrittenOnly(forms.Textarea):
    """A text field whose value is never sent back, not even with an error of another field."""

    def format_value(self, value: Any) -> str:
        return ""


class CredentialForm(forms.ModelForm):  # type: ignore[type-arg]
    """Whoever changes where it goes has to enter it anew: they could read it there."""

    hosts = forms.CharField(
        label=gettext_lazy("Hosts"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy(
            "It is sent to these and to no other: payments.example, or payments.example:8443. "
            "One on each line."
        ),
    )
    header = forms.CharField(
        label=gettext_lazy("Name of the header"),
        max_length=100,
        required=False,
        help_text=gettext_lazy("As Authorization. For any other kind leave it empty."),
    )
    new_secret = forms.CharField(
        label=gettext_lazy("Secret"),
        max_length=100_000,
        strip=False,
        widget=WrittenOnly(attrs={"rows": 6, "autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "The value of the header; the certificate and its private key, both in PEM; or the "
            "signing secret (whsec_…), of which the one before signs for a day more. It is "
            "stored encrypted and not shown again; every change asks for it anew."
        ),
    )

    class Meta:
        model = Credential
        fields = ("tenant", "name", "kind", "hosts", "header", "new_secret")

    def __init__(self, *args: Any, tenants: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choose_tenant(self, tenants)
        if self.instance.pk:
            self.initial["hosts"] = "\n".join(self.instance.hosts)
            del self.fields["tenant"], self.fields["name"]

    def clean_hosts(self) -> list[str]:
        return str(self.cleaned_data["hosts"]).split()

    def clean(self) -> Any:
        """Check it here, so that the form shows what is wrong with it."""
        fields = super().clean()
        if self.errors or fields is None:
            return fields
        try:
            self._check(fields)
        except CredentialRefused as refusal:
            raise ValidationError(str(refusal)) from None
        return fields

    def _check(self, fields: dict[str, Any]) -> None:
        credentials.check_name(fields.get("name") or self.instance.name)
        credentials.checked_hosts(fields["hosts"])
        secret = fields["new_secret"].strip()
        match self.kind_of(fields):
            case CredentialKind.HEADER:
                credentials.check_header(fields["header"], secret)
            case CredentialKind.SIGNING_SECRET:
                credentials.check_signing_secret(secret)
            case _:
                credentials.checked_certificate(secret)

    def kind_of(self, fields: dict[str, Any]) -> str:
        return str(fields.get("kind") or self.instance.kind)


@login_required
@require_safe
def secrets(request: HttpRequest) -> HttpResponse:
    rows = _kept(request).order_by("tenant", "name")
    return render(request, "settings/secrets.html", {"secrets": rows})


@sensitive_post_parameters("new_secret")
@login_required
@require_http_methods(["GET", "POST"])
def secret(request: HttpRequest, secret_id: int | None = None) -> HttpResponse:
    """Store a secret, or another one in its place: every change asks for it anew."""
    row = get_object_or_404(_kept(request), pk=secret_id) if secret_id else None
    form = CredentialForm(request.POST or None, instance=row, tenants=kept_tenants(request))
    if request.method == "POST" and form.is_valid():
        _store(request, form)
        messages.success(request, _("Stored. It is not shown again."))
        return redirect("desk:secrets")
    status = 422 if form.errors else 200
    return render(request, "settings/secret.html", {"form": form, "row": row}, status=status)


def _store(request: HttpRequest, form: CredentialForm) -> None:
    fields, row = form.cleaned_data, form.instance
    common: dict[str, Any] = {"hosts": fields["hosts"], **origin_of(request)}
    value = fields["new_secret"].strip()
    match form.kind_of(fields):
        case CredentialKind.HEADER:
            header = fields["header"]
            credentials.set_header(row.tenant, row.name, header=header, value=value, **common)
        case CredentialKind.SIGNING_SECRET:
            credentials.set_signing_secret(row.tenant, row.name, secret=value, **common)
        case _:
            credentials.set_client_certificate(row.tenant, row.name, pem=value, **common)


@login_required
@require_POST
def remove(request: HttpRequest, secret_id: int) -> HttpResponse:
    row = get_object_or_404(_kept(request), pk=secret_id)
    try:
        credentials.remove(row.tenant, row.name, **origin_of(request))
    except NotFound:
        messages.warning(request, _("Somebody else has removed it."))
    else:
        messages.success(request, _("Removed. What asks for it is refused from now on."))
    return redirect("desk:secrets")


def _kept(request: HttpRequest) -> QuerySet[Credential]:
    """Of the tenants that the person keeps, and without what is secret."""
    rows = Credential.objects.filter(tenant__in=kept_tenants(request))
    return rows.select_related("tenant").defer("secret")
