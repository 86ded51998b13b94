"""Owning services in the ledger admin. A webhook secret is shown once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.db.transaction import atomic
from django.http import HttpRequest
from django.utils.html import format_html

from ledger.admin.base import TenantAdmin
from ledger.admin.sealed_changes import SealedEdits
from ledger.contracts import Tool
from ledger.events import ChangeKind
from ledger.foundation import http_out
from ledger.foundation.crypto import standard_webhooks
from ledger.models import Owner
from ledger.tools import tools_of


class OwnerForm(forms.ModelForm):
    webhook_url = forms.URLField(
        assume_scheme="https", help_text=Owner._meta.get_field("webhook_url").help_text
    )

    def clean_webhook_url(self) -> str:
        url: str = self.cleaned_data["webhook_url"]
        try:
            http_out.parse(url)
        except http_out.AddressRefused as refusal:
            raise ValidationError(str(refusal)) from None
        return url

    def _tools(self) -> Iterable[Tool[Any, Any]]:
        tenant = self.cleaned_data.get("tenant")
        return tools_of([tenant.pk] if tenant is not None else []).values()

    def clean_service(self) -> str:
        """Refuse a service that owns no tool: it would never get an alert."""
        service: str = self.cleaned_data["service"].strip()
        known = sorted({tool.contract.owner_service for tool in self._tools()})
        if service not in known:
            raise ValidationError(f"No tool is owned by it. There are: {', '.join(known)}.")
        return service


@admin.register(Owner)
class OwnerAdmin(TenantAdmin, SealedEdits):
    sealed_as = "owner"
    form = OwnerForm
    list_display = ("service", "tenant", "webhook_url")
    list_select_related = ("tenant",)
    exclude = ("webhook_secret",)
    actions = ("renew_secret",)

    def save_model(self, request: HttpRequest, obj: Owner, form: Any, change: bool) -> None:
        is_new_secret = not obj.webhook_secret
        if is_new_secret:
            obj.webhook_secret = standard_webhooks.new_secret()
        super().save_model(request, obj, form, change)
        if is_new_secret:
            self._show_once(request, obj)

    @admin.action(description="Renew the webhook secret", permissions=["change"])
    def renew_secret(self, request: HttpRequest, rows: QuerySet[Owner]) -> None:
        for owner in rows:
            with atomic():
                owner.webhook_secret = standard_webhooks.new_secret()
                owner.save(update_fields=["webhook_secret"])
                self._record(request, owner, ChangeKind.OWNER_SECRET_RENEWED, {})
            self.log_change(request, owner, "Renewed the webhook secret.")
            self._show_once(request, owner)

    def _show_once(self, request: HttpRequest, owner: Owner) -> None:
        text = format_html(
            "Webhooks to {} are signed with <code>{}</code>. It is not shown again.",
            owner.service,
            owner.webhook_secret,
        )
        self.message_user(request, text, messages.WARNING)
