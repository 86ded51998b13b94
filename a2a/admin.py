"""Tasks, skills and remote agents in the ledger admin. Every action calls a verb."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from a2a import remote, validation
from a2a.models import Question, RemoteAgent, Skill, Task
from a2a.remote import CardRefused
from ledger.admin.base import (
    ReadOnly,
    RetentionFilter,
    SearchedByIndex,
    TenantAdmin,
    as_json,
    related,
    tenants_of,
)
from ledger.admin.sealed_changes import VIA, SealedEdits, principal_of
from ledger.contracts import json_schemas
from ledger.errors import LedgerError, SchemaUnusable
from ledger.models import Tenant, id_or_none
from ledger.tools import watched


class SkillForm(forms.ModelForm):
    def clean_input_schema(self) -> Any:
        return self._usable("input_schema")

    def clean_output_schema(self) -> Any:
        return self._usable("output_schema")

    def _usable(self, name: str) -> Any:
        schema = self.cleaned_data[name] or {}
        try:
            json_schemas.check(schema)
        except SchemaUnusable as refusal:
            raise ValidationError(refusal.detail) from refusal
        return schema


@admin.register(Skill)
class SkillAdmin(TenantAdmin, SealedEdits):
    """Skills. One is deactivated rather than deleted, because its tasks refer to it."""

    sealed_as = "skill"
    form = SkillForm
    list_display = ("slug", "name", "agent", "is_active", "max_concurrency", "drift")
    list_select_related = ("agent",)
    fields = (
        "agent",
        "slug",
        "name",
        "description",
        "tags",
        "input_schema",
        "output_schema",
        "required_scope",
        "max_concurrency",
        "timeout",
        "lease",
        "question_ttl",
        "retention",
        "is_retry_safe",
        "max_attempts",
        "open_to",
        "requires_envelope",
        "is_active",
        "drift",
    )

    def subject_of(self, row: Skill) -> str:
        return f"skill:{row.agent.principal.id}/{row.slug}"

    def tenant_slug_of(self, row: Skill) -> str:
        return row.tenant

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("agent", "slug", "drift") if obj else ("drift",)


class TaskAdmin(ReadOnly, SearchedByIndex):
    """Read only. Not registered here: the desk does, with the actions that it offers operators."""

    counted_by = ("tenant", "-pk")
    list_display = ("summary", "state", "reason_code", "submitted_by", "owner", "created_at")
    list_filter = ("state", RetentionFilter)
    search_help_text = "Whole id, or whole trace id."
    fields = (
        "on_the_desk",
        "tenant",
        "state",
        "skill_slug",
        "submitted_by",
        "owner",
        "parent",
        "depth",
        "trace_id",
        "input_",
        "result_",
        "stage",
        "percent",
        "note",
        "reason_code",
        "reason",
        "errors_",
        "attempts",
        "fencing_token",
        "lease_expires_at",
        "created_at",
        "expires_at",
        "ended_at",
        "card_version",
        "retain_until",
        "legal_hold_at",
        "content_erased_at",
    )
    input_ = as_json("input", "input")
    result_ = as_json("result", "result")
    errors_ = as_json("errors", "what did not fit")

    @admin.display(description="task")
    def summary(self, row: Task) -> str:
        return f"{row.skill_slug} · {row.short_id}"

    @admin.display(description="on the desk")
    def on_the_desk(self, row: Task) -> SafeString:
        address = reverse("desk:task", args=[row.pk])
        return format_html('<a href="{}">Conversation, artifacts and history</a>', address)

    def rows_of(self, request: HttpRequest, value: str) -> Iterable[QuerySet[Any]]:
        rows = self.get_queryset(request)
        if task_id := id_or_none(value):
            yield rows.filter(pk=task_id)
        yield rows.filter(trace_id=validation.w3c_trace_id(value.strip())[:128])


@admin.register(Question)
class QuestionAdmin(ReadOnly, TenantAdmin):
    counted_by = ("tenant", "-pk")
    list_display = ("text_", "state", "asked_by_name", "answered_by_name", "expires_at")
    list_filter = ("state",)

    @admin.display(description="question")
    def text_(self, row: Question) -> str:
        return row.headline[:90]


class RemoteAgentForm(forms.ModelForm):
    tenant = forms.ModelChoiceField(Tenant.objects.none())
    slug = forms.SlugField(max_length=63, help_text="Its name among the agents of the tenant.")
    url = forms.URLField(assume_scheme="https", help_text="Of the agent, or of its card.")
    token = forms.CharField(required=False, widget=forms.PasswordInput, max_length=2000)

    class Meta:
        model = RemoteAgent
        fields = ("url", "token", "required_capabilities", "wants_push")

    def clean(self) -> Any:
        """Fetch and validate the card here, so that the form shows what is wrong with it."""
        fields = super().clean()
        if self.errors or fields is None:
            return fields
        try:
            remote.check_card(fields["url"], fields["token"], fields["required_capabilities"])
        except (remote.Unreachable, CardRefused) as failure:
            raise ValidationError(str(failure)) from failure
        return fields


class RemoteAgentChangeForm(forms.ModelForm):
    def clean_sample(self) -> Any:
        sample = self.cleaned_data["sample"] or {}
        if sample and not remote.is_sample(self.instance, sample):
            raise ValidationError(
                'Write {"skill": …, "input": …}: one of its skills, with an input that it takes.'
            )
        return sample


@admin.register(RemoteAgent)
class RemoteAgentAdmin(TenantAdmin, SealedEdits):
    """Remote agents: registered by the address of their card, which is pinned until an operator
    pins it anew.
    """

    sealed_as = "remote_agent"
    secrets = frozenset({"token"})
    tenant_path = "agent__tenant"
    list_display = ("agent", "url", "card_version", "fetched_at", "drift", "error", "last_sample")
    list_select_related = ("agent", "watched", "probe")
    actions = ("fetch_again", "pin", "send_sample")
    pinned_at = related("watched.pinned_at", "pinned at")
    fetched_at = related("watched.read_at", "fetched at")
    drift = related("watched.held_why", "drift")
    error = related("watched.error", "error")
    card_ = as_json("watched.pinned", "card, as pinned")
    seen_card_ = as_json("watched.seen", "card, as last fetched")

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        if obj is not None:
            return super().get_form(request, obj, change, form=RemoteAgentChangeForm, **kwargs)
        form = super().get_form(request, obj, change, form=RemoteAgentForm, **kwargs)
        tenant: Any = form.base_fields["tenant"]
        tenant.queryset = Tenant.objects.filter(slug__in=tenants_of(request))
        return form

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if obj is None:
            return ("tenant", "slug", "url", "token", "required_capabilities", "wants_push")
        return (
            "agent",
            "url",
            "required_capabilities",
            "wants_push",
            "card_version",
            "pinned_at",
            "fetched_at",
            "drift",
            "error",
            "sample",
            "last_sample",
            "card_",
            "seen_card_",
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        changeable = {"required_capabilities", "wants_push", "sample"}
        return tuple(set(self.get_fields(request, obj)) - changeable) if obj else ()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def subject_of(self, row: RemoteAgent) -> str:
        return str(row.agent.principal)

    def tenant_slug_of(self, row: RemoteAgent) -> str:
        return row.agent.tenant_id

    def save_model(self, request: HttpRequest, obj: RemoteAgent, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        fields = form.cleaned_data
        registered = remote.register(
            fields["tenant"],
            slug=fields["slug"],
            url=fields["url"],
            token=fields["token"],
            required=fields["required_capabilities"],
        )
        obj.pk, obj.agent = registered.pk, registered.agent
        RemoteAgent.objects.filter(pk=registered.pk).update(wants_push=fields["wants_push"])

    @admin.action(description="Fetch the card again and compare", permissions=["change"])
    def fetch_again(self, request: HttpRequest, rows: QuerySet[RemoteAgent]) -> None:
        for row in rows:
            problem = watched.read_now(row.watched_id)
            row.watched.refresh_from_db()
            outcome = problem or row.watched.held_why or "as it was pinned."
            self.message_user(request, f"{row.agent.name}: {outcome}")

    @admin.display(description="last sample task")
    def last_sample(self, row: RemoteAgent) -> SafeString | str:
        if row.probe is None:
            return "-"
        address = reverse("desk:task", args=[row.probe.pk])
        text = f"{row.probe.get_state_display()} {row.probe.reason}".strip()
        return format_html('<a href="{}">{}</a>', address, text[:200])

    @admin.action(description="Send a sample task", permissions=["change"])
    def send_sample(self, request: HttpRequest, rows: QuerySet[RemoteAgent]) -> None:
        for row in rows.select_related("agent", "watched"):
            try:
                task = remote.send_sample(row, by=principal_of(request), via=VIA)
            except LedgerError as refusal:
                self.message_user(request, f"{row.agent.name}: {refusal}", messages.ERROR)
                continue
            outcome = f"the sample task is {task.state}." if task else "it has no sample task."
            self.message_user(request, f"{row.agent.name}: {outcome}")

    @admin.action(description="Pin the card as it is now", permissions=["change"])
    def pin(self, request: HttpRequest, rows: QuerySet[RemoteAgent]) -> None:
        for row in rows.select_related("agent"):
            try:
                remote.pin(row, by=principal_of(request), via=VIA)
            except CardRefused as refusal:
                self.message_user(request, f"{row.agent.name}: {refusal}", messages.ERROR)
            else:
                self.log_change(request, row, "Pinned the card as it is now.")
                self.message_user(request, f"{row.agent.name}: the card of today is pinned.")
