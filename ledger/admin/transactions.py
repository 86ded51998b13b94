"""The tables of the ledger for operators, read only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin import TabularInline
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext_lazy as _, ngettext, pgettext_lazy

from ledger.admin.base import (
    MOST_FOUND,
    ReadOnly,
    ReadonlyToolFilter,
    RetentionFilter,
    SearchedByIndex,
    TenantAdmin,
    ToolFilter,
    as_json,
    link_to,
    tenants_of,
)
from ledger.admin.names import COLUMNS, WordedChoices, name_rows, worded
from ledger.admin.stuck import StuckFilter
from ledger.events import outbox
from ledger.models import (
    HOLDS_ITS_KEY,
    Agent,
    Checkpoint,
    Decision,
    Delivery,
    DeliveryState,
    Event,
    IdempotencyKey,
    Reading,
    Transaction,
    TransactionQuerySet,
    id_or_none,
)
from ledger.reporting import search
from ledger.transactions.coordinator import PREPARE_ROUTE

SHORTEST_PREFIX = 3  # characters of an operation key
MOST_ENDED = 100  # transactions of one operation that a search finds
# The permission for actions; the verbs check roles besides.
OPERATE = "ledger.change_transaction"


name_rows(Transaction, _("transaction"), _("transactions"))
name_rows(Event, _("event"), _("events"))
name_rows(Decision, _("decision"), _("decisions"))
name_rows(IdempotencyKey, _("idempotency key"), _("idempotency keys"))
name_rows(Reading, _("call without effect"), _("calls without effect"))
name_rows(Delivery, _("delivery"), _("deliveries"))
name_rows(Checkpoint, _("checkpoint"), _("checkpoints"))


class EventInline(ReadOnly, TabularInline):
    template = "admin/ledger/rows_inline.html"
    model = Event
    fields = ("seq", "at", "kind", "from_state", "to_state", "principal_name", "via", "reason")
    readonly_fields = fields
    ordering = ("seq",)
    extra = 0


class DecisionInline(ReadOnly, TabularInline):
    template = "admin/ledger/rows_inline.html"
    model = Decision
    fields = ("verdict_", "principal", "principal_name", "via", "reason", "at")
    verdict_ = worded("verdict")
    readonly_fields = fields
    extra = 0


class TransactionAdmin(ReadOnly, SearchedByIndex):
    """Read only. Not registered here: the desk does, with the actions that it offers operators."""

    counted_by = ("tenant", "-pk")
    list_display: tuple[str, ...] = (
        "when",
        "summary",
        "state_",
        "money",
        "agent",
        "receipt",
    )
    list_display_links = ("summary",)
    list_filter = (StuckFilter, ("state", WordedChoices), ToolFilter, RetentionFilter)
    search_help_text = _(
        "Id (whole, how it begins, or its last eight digits), operation key (or how it begins), "
        "idempotency key, receipt, trace id or run id."
    )
    inlines = (DecisionInline, EventInline)
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "action_summary",
                    "state_",
                    "money",
                    "warnings_",
                    "error",
                    "error_detail",
                    "tool",
                )
            },
        ),
        (
            _("Outcome"),
            {
                "fields": (
                    "receipt",
                    "receipt_url",
                    "late_receipt",
                    "settlement_",
                    "result_",
                    "ending_",
                    "ending_reason",
                    "compensation_receipt",
                )
            },
        ),
        (
            _("Contract"),
            {
                "fields": (
                    "owner_service",
                    "risk_level",
                    "required_approver",
                    "consequence_level",
                    "quorum",
                )
            },
        ),
        (
            _("Proposal"),
            {
                "fields": (
                    "tenant",
                    "proposed_by",
                    "proposed_by_name",
                    "stated_reason",
                    "payload_",
                    "arguments_",
                    "held_",
                    "run_id",
                    "step_id",
                    "traceparent",
                )
            },
        ),
        (_("Keys"), {"fields": ("id", "operation_key", "input_hash", "intent_digest", "trace_id")}),
        (
            _("Time and work"),
            {
                "fields": (
                    "created_at",
                    "expires_at",
                    "hold_expires_at",
                    "decided_at",
                    "ended_at",
                    "retain_until",
                    "legal_hold_at",
                    "content_erased_at",
                    "attempts",
                    "fencing_token",
                    "lease_expires_at",
                    "next_attempt_at",
                )
            },
        ),
    )
    payload_ = as_json("payload", _("payload, as proposed"))
    arguments_ = as_json("arguments", _("arguments, as validated"))
    held_ = as_json("held", _("held until then"))
    result_ = as_json("result", _("result"))
    settlement_ = as_json("settlement", _("proposed settlement"))
    state_ = worded("state")
    ending_ = worded("ending")

    def rows_of(self, request: HttpRequest, value: str) -> Iterable[QuerySet[Any]]:
        rows = self.get_queryset(request)
        digits = value.replace("-", "").lower()
        if re.fullmatch(r"[0-9a-f]{9,32}", digits):  # an id, or how it begins
            first, last = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
            yield rows.filter(pk__gte=first, pk__lte=last)
        if re.fullmatch(r"[0-9a-f]{8}", digits):
            yield rows.filter(pk__in=list(search.with_short_id(rows, tenants_of(request), digits)))
        yield rows.filter(receipt=value)
        yield rows.filter(run_id=value)
        yield rows.filter(trace_id=digits)
        keys = IdempotencyKey.objects.filter(
            agent__in=agents_of(tenants_of(request)), route=PREPARE_ROUTE, key=value
        )
        yield rows.filter(pk__in=list(keys.values_list("transaction_id", flat=True)[:MOST_FOUND]))
        yield rows.filter(HOLDS_ITS_KEY, operation_key=value)
        if len(value) >= SHORTEST_PREFIX:
            for tenant in sorted(tenants_of(request)):
                begun = with_key_beginning(Transaction.objects.all(), tenant, value, MOST_FOUND)
                yield rows.filter(pk__in=begun)
        if ":" in value:
            yield rows.filter(pk__in=self._with_words_of(request, value))

    def _with_words_of(self, request: HttpRequest, key: str) -> list[UUID]:
        """Transactions with this operation key, also those that gave it up when they ended."""
        page = search.find(search.Wanted(tenants_of(request), key), MOST_ENDED)
        return [row.pk for row in page.rows if row.operation_key == key]

    @admin.display(description=COLUMNS["at"])
    def when(self, row: Transaction) -> str:
        return date_format(localtime(row.created_at), "Y-m-d H:i:s")

    @admin.display(description=pgettext_lazy("column", "what"))
    def summary(self, row: Transaction) -> str:
        return f"{row.headline[:80]} · {row.short_id}"

    @admin.display(description=COLUMNS["agent"])
    def agent(self, row: Transaction) -> SafeString:
        by = row.proposed_by.removeprefix("agent:")
        return format_html('<span title="{}">{}</span>', by, row.proposed_by_name)

    @admin.display(description=_("amount"))
    def money(self, row: Transaction) -> str:
        impact = row.financial_impact
        return f"{impact['amount']} {impact['currency']}" if impact else ""

    @admin.display(description=_("warnings"))
    def warnings_(self, row: Transaction) -> str:
        return " ".join(row.warnings)


def agents_of(tenants: frozenset[str]) -> list[str]:
    """The agents of these tenants, as rows name them."""
    return [str(agent.principal) for agent in Agent.objects.filter(tenant__in=tenants)]


class OfTransaction(ReadOnly, SearchedByIndex):
    """Rows that belong to a transaction, and are found by its id."""

    # By the transaction's own column, which has an index and statistics for rare tenants.
    tenant_path = "transaction__tenant"
    search_help_text = _("Whole id of a transaction.")

    @admin.display(description=COLUMNS["transaction"])
    def linked(self, row: Any) -> SafeString | str:
        return link_to(row.transaction_id)

    def rows_of(self, request: HttpRequest, value: str) -> Iterable[QuerySet[Any]]:
        if transaction_id := id_or_none(value):
            yield self.get_queryset(request).filter(transaction=transaction_id)


@admin.register(Event)
class EventAdmin(OfTransaction):
    tenant_path = "tenant"
    counted_by = ("tenant", "-pk")
    list_display = ("at", "linked", "kind", "principal_name", "via", "reason")
    fields = (
        "linked",
        "seq",
        "at",
        "tenant",
        "kind",
        "from_state",
        "to_state",
        "principal",
        "principal_name",
        "via",
        "reason",
        "details_",
        "previous_hash",
        "hash",
    )
    details_ = as_json("details", _("details"))


@admin.register(Decision)
class DecisionAdmin(OfTransaction):
    list_display = ("at", "linked", "verdict_", "principal_name", "via", "reason")
    verdict_ = worded("verdict")


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(OfTransaction):
    list_display = ("created_at", "key", "status", "agent", "route", "linked")
    list_display_links = ("key",)
    search_help_text = _("Whole key, or whole id of a transaction.")
    fields = (
        "key",
        "agent",
        "route",
        "payload_hash",
        "linked",
        "status",
        "answer_",
        "created_at",
    )
    answer_ = as_json("answer", COLUMNS["answer"])

    def of_tenants(self, rows: QuerySet[Any], tenants: frozenset[str]) -> QuerySet[Any]:
        """By agent: a cancel that came before its prepare has no transaction."""
        return rows.filter(agent__in=agents_of(tenants))

    def rows_of(self, request: HttpRequest, value: str) -> Iterable[QuerySet[Any]]:
        yield self.get_queryset(request).filter(route=PREPARE_ROUTE, key=value)
        yield from super().rows_of(request, value)


@admin.register(Reading)
class ReadingAdmin(ReadOnly, TenantAdmin):
    counted_by = ("tenant", "-pk")
    list_display = ("at", "tool", "error", "agent")
    list_filter = (ReadonlyToolFilter,)
    fields = ("id", "at", "tenant", "agent", "tool", "arguments_", "result_hash", "error")
    arguments_ = as_json("arguments", _("arguments"))


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly, TenantAdmin):
    tenant_path = "event__tenant"
    list_display = (
        "state_",
        "linked",
        "next_attempt_at",
        "channel",
        "recipient",
        "attempts",
        "done_at",
        "error",
    )
    list_filter = (("state", WordedChoices),)
    list_select_related = ("event",)
    actions = ("send_again",)
    state_ = worded("state")

    @admin.display(description=COLUMNS["transaction"])
    def linked(self, row: Delivery) -> SafeString | str:
        return link_to(row.event.transaction_id)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(OPERATE)

    @admin.action(description=_("Send again now"), permissions=["operate"])
    def send_again(self, request: HttpRequest, rows: QuerySet[Delivery]) -> None:
        owed = list(rows.exclude(state=DeliveryState.DONE))
        for delivery in owed:
            outbox.retry(delivery.pk)
            self.log_change(request, delivery, "Sent again.")
        text = ngettext(
            "%(number)d delivery is due now.", "%(number)d deliveries are due now.", len(owed)
        )
        self.message_user(request, text % {"number": len(owed)}, messages.SUCCESS)


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnly, TenantAdmin):
    list_display = ("id", "at", "size", "upto_event", "root")

    def of_tenants(self, rows: QuerySet[Any], tenants: frozenset[str]) -> QuerySet[Any]:
        """Checkpoints span tenants and contain no tenant data."""
        return rows if tenants else rows.none()


def with_key_beginning(rows: TransactionQuerySet, tenant: str, begin: str, most: int) -> list[UUID]:
    """Those that hold an operation key which begins so, among the first ``most`` from there.

    In any collation these come after ``begin`` and close together; nothing is certain to come
    after all of them, not even the last character of Unicode, so that there is no upper bound.
    """
    first = rows.filter(HOLDS_ITS_KEY, tenant=tenant, operation_key__gte=begin)
    keys = first.order_by("operation_key").values_list("pk", "operation_key")[:most]
    return [pk for pk, key in keys if key.startswith(begin)]
