"""The ledger for operators. Truth is read here; it is changed through the verbs only."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin, TabularInline
from django.core.paginator import Paginator
from django.db import connection, models
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ledger import contracts, deliveries, webhooks
from ledger.models import (
    Agent,
    AgentToken,
    Checkpoint,
    Decision,
    Delivery,
    Event,
    IdempotencyKey,
    Reading,
    Scope,
    Tenant,
    Transaction,
)
from ledger.proposals import PREPARE_ROUTE
from ledger.states import WITHOUT_EFFECT

COUNTED_EXACTLY = 1_000


class EstimatingPaginator(Paginator):
    """Counts a thousand rows at most; beyond, PostgreSQL's own estimate has to do."""

    @cached_property
    def count(self) -> int:
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]
        counted = rows.order_by()[: COUNTED_EXACTLY + 1].count()
        if counted <= COUNTED_EXACTLY:
            return counted
        if rows.query.where:
            return 100 * self.per_page  # a filtered list is paged through, not counted
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass(%s)",
                [rows.model._meta.db_table],
            )
            return max(counted, int(cursor.fetchone()[0]))


def pretty(value: Any) -> SafeString:
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    return format_html('<pre class="json">{}</pre>', text)


class TenantAdmin(ModelAdmin):
    """Shows the tenants of the person who looks, and nothing at all if those are not known."""

    tenant_path = "tenant"
    # Nothing that reads the whole table: no count, no facets, no sorting by any column.
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    paginator = EstimatingPaginator
    list_per_page = 50
    list_max_show_all = 200
    ordering = ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        tenants = frozenset(getattr(request, "tenants", ()))
        return super().get_queryset(request).filter(**{f"{self.tenant_path}__in": tenants})


class ReadOnly:
    """Nothing is added, changed or deleted by hand."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class SearchedByIndex:
    """Searches whole values through their indexes; ``LIKE '%…%'`` would read a million rows."""

    def by_word(self, word: str) -> Q:
        raise NotImplementedError

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        for word in search_term.replace("\x00", "").split()[:4]:
            queryset = queryset.filter(self.by_word(word))
        return queryset, False


def is_uuid(word: str) -> bool:
    try:
        UUID(word)
    except ValueError:
        return False
    return True


class ToolFilter(admin.SimpleListFilter):
    """The tools that are declared; a DISTINCT over the table would read all of it."""

    title = "tool"
    parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        names = sorted({*contracts.tools, *contracts.readonly_tools})
        return [(name, name) for name in names]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(tool=self.value()) if self.value() else queryset


class EventInline(ReadOnly, TabularInline):
    model = Event
    fields = ("seq", "at", "kind", "from_state", "to_state", "principal_name", "via", "reason")
    readonly_fields = fields
    ordering = ("seq",)
    extra = 0


class DecisionInline(ReadOnly, TabularInline):
    model = Decision
    fields = ("verdict", "principal", "principal_name", "via", "reason", "at")
    readonly_fields = fields
    extra = 0


def _ids_named(word: str) -> set[UUID]:
    """One look into each index; PostgreSQL would answer an OR of them by reading the table."""
    live = Transaction.objects.exclude(state__in=sorted(WITHOUT_EFFECT))
    tenants = Tenant.objects.values_list("slug", flat=True)
    agents = [str(agent.principal) for agent in Agent.objects.all()]
    keys = IdempotencyKey.objects.filter(agent__in=agents, route=PREPARE_ROUTE, key=word)
    looks = (
        Transaction.objects.filter(receipt=word).exclude(receipt="").values_list("pk", flat=True),
        Transaction.objects.filter(run_id=word).exclude(run_id="").values_list("pk", flat=True),
        live.filter(tenant__in=list(tenants), operation_key=word).values_list("pk", flat=True),
        keys.filter(transaction__isnull=False).values_list("transaction_id", flat=True),
    )
    return {pk for look in looks for pk in look[:200]}


@admin.register(Transaction)
class TransactionAdmin(ReadOnly, SearchedByIndex, TenantAdmin):
    list_display = (
        "summary", "state", "tool", "money", "proposed_by", "tenant", "receipt", "created_at",
    )  # fmt: skip
    list_filter = ("state", ToolFilter)
    search_fields = ("id",)
    search_help_text = (
        "Whole id, idempotency key, receipt, trace id, run id, or operation key that is in use."
    )
    inlines = (DecisionInline, EventInline)
    fieldsets = (
        (None, {"fields": ("action_summary", "state", "money", "warnings_", "error", "tool")}),
        ("Outcome", {"fields": (
            "receipt", "receipt_url", "result_", "ending", "ending_reason",
            "compensation_receipt")}),
        ("Contract", {"fields": (
            "owner_service", "risk_level", "required_approver", "consequence_level", "quorum")}),
        ("Proposal", {"fields": (
            "tenant", "proposed_by", "proposed_by_name", "stated_reason", "payload_", "arguments_",
            "held_", "run_id", "step_id", "traceparent")}),
        ("Keys", {"fields": (
            "id", "operation_key", "input_hash", "intent_digest", "trace_id")}),
        ("Time and work", {"fields": (
            "created_at", "expires_at", "hold_expires_at", "decided_at", "ended_at",
            "retain_until", "attempts", "fencing_token", "lease_expires_at", "next_attempt_at")}),
    )  # fmt: skip

    def by_word(self, word: str) -> Q:
        if is_uuid(word):
            return Q(pk=word)
        if re.fullmatch(r"[0-9a-f]{32}", word):
            return Q(trace_id=word)
        return Q(pk__in=_ids_named(word))

    @admin.display(description="transaction")
    def summary(self, row: Transaction) -> str:
        return f"{row.action_summary[:80]} · {row.short_id}"

    @admin.display(description="amount")
    def money(self, row: Transaction) -> str:
        impact = row.financial_impact
        return f"{impact['amount']} {impact['currency']}" if impact else ""

    @admin.display(description="payload, as proposed")
    def payload_(self, row: Transaction) -> SafeString:
        return pretty(row.payload)

    @admin.display(description="arguments, as validated")
    def arguments_(self, row: Transaction) -> SafeString:
        return pretty(row.arguments)

    @admin.display(description="held")
    def held_(self, row: Transaction) -> SafeString:
        return pretty(row.held)

    @admin.display(description="result")
    def result_(self, row: Transaction) -> SafeString:
        return pretty(row.result)

    @admin.display(description="warnings")
    def warnings_(self, row: Transaction) -> str:
        return " ".join(row.warnings)


@admin.register(Event)
class EventAdmin(ReadOnly, SearchedByIndex, TenantAdmin):
    list_display = ("at", "kind", "transaction_id", "principal_name", "via", "reason")
    search_fields = ("transaction_id",)
    search_help_text = "Whole id of a transaction."

    def by_word(self, word: str) -> Q:
        return Q(transaction_id=word) if is_uuid(word) else Q(pk=None)


@admin.register(Decision)
class DecisionAdmin(ReadOnly, SearchedByIndex, TenantAdmin):
    tenant_path = "transaction__tenant"
    list_display = ("at", "verdict", "principal_name", "via", "transaction_id", "reason")
    search_fields = ("transaction_id",)
    search_help_text = "Whole id of a transaction."

    def by_word(self, word: str) -> Q:
        return Q(transaction_id=word) if is_uuid(word) else Q(pk=None)


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(ReadOnly, SearchedByIndex, TenantAdmin):
    tenant_path = "transaction__tenant"
    list_display = ("key", "agent", "route", "status", "transaction_id", "created_at")
    search_fields = ("key",)
    search_help_text = "Whole key, or whole id of a transaction."

    def by_word(self, word: str) -> Q:
        return Q(transaction_id=word) if is_uuid(word) else Q(key=word)


@admin.register(Reading)
class ReadingAdmin(ReadOnly, TenantAdmin):
    list_display = ("at", "tool", "agent", "error")
    list_filter = (ToolFilter,)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly, TenantAdmin):
    tenant_path = "event__tenant"
    list_display = (
        "id", "channel", "recipient", "state", "attempts", "next_attempt_at", "done_at", "error",
    )  # fmt: skip
    list_filter = ("state",)
    actions = ("send_again",)

    def has_send_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledger.change_delivery")

    @admin.action(description="Send again now", permissions=["send"])
    def send_again(self, request: HttpRequest, rows: QuerySet[Delivery]) -> None:
        for delivery in rows:
            deliveries.retry(delivery.pk)
        self.message_user(request, f"{len(rows)} deliveries are due now.", messages.SUCCESS)


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnly, ModelAdmin):
    list_display = ("id", "at", "after_event", "upto_event", "heads", "root")
    show_full_result_count = False
    ordering = ("-pk",)


@admin.register(Tenant)
class TenantListAdmin(TenantAdmin):
    tenant_path = "slug"
    list_display = ("slug", "name")
    ordering = ("slug",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("slug",) if obj else ()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Agent)
class AgentAdmin(TenantAdmin):
    list_display = ("name", "slug", "tenant", "is_active", "webhook_url")
    list_filter = ("is_active",)
    exclude = ("webhook_secret",)

    def save_model(self, request: HttpRequest, obj: Agent, form: Any, change: bool) -> None:
        is_new_secret = bool(obj.webhook_url) and not obj.webhook_secret
        if is_new_secret:
            obj.webhook_secret = webhooks.new_secret()
        super().save_model(request, obj, form, change)
        if is_new_secret:
            words = format_html(
                "Webhooks are signed with <code>{}</code>. It is not shown again.",
                obj.webhook_secret,
            )
            self.message_user(request, words, messages.WARNING)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        # Rows name an agent by tenant and slug; a renamed one would be another agent's past.
        return ("tenant", "slug") if obj else ()

    def formfield_for_foreignkey(
        self, db_field: models.ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        if db_field.name == "tenant":
            kwargs["queryset"] = Tenant.objects.filter(
                slug__in=frozenset(getattr(request, "tenants", ()))
            )
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(AgentToken)
class AgentTokenAdmin(TenantAdmin):
    """A token is shown once, in the message after it was made."""

    tenant_path = "agent__tenant"
    list_display = ("hint", "agent", "scopes", "created_at", "expires_at", "revoked_at")
    list_select_related = ("agent",)
    fields = ("agent", "scopes", "expires_at")
    actions = ("rotate", "revoke")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def formfield_for_foreignkey(
        self, db_field: models.ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        if db_field.name == "agent":
            kwargs["queryset"] = Agent.objects.filter(
                tenant__in=frozenset(getattr(request, "tenants", ()))
            )
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_dbfield(
        self, db_field: models.Field[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        if db_field.name == "scopes":
            return forms_for_scopes()
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: AgentToken, form: Any, change: bool) -> None:
        row, token = AgentToken.issue(obj.agent, scopes=obj.scopes, expires_at=obj.expires_at)
        obj.pk, obj.hint, obj.token_hash = row.pk, row.hint, row.token_hash
        self._show_once(request, row, token)

    @admin.action(description="Rotate: issue a new token, revoke this one", permissions=["change"])
    def rotate(self, request: HttpRequest, rows: QuerySet[AgentToken]) -> None:
        for old in rows.filter(revoked_at=None).select_related("agent"):
            row, token = AgentToken.issue(old.agent, scopes=old.scopes, expires_at=old.expires_at)
            AgentToken.objects.filter(pk=old.pk).update(revoked_at=models.functions.Now())
            self._show_once(request, row, token)

    @admin.action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, rows: QuerySet[AgentToken]) -> None:
        number = rows.filter(revoked_at=None).update(revoked_at=models.functions.Now())
        self.message_user(request, f"{number} tokens are revoked.", messages.SUCCESS)

    def _show_once(self, request: HttpRequest, row: AgentToken, token: str) -> None:
        words = format_html(
            "The token of {} is <code>{}</code>. It is not shown again.", row.agent.name, token
        )
        self.message_user(request, words, messages.WARNING)


def forms_for_scopes() -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(
        choices=Scope.choices, widget=forms.CheckboxSelectMultiple, initial=[Scope.PROPOSE]
    )
