"""Credentials of tools elsewhere in the admin: written, and never shown again."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters

from approvals.admin.operator_pages import OperatorPages, operated_by, origin_of
from ledger.errors import NotFound
from ledger.models import Credential, CredentialKind
from ledger.tools import credentials
from ledger.tools.credentials import CredentialRefused


class WrittenOnly(forms.Textarea):
    """A text field whose value is never sent back, not even with an error of another field."""

    def format_value(self, value: Any) -> str:
        return ""


class CredentialForm(forms.ModelForm):
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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["hosts"] = "\n".join(self.instance.hosts)

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


@admin.register(Credential)
class CredentialAdmin(OperatorPages):
    form = CredentialForm
    list_display = ("name", "tenant", "kind", "hosts_", "header", "expires_at")
    list_select_related = ("tenant",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Of the tenants that the person operates, and without what is secret."""
        rows = super().get_queryset(request).defer("secret")
        return rows.filter(tenant__in=operated_by(request))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and bool(operated_by(request))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("tenant", "name", "expires_at") if obj else ()

    @admin.display(description=gettext_lazy("hosts"))
    def hosts_(self, row: Credential) -> str:
        return ", ".join(row.hosts)

    @method_decorator(sensitive_post_parameters("new_secret"))
    def changeform_view(self, *args: Any, **kwargs: Any) -> Any:
        return super().changeform_view(*args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Credential, form: Any, change: bool) -> None:
        fields = form.cleaned_data
        common: dict[str, Any] = {"hosts": fields["hosts"], **origin_of(request)}
        secret = fields["new_secret"].strip()
        match form.kind_of(fields):
            case CredentialKind.HEADER:
                header = fields["header"]
                credentials.set_header(obj.tenant, obj.name, header=header, value=secret, **common)
            case CredentialKind.SIGNING_SECRET:
                credentials.set_signing_secret(obj.tenant, obj.name, secret=secret, **common)
            case _:
                credentials.set_client_certificate(obj.tenant, obj.name, pem=secret, **common)
        obj.pk = Credential.objects.defer("secret").get(tenant=obj.tenant, name=obj.name).pk

    def delete_model(self, request: HttpRequest, obj: Credential) -> None:
        try:
            credentials.remove(obj.tenant, obj.name, **origin_of(request))
        except NotFound:
            self.message_user(request, _("Somebody else has removed it."), messages.WARNING)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset.defer("secret"):
            self.delete_model(request, row)
