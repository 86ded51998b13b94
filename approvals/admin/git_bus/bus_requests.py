"""Requests of git buses in the admin: read only; the desk has what may be done with each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Lower
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _, gettext_lazy

from a2a.doors.git_bus import origins
from a2a.doors.git_bus.models import BusRequest
from approvals.presentation import in_words
from ledger.admin.base import (
    ReadOnly,
    SearchedByIndex,
    WordedChoices,
    name_rows,
    to_the_desk,
    worded,
)
from ledger.models import id_or_none

name_rows(
    BusRequest,
    gettext_lazy("request through a git repository"),
    gettext_lazy("requests through git repositories"),
)


@admin.register(BusRequest)
class BusRequestAdmin(ReadOnly, SearchedByIndex):
    tenant_path = "bus__agent__tenant"
    list_display = (
        "at",
        "request_id",
        "progress_",
        "bus_",
        "method",
        "sender_id",
        "trust",
        "task_",
        "on_the_desk",
    )
    list_display_links = ("request_id",)
    list_filter = (("progress", WordedChoices), "is_ours")
    search_help_text = gettext_lazy("Whole id of a request, or of its task.")
    progress_ = worded("progress")
    wish_ = worded("wish")
    fields = (
        "on_the_desk",
        "request_id",
        "bus_",
        "sent_by_us",
        "progress_",
        "problem",
        "wish_",
        "wished_by",
        "task_",
        "admission_",
        "method",
        "parent_id",
        "sender_id",
        "trust",
        "commit",
        "claim_commit",
        "answer_commit",
        "processed_by",
        "claimed_at",
        "at",
        "ended_at",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request).select_related("bus__agent", "task", "admission")
        return rows.defer("bus__deploy_key", "bus__signing_key", "bus__password")

    def rows_of(self, request: HttpRequest, value: str) -> Iterable[QuerySet[Any]]:
        rows = self.get_queryset(request)
        yield rows.alias(folded=Lower("request_id")).filter(folded=value.lower())
        if task_id := id_or_none(value):
            yield rows.filter(task=task_id)
            yield rows.filter(admission=task_id)

    @admin.display(description=gettext_lazy("desk"))
    def on_the_desk(self, row: BusRequest) -> SafeString:
        return to_the_desk(reverse("desk:bus-request", args=[row.pk]))

    @admin.display(description=gettext_lazy("agent"))
    def bus_(self, row: BusRequest) -> str:
        return row.bus.agent.name

    @admin.display(description=gettext_lazy("who sent it"))
    def trust(self, row: BusRequest) -> str:
        if not row.is_ours:
            return in_words(origins.trust_in(row))
        if not row.author:
            return _("We did.")
        return _("We did. The answer: {trust}").format(trust=in_words(origins.trust_in(row)))

    @admin.display(description=gettext_lazy("sent by us"), boolean=True)
    def sent_by_us(self, row: BusRequest) -> bool:
        return row.is_ours

    @admin.display(description=gettext_lazy("task"))
    def task_(self, row: BusRequest) -> SafeString | str:
        return _link(row.task)

    @admin.display(description=gettext_lazy("question whether to take it"))
    def admission_(self, row: BusRequest) -> SafeString | str:
        return _link(row.admission)


def _link(task: Any) -> SafeString | str:
    if task is None:
        return ""
    address = reverse("desk:task", args=[task.pk])
    return format_html('<a href="{}">{}</a>', address, task.short_id)
