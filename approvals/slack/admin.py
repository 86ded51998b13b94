"""The messages in Slack, in the admin: to look at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext_lazy

from approvals.models import SlackMessage
from ledger.admin.base import (
    COLUMNS,
    COUNTED,
    BoundedPaginator,
    StrictLookups,
    name_rows,
    tenants_of,
)

name_rows(SlackMessage, gettext_lazy("Slack message"), gettext_lazy("Slack messages"))


@admin.register(SlackMessage)
class MessageAdmin(StrictLookups):
    """The Slack messages of each transaction and question, and their places. Read-only."""

    list_display = ("posted_at", "concerns", "target", "workspace", "channel", "is_gone")
    list_select_related = ("workspace", "transaction", "question")
    ordering = ("-pk",)
    sortable_by = ()
    show_full_result_count = False
    paginator = BoundedPaginator

    @admin.display(description=COLUMNS["at"])
    def posted_at(self, row: SlackMessage) -> str:
        """By the time that Slack gave the message."""
        seconds = row.ts.partition(".")[0]
        if not seconds.isdigit():
            return "-"
        return date_format(localtime(datetime.fromtimestamp(int(seconds), UTC)), "Y-m-d H:i:s")

    @admin.display(description=gettext_lazy("concerns"))
    def concerns(self, row: SlackMessage) -> str:
        subject = row.transaction or row.question
        return subject.headline[:80] if subject else "-"

    def get_queryset(self, request: HttpRequest) -> QuerySet[SlackMessage]:
        rows: QuerySet[SlackMessage] = super().get_queryset(request)
        tenants = tenants_of(request)
        return rows.filter(transaction__tenant__in=tenants) | rows.filter(
            question__tenant__in=tenants
        )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """The newest of either kind; to find them by an OR, PostgreSQL would read all messages."""
        tenants = tenants_of(request)
        keys = SlackMessage.objects.order_by("-pk").values_list("pk", flat=True)
        of_transactions = keys.filter(transaction__tenant__in=tenants)[: COUNTED + 1]
        of_questions = keys.filter(question__isnull=False, question__tenant__in=tenants)
        newest = sorted({*of_transactions, *of_questions[: COUNTED + 1]}, reverse=True)[
            : COUNTED + 1
        ]
        rows = SlackMessage.objects.filter(pk__in=newest).select_related(
            "workspace", "transaction", "question"
        )
        return rows.order_by("-pk"), False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
