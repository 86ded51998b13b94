"""Tenants, agents and their tokens in the ledger admin. A token is shown once."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminSplitDateTime
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.db.transaction import atomic
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.formats import localize
from django.utils.html import format_html
from django.utils.timezone import localtime
from django.utils.translation import gettext as _, gettext_lazy as lazy

from ledger import contracts
from ledger.admin import limits
from ledger.admin.base import TenantAdmin
from ledger.admin.limits import WithLimits
from ledger.admin.sealed_changes import VIA, SealedEdits, principal_of
from ledger.agents import ONE_TOOL, enrolment
from ledger.delivery.webhooks import form_choices
from ledger.foundation import http_out
from ledger.foundation.crypto import standard_webhooks
from ledger.limits import Of
from ledger.models import Agent, AgentToken, Scope, Tenant
from ledger.models.agents import ALL_TOOLS
from ledger.tools import is_handed_over, registered_names


class Undeletable(TenantAdmin):
    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class KnownTools:
    """Refuses misspelled names of tools, which would allow nothing."""

    cleaned_data: dict[str, Any]

    def clean_tools(self) -> list[str]:
        names: list[str] = self.cleaned_data["tools"] or []
        known = {ALL_TOOLS, *contracts.tools, *contracts.readonly_tools}
        others = {name for name in names if not is_handed_over(name)}
        if unknown := sorted(others - known - registered_names()):
            raise ValidationError(
                f"There is no tool named {', '.join(unknown)}. There are: "
                f"{', '.join(sorted(known - {ALL_TOOLS}))}; * stands for all."
            )
        return names


class TenantForm(KnownTools, WithLimits):
    limits_of = Of.TENANT
    fast_approvals = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=1_000,
        initial=Tenant._meta.get_field("fast_approvals").default,
        help_text=Tenant._meta.get_field("fast_approvals").help_text,
    )

    def clean_fast_approvals(self) -> int:
        """Left empty, it stays as it is."""
        number: int | None = self.cleaned_data["fast_approvals"]
        return self.instance.fast_approvals if number is None else number


@admin.register(Tenant)
class TenantListAdmin(Undeletable, SealedEdits):
    form = TenantForm
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "slug",
                    "name",
                    "tools",
                    "demands_sender",
                    "demands_scopes",
                    "fast_approvals",
                    "required_policy",
                )
            },
        ),
        limits.FIELDSET,
    )
    tenant_path = "slug"
    sealed_as = "tenant"
    list_display = ("slug", "name")
    ordering = ("slug",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("slug", "required_policy") if obj else ("required_policy",)

    def tenant_slug_of(self, row: Tenant) -> str:
        return row.slug


A_PERSON = re.compile(r"user:([0-9]{1,18})")


class AgentForm(KnownTools, WithLimits):
    limits_of = Of.AGENT
    editor = ""  # the principal who edits; ``AgentAdmin.get_form`` sets it
    webhook_url = forms.URLField(
        required=False,
        assume_scheme="https",
        help_text=Agent._meta.get_field("webhook_url").help_text,
    )

    webhook_form = forms.ChoiceField(
        choices=form_choices,
        required=False,
        help_text=Agent._meta.get_field("webhook_form").help_text,
    )
    review_percent = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=100,
        initial=Agent._meta.get_field("review_percent").default,
        help_text=Agent._meta.get_field("review_percent").help_text,
    )

    def clean_review_percent(self) -> int:
        """Left empty, it stays as it is."""
        percent: int | None = self.cleaned_data["review_percent"]
        return self.instance.review_percent if percent is None else percent

    def clean_kept_by(self) -> str:
        """As principals are written, ``user:7``: votes are compared by this text."""
        keeper: str = self.cleaned_data["kept_by"].strip()
        if not keeper:
            return ""
        person = A_PERSON.fullmatch(keeper)
        key = int(person[1]) if person else None
        if key is None or not get_user_model().objects.filter(pk=key).exists():
            raise ValidationError("Name a person by the number in the admin, as user:7.")
        return f"user:{key}"

    def clean(self) -> Any:
        fields = super().clean()
        before = (self.instance.kept_by, self.instance.review_percent)
        after = (fields.get("kept_by", before[0]), fields.get("review_percent", before[1]))
        if before != after and self.editor in {before[0], after[0]}:
            raise ValidationError(
                "You keep this agent, or would: another operator has to change who keeps it and "
                "how much of it is reviewed."
            )
        return fields

    def clean_webhook_url(self) -> str:
        url: str = self.cleaned_data["webhook_url"]
        if url:
            try:
                http_out.parse(url)
            except http_out.AddressRefused as refusal:
                raise ValidationError(str(refusal)) from None
        return url


@admin.register(Agent)
class AgentAdmin(Undeletable, SealedEdits):
    sealed_as = "agent"
    form = AgentForm
    list_display = ("name", "slug", "tenant", "is_active", "webhook_url")
    list_select_related = ("tenant",)
    list_filter = ("is_active",)
    fieldsets = (
        (None, {"fields": ("tenant", "slug", "name", "is_active", "tools")}),
        ("Webhooks", {"fields": ("webhook_url", "webhook_form")}),
        ("As a supervisor", {"fields": ("kept_by", "review_percent")}),
        limits.FIELDSET,
    )
    actions = ("renew_secret",)

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, *args, **kwargs)  # a class of this request
        form.editor = str(principal_of(request))
        return form

    def save_model(self, request: HttpRequest, obj: Agent, form: Any, change: bool) -> None:
        is_new_secret = bool(obj.webhook_url) and not obj.webhook_secret
        if is_new_secret:
            obj.webhook_secret = standard_webhooks.new_secret()
        super().save_model(request, obj, form, change)
        if is_new_secret:
            self._show_once(request, obj)

    def seal(
        self, request: HttpRequest, row: Agent, edits: dict[str, list[Any]], *, is_new: bool
    ) -> None:
        by = principal_of(request)
        if is_new:
            enrolment.was_added(row, by=by, via=VIA)
        else:
            enrolment.was_changed(row, edits, by=by, via=VIA)

    @admin.action(description="Renew the webhook secret", permissions=["change"])
    def renew_secret(self, request: HttpRequest, rows: QuerySet[Agent]) -> None:
        for agent in rows:
            enrolment.renew_secret(agent, by=principal_of(request), via=VIA)
            self.log_change(request, agent, "Renewed the webhook secret.")
            self._show_once(request, agent)

    def _show_once(self, request: HttpRequest, agent: Agent) -> None:
        text = format_html(
            "Webhooks to {} are signed with <code>{}</code>. It is not shown again.",
            agent.name,
            agent.webhook_secret,
        )
        self.message_user(request, text, messages.WARNING)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        # Rows name an agent by tenant and slug; a renamed one would be another agent's past.
        return ("tenant", "slug") if obj else ()


class NamedSplitDateTime(AdminSplitDateTime):
    """Date and time, each with a name of its own for who does not see the label."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__(attrs)
        self.widgets[0].attrs["aria-label"] = "Expires on this day"
        self.widgets[1].attrs["aria-label"] = "Expires at this time"


class AgentTokenForm(forms.ModelForm):
    expires_at = forms.SplitDateTimeField(
        required=False,
        widget=NamedSplitDateTime,
        help_text="Left empty, it never expires. In your time zone.",
    )
    scopes = forms.MultipleChoiceField(
        choices=Scope.choices,
        widget=forms.CheckboxSelectMultiple,
        initial=[Scope.PROPOSE],
        required=False,
    )
    further_scopes = forms.RegexField(
        r"^[A-Za-z0-9:._-]{1,120}( [A-Za-z0-9:._-]{1,120}){0,19}$",
        required=False,
        help_text="With spaces between: propose:pay for a token that may use the tool pay alone, "
        "and what skills ask for besides, like transcripts:read",
    )

    def clean_further_scopes(self) -> list[str]:
        """Refuse misspelled tools, and ``propose`` beside ``propose:<tool>``."""
        further: list[str] = self.cleaned_data["further_scopes"].split()
        tools = [name.removeprefix(ONE_TOOL) for name in further if name.startswith(ONE_TOOL)]
        known = {*contracts.tools, *contracts.readonly_tools, *registered_names()}
        if unknown := sorted({name for name in tools if not is_handed_over(name)} - known):
            raise ValidationError(f"There is no tool named {', '.join(unknown)}.")
        if tools and Scope.PROPOSE in self.cleaned_data.get("scopes", []):
            raise ValidationError("The scope propose is for every tool: untick it.")
        return further

    def clean(self) -> Any:
        fields = super().clean() or {}
        fields["scopes"] = [*fields.get("scopes", []), *fields.get("further_scopes", [])]
        if not fields["scopes"] and not self.errors:
            raise ValidationError("Without any scope a token is good for nothing.")
        return fields

    def clean_expires_at(self) -> Any:
        expires_at = self.cleaned_data["expires_at"]
        if expires_at is not None and expires_at <= timezone.now():
            raise ValidationError("It would have expired already.")
        return expires_at


@admin.register(AgentToken)
class AgentTokenAdmin(Undeletable):
    """A token is shown once, in the message after it was made."""

    form = AgentTokenForm
    tenant_path = "agent__tenant"
    list_display = (
        "hint",
        "agent",
        "scopes",
        "created_at",
        "issued",
        "last_used_at",
        "expires",
        "revoked_at",
    )
    list_select_related = ("agent",)
    fields = ("agent", "scopes", "further_scopes", "default_skill", "expires_at")
    actions = ("rotate", "revoke")
    readonly_fields = ("issued", "expires")

    def get_fields(self, request: HttpRequest, obj: AgentToken | None = None) -> tuple[str, ...]:
        """Of one that is there: also who issued it, and since when nobody has used it."""
        return (*self.list_display, "default_skill") if obj else self.fields

    @admin.display(description=lazy("issued by"))
    def issued(self, row: AgentToken) -> str:
        return row.issued_by or ""

    @admin.display(description="expires", ordering="expires_at")
    def expires(self, row: AgentToken) -> str:
        return localize(localtime(row.expires_at)) if row.expires_at else "never expires"

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request)

    def save_model(self, request: HttpRequest, obj: AgentToken, form: Any, change: bool) -> None:
        row, token = enrolment.issue(
            obj.agent,
            scopes=obj.scopes,
            default_skill=obj.default_skill,
            expires_at=obj.expires_at,
            by=principal_of(request),
            via=VIA,
        )
        obj.pk, obj.hint, obj.token_hash = row.pk, row.hint, row.token_hash
        self._show_once(request, row, token)

    @admin.action(description="Rotate: issue a new token, revoke this one", permissions=["change"])
    def rotate(self, request: HttpRequest, rows: QuerySet[AgentToken]) -> HttpResponse | None:
        if "confirmed" not in request.POST:
            stops = _("What uses these tokens stops working until it is given the new ones.")
            return self._ask(request, rows, "rotate", _("Rotate the tokens"), stops)
        for old in rows.filter(revoked_at=None).select_related("agent"):
            with atomic():
                if not self._revoke(request, old, "Revoked: rotated."):
                    continue  # somebody was faster
                row, token = enrolment.issue(
                    old.agent,
                    scopes=old.scopes,
                    default_skill=old.default_skill,
                    expires_at=same_lifetime(old),
                    by=principal_of(request),
                    via=VIA,
                    reason=f"In place of {old}",
                )
                self.log_addition(request, row, f"Issued in place of {old}.")
            self._show_once(request, row, token)

        return None

    @admin.action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, rows: QuerySet[AgentToken]) -> HttpResponse | None:
        if "confirmed" not in request.POST:
            stops = _("What uses these tokens stops working at once, for good.")
            return self._ask(request, rows, "revoke", _("Revoke the tokens"), stops)
        number = sum(self._revoke(request, row, "Revoked.") for row in rows)
        self.message_user(request, f"{number} tokens are revoked.", messages.SUCCESS)
        return None

    def _ask(
        self, request: HttpRequest, rows: QuerySet[AgentToken], action: str, title: str, stops: str
    ) -> HttpResponse:
        """A page that says what stops working; its form does it."""
        told = {"title": title, "action": action, "consequence": stops, "opts": self.opts}
        current = rows.filter(revoked_at=None).select_related("agent")
        context = {**self.admin_site.each_context(request), **told, "rows": current}
        return TemplateResponse(request, "admin/ledger/confirm_tokens.html", context)

    def _revoke(self, request: HttpRequest, row: AgentToken, reason: str) -> bool:
        is_revoked = enrolment.revoke(row, by=principal_of(request), via=VIA, reason=reason)
        if is_revoked:
            self.log_change(request, row, reason)
        return is_revoked

    def _show_once(self, request: HttpRequest, row: AgentToken, token: str) -> None:
        text = format_html(
            '{} <button type="button" class="button" data-copy data-copied="{}">{}</button>',
            format_html(
                _("The token of {agent} is {token}. It is not shown again."),
                agent=row.agent.name,
                token=format_html("<code>{}</code>", token),
            ),
            _("Copied"),
            _("Copy"),
        )
        self.message_user(request, text, messages.WARNING)


def same_lifetime(old: AgentToken) -> Any:
    """The time at which a rotated token expires: after the lifetime of the one before."""
    return old.expires_at and timezone.now() + (old.expires_at - old.created_at)
