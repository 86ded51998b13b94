"""The ledger for operators. Truth is read here; it is changed through the verbs only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin, SimpleListFilter, TabularInline
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db import models
from django.db.models import Q, QuerySet
from django.db.models.functions import Cast, Now, Right
from django.db.transaction import atomic
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
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
    DeliveryState,
    Event,
    IdempotencyKey,
    Reading,
    Scope,
    Tenant,
    Transaction,
)
from ledger.proposals import PREPARE_ROUTE
from ledger.states import WITHOUT_EFFECT

# Whoever may do more than look, within the roles that the verbs ask for.
OPERATE = "ledger.change_transaction"
COUNTED = 2_000  # rows that a list counts and pages through; a longer one has to be narrowed down
FOUND = 1_000  # rows that one search finds at most
LATEST = 100_000  # rows that are read for what no index answers


def tenants_of(request: HttpRequest) -> frozenset[str]:
    """Nobody's, where the request does not say."""
    return frozenset(getattr(request, "tenants", ()))


class BoundedPaginator(Paginator):
    """Counts no further than ``COUNTED``: to count a million rows takes a second, on every page."""

    @cached_property
    def _counted(self) -> int:
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]
        return rows[: COUNTED + 1].count()

    @property
    def has_more(self) -> bool:
        return self._counted > COUNTED

    @cached_property
    def count(self) -> int:
        return min(self._counted, COUNTED)


class TenantAdmin(ModelAdmin):
    """Shows the tenants of the person who looks, and nothing at all if those are not known."""

    tenant_path = "tenant"
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = BoundedPaginator
    list_per_page = 50
    list_max_show_all = 200
    ordering: ClassVar[tuple[str, ...]] = ("-pk",)
    sortable_by: ClassVar[tuple[str, ...]] = ()  # any other order would sort a million rows

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return self.of_tenants(super().get_queryset(request), tenants_of(request))

    def of_tenants(self, rows: QuerySet[Any], tenants: frozenset[str]) -> QuerySet[Any]:
        return rows.filter(**{f"{self.tenant_path}__in": tenants})

    def among_latest(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Those of the rows that are among the newest, which are few enough to be read."""
        newest = self.get_queryset(request).order_by("-pk").values_list("pk", flat=True)
        beyond = list(newest[LATEST : LATEST + 1])
        return rows.filter(pk__gt=beyond[0]) if beyond else rows


class ReadOnly:
    """Nothing is added, changed or deleted by hand."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class SearchedByIndex(TenantAdmin):
    """Searches for one whole value; ``LIKE '%…%'`` would read a million rows."""

    search_fields = ("pk",)  # only so that there is a search box

    def rows_of(self, request: HttpRequest, value: str) -> Iterable[QuerySet[Any]]:
        """Questions, of which each is quick on its own. PostgreSQL is not quick with their OR."""
        raise NotImplementedError

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        value = search_term.replace("\x00", "").strip()
        if not value:
            return queryset, False
        found: set[Any] = set()
        for rows in self.rows_of(request, value):
            found.update(rows.values_list("pk", flat=True)[:FOUND])
        return queryset.filter(pk__in=found), False


class ToolFilter(SimpleListFilter):
    """The tools that are declared; a DISTINCT over the table would read all of it."""

    title = parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in sorted(contracts.tools)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(tool=self.value()) if self.value() else queryset


class ReadonlyToolFilter(ToolFilter):
    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in sorted(contracts.readonly_tools)]


def pretty(value: Any) -> SafeString | str:
    """JSON as people read it. What is kept as text is parsed first, if it is JSON."""
    if value in (None, ""):
        return ""
    if isinstance(value, str):
        try:
            return pretty(json.loads(value))
        except ValueError:
            return f"{value}"
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    return format_html('<pre class="json">{}</pre>', text)


def as_json(column: str, label: str) -> Any:
    @admin.display(description=label)
    def shown(self: Any, row: models.Model) -> SafeString | str:
        return pretty(getattr(row, column))

    return shown


def link_to(transaction_id: UUID | None) -> SafeString | str:
    if transaction_id is None:
        return ""
    address = reverse("admin:ledger_transaction_change", args=[transaction_id])
    return format_html('<a href="{}">{}</a>', address, transaction_id.hex[-8:])


def uuid_in(word: str) -> UUID | None:
    try:
        return UUID(word)
    except ValueError:
        return None


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


@admin.register(Transaction)
class TransactionAdmin(ReadOnly, SearchedByIndex):
    list_display = (
        "summary", "state", "tool", "money", "proposed_by", "tenant", "receipt", "created_at",
    )  # fmt: skip
    list_filter = ("state", ToolFilter)
    search_help_text = (
        "Id (whole, how it begins, or its last eight digits), idempotency or operation key, "
        "receipt, trace id or run id."
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
    payload_ = as_json("payload", "payload, as proposed")
    arguments_ = as_json("arguments", "arguments, as validated")
    held_ = as_json("held", "held")
    result_ = as_json("result", "result")

    def rows_of(self, request: HttpRequest, value: str) -> Iterable[QuerySet[Any]]:
        rows = self.get_queryset(request)
        digits = value.replace("-", "").lower()
        if re.fullmatch(r"[0-9a-f]{9,32}", digits):  # an id, or how it begins
            first, last = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
            yield rows.filter(pk__gte=first, pk__lte=last)
        if re.fullmatch(r"[0-9a-f]{8}", digits):
            tail = Right(Cast("pk", models.TextField()), 8)
            yield self.among_latest(request, rows.alias(tail=tail).filter(tail=digits))
        yield rows.filter(receipt=value)
        yield rows.filter(run_id=value)
        yield rows.filter(trace_id=digits)
        keys = IdempotencyKey.objects.filter(
            agent__in=agents_of(tenants_of(request)), route=PREPARE_ROUTE, key=value
        )
        yield rows.filter(pk__in=list(keys.values_list("transaction_id", flat=True)[:FOUND]))
        without_effect = Q(state__in=sorted(WITHOUT_EFFECT))
        yield rows.filter(~without_effect, operation_key=value)
        if ":" in value:
            ended = rows.filter(without_effect, operation_key=value)
            yield self.among_latest(request, ended)

    @admin.display(description="transaction")
    def summary(self, row: Transaction) -> str:
        return f"{row.action_summary[:80]} · {row.short_id}"

    @admin.display(description="amount")
    def money(self, row: Transaction) -> str:
        impact = row.financial_impact
        return f"{impact['amount']} {impact['currency']}" if impact else ""

    @admin.display(description="warnings")
    def warnings_(self, row: Transaction) -> str:
        return " ".join(row.warnings)


def agents_of(tenants: frozenset[str]) -> list[str]:
    """The agents of these tenants, as rows name them."""
    return [str(agent.principal) for agent in Agent.objects.filter(tenant__in=tenants)]


class OfTransaction(ReadOnly, SearchedByIndex):
    """Rows that belong to a transaction, and are found by its id."""

    # By the transaction's own column, which has an index and statistics for rare tenants.
    tenant_path = "transaction__tenant"
    search_help_text = "Whole id of a transaction."

    @admin.display(description="transaction")
    def linked(self, row: Any) -> SafeString | str:
        return link_to(row.transaction_id)

    def rows_of(self, request: HttpRequest, value: str) -> Iterable[QuerySet[Any]]:
        if transaction_id := uuid_in(value):
            yield self.get_queryset(request).filter(transaction=transaction_id)


@admin.register(Event)
class EventAdmin(OfTransaction):
    list_display = ("at", "kind", "linked", "principal_name", "via", "reason")
    fields = (
        "linked", "seq", "at", "tenant", "kind", "from_state", "to_state", "principal",
        "principal_name", "via", "reason", "details_", "previous_hash", "hash",
    )  # fmt: skip
    details_ = as_json("details", "details")


@admin.register(Decision)
class DecisionAdmin(OfTransaction):
    list_display = ("at", "verdict", "principal_name", "via", "linked", "reason")


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(OfTransaction):
    list_display = ("key", "agent", "route", "status", "linked", "created_at")
    search_help_text = "Whole key, or whole id of a transaction."
    fields = (
        "key", "agent", "route", "payload_hash", "linked", "status", "answer_",
        "created_at",
    )  # fmt: skip
    answer_ = as_json("answer", "answer")

    def of_tenants(self, rows: QuerySet[Any], tenants: frozenset[str]) -> QuerySet[Any]:
        """By agent: a cancel that came before its prepare has no transaction."""
        return rows.filter(agent__in=agents_of(tenants))

    def rows_of(self, request: HttpRequest, value: str) -> Iterable[QuerySet[Any]]:
        yield self.get_queryset(request).filter(route=PREPARE_ROUTE, key=value)
        yield from super().rows_of(request, value)


@admin.register(Reading)
class ReadingAdmin(ReadOnly, TenantAdmin):
    list_display = ("at", "tool", "agent", "error")
    list_filter = (ReadonlyToolFilter,)
    fields = ("id", "at", "tenant", "agent", "tool", "arguments_", "result_hash", "error")
    arguments_ = as_json("arguments", "arguments")


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly, TenantAdmin):
    tenant_path = "event__tenant"
    list_display = (
        "id", "linked", "channel", "recipient", "state", "attempts", "next_attempt_at",
        "done_at", "error",
    )  # fmt: skip
    list_filter = ("state",)
    list_select_related = ("event",)
    actions = ("send_again",)

    @admin.display(description="transaction")
    def linked(self, row: Delivery) -> SafeString | str:
        return link_to(row.event.transaction_id)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(OPERATE)

    @admin.action(description="Send again now", permissions=["operate"])
    def send_again(self, request: HttpRequest, rows: QuerySet[Delivery]) -> None:
        owed = list(rows.exclude(state=DeliveryState.DONE))
        for delivery in owed:
            deliveries.retry(delivery.pk)
            self.log_change(request, delivery, "Sent again.")
        self.message_user(request, f"{len(owed)} deliveries are due now.", messages.SUCCESS)


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnly, TenantAdmin):
    list_display = ("id", "at", "after_event", "upto_event", "heads", "root")

    def of_tenants(self, rows: QuerySet[Any], tenants: frozenset[str]) -> QuerySet[Any]:
        """They are about everything, and say nothing of anybody."""
        return rows if tenants else rows.none()


class Undeletable(TenantAdmin):
    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Tenant)
class TenantListAdmin(Undeletable):
    tenant_path = "slug"
    list_display = ("slug", "name")
    ordering = ("slug",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("slug",) if obj else ()


class AgentForm(forms.ModelForm):
    webhook_url = forms.URLField(
        required=False,
        assume_scheme="https",
        help_text=Agent._meta.get_field("webhook_url").help_text,
    )

    def clean_webhook_url(self) -> str:
        url: str = self.cleaned_data["webhook_url"]
        if url:
            try:
                webhooks.target_of(url)
            except webhooks.AddressRefused as refusal:
                raise ValidationError(str(refusal)) from None
        return url


@admin.register(Agent)
class AgentAdmin(Undeletable):
    form = AgentForm
    list_display = ("name", "slug", "tenant", "is_active", "webhook_url")
    list_select_related = ("tenant",)
    list_filter = ("is_active",)
    exclude = ("webhook_secret",)
    actions = ("renew_secret",)

    def save_model(self, request: HttpRequest, obj: Agent, form: Any, change: bool) -> None:
        is_new_secret = bool(obj.webhook_url) and not obj.webhook_secret
        if is_new_secret:
            obj.webhook_secret = webhooks.new_secret()
        super().save_model(request, obj, form, change)
        if is_new_secret:
            self._show_once(request, obj)

    @admin.action(description="Renew the webhook secret", permissions=["change"])
    def renew_secret(self, request: HttpRequest, rows: QuerySet[Agent]) -> None:
        for agent in rows:
            agent.webhook_secret = webhooks.new_secret()
            agent.save(update_fields=["webhook_secret"])
            self.log_change(request, agent, "Renewed the webhook secret.")
            self._show_once(request, agent)

    def _show_once(self, request: HttpRequest, agent: Agent) -> None:
        words = format_html(
            "Webhooks to {} are signed with <code>{}</code>. It is not shown again.",
            agent.name,
            agent.webhook_secret,
        )
        self.message_user(request, words, messages.WARNING)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        # Rows name an agent by tenant and slug; a renamed one would be another agent's past.
        return ("tenant", "slug") if obj else ()

    def formfield_for_foreignkey(
        self, db_field: models.ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        if db_field.name == "tenant":
            kwargs["queryset"] = Tenant.objects.filter(slug__in=tenants_of(request))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)


class AgentTokenForm(forms.ModelForm):
    scopes = forms.MultipleChoiceField(
        choices=Scope.choices, widget=forms.CheckboxSelectMultiple, initial=[Scope.PROPOSE]
    )
    further_scopes = forms.RegexField(
        r"^[a-z0-9:._-]{1,50}( [a-z0-9:._-]{1,50}){0,19}$",
        required=False,
        help_text="What skills ask for besides, with spaces between: transcripts:read",
    )

    def clean(self) -> Any:
        said = super().clean() or {}
        further = (said.get("further_scopes") or "").split()
        said["scopes"] = [*said.get("scopes", []), *further]
        return said

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
    list_display = ("hint", "agent", "scopes", "created_at", "expires_at", "revoked_at")
    list_select_related = ("agent",)
    fields = ("agent", "scopes", "further_scopes", "expires_at")
    actions = ("rotate", "revoke")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request)

    def formfield_for_foreignkey(
        self, db_field: models.ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        if db_field.name == "agent":
            kwargs["queryset"] = Agent.objects.filter(tenant__in=tenants_of(request))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: AgentToken, form: Any, change: bool) -> None:
        row, token = AgentToken.issue(obj.agent, scopes=obj.scopes, expires_at=obj.expires_at)
        obj.pk, obj.hint, obj.token_hash = row.pk, row.hint, row.token_hash
        self._show_once(request, row, token)

    @admin.action(description="Rotate: issue a new token, revoke this one", permissions=["change"])
    def rotate(self, request: HttpRequest, rows: QuerySet[AgentToken]) -> None:
        for old in rows.filter(revoked_at=None).select_related("agent"):
            with atomic():
                if not self._revoke(request, old, "Revoked: rotated."):
                    continue  # somebody was faster
                row, token = AgentToken.issue(
                    old.agent, scopes=old.scopes, expires_at=same_lifetime(old)
                )
                self.log_addition(request, row, f"Issued in place of {old}.")
            self._show_once(request, row, token)

    @admin.action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, rows: QuerySet[AgentToken]) -> None:
        number = sum(self._revoke(request, row, "Revoked.") for row in rows)
        self.message_user(request, f"{number} tokens are revoked.", messages.SUCCESS)

    def _revoke(self, request: HttpRequest, row: AgentToken, words: str) -> bool:
        alive = AgentToken.objects.filter(pk=row.pk, revoked_at=None)
        is_revoked = bool(alive.update(revoked_at=Now()))
        if is_revoked:
            self.log_change(request, row, words)
        return is_revoked

    def _show_once(self, request: HttpRequest, row: AgentToken, token: str) -> None:
        words = format_html(
            "The token of {} is <code>{}</code>. It is not shown again.", row.agent.name, token
        )
        self.message_user(request, words, messages.WARNING)


def same_lifetime(old: AgentToken) -> Any:
    """A rotated token lives as long as the one before was meant to."""
    return old.expires_at and timezone.now() + (old.expires_at - old.created_at)
