"""Programs that sign in, in the admin: superusers register those that nobody else vouches for."""

from __future__ import annotations

from typing import Any

import oauth2_provider.admin  # noqa: F401  registers pages of its own, which go below
from django import forms
from django.contrib import admin
from django.db.transaction import atomic
from django.http import HttpRequest
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_id_token_model,
    get_refresh_token_model,
)

from approvals.oauth import connections
from approvals.oauth.changes import SignInChange
from approvals.oauth.models import Client
from approvals.people import principal_of
from ledger.admin.base import StrictLookups
from ledger.events import edits_between, record_change
from ledger.principals import Surface

for model in (
    get_application_model(),
    get_access_token_model(),
    get_grant_model(),
    get_id_token_model(),
    get_refresh_token_model(),
):
    admin.site.unregister(model)

SEALED = ("name", "redirect_uris", "client_type", "agent", "is_active")


class ClientForm(forms.ModelForm):
    """A program with which people sign in, or one that is an agent by itself."""

    class Meta:
        model = Client
        fields = ("name", "client_id", "redirect_uris", "agent", "client_secret", "is_active")

    def clean(self) -> dict[str, Any]:
        fields = super().clean() or {}
        row = self.instance
        row.agent = fields.get("agent", row.agent)  # of one that is known, not in the form
        row.authorization_grant_type = (
            Client.GRANT_CLIENT_CREDENTIALS if row.agent else Client.GRANT_AUTHORIZATION_CODE
        )
        row.client_type = Client.CLIENT_CONFIDENTIAL if row.agent else Client.CLIENT_PUBLIC
        if row.agent and not fields.get("client_secret", "as it is"):
            self.add_error("client_secret", "Whoever has it is the agent: it cannot be empty.")
        return fields


@admin.register(Client)
class ClientAdmin(StrictLookups):
    form = ClientForm
    list_display = ("name", "client_id", "registration_source", "agent", "is_active", "created")
    list_filter = ("registration_source", "is_active")
    search_fields = ("name", "client_id")
    ordering = ("-pk",)

    def get_readonly_fields(self, request: HttpRequest, obj: Client | None = None) -> Any:
        """Its id and its agent stay; a secret is shown once, while it is made."""
        return ("client_id", "agent") if obj else ()

    def get_exclude(self, request: HttpRequest, obj: Client | None = None) -> Any:
        return ("client_secret",) if obj else ()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # what it was given stays on record; switch it off

    def save_model(self, request: HttpRequest, obj: Client, form: Any, change: bool) -> None:
        before = Client.objects.get(pk=obj.pk) if change else Client()
        by = principal_of(request.user)  # type: ignore[arg-type]
        with atomic():
            super().save_model(request, obj, form, change)
            edits = edits_between(_sealed(before), _sealed(obj))
            record_change(
                f"client:{obj.client_id}"[:200],
                SignInChange.CLIENT_CHANGED if change else SignInChange.CLIENT_ADDED,
                tenant=obj.agent.tenant_id if obj.agent else "",
                by=by,
                via=Surface.ADMIN,
                name=str(obj),
                details={"edits": edits},
            )
            if not obj.is_active:
                connections.end_client(obj, by=by, via=Surface.ADMIN)


def _sealed(row: Client) -> dict[str, Any]:
    return {name: str(getattr(row, name) or "") for name in SEALED}
