"""Tasks and their questions in the ledger admin: read only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from a2a import validation
from a2a.models import Question, Task
from ledger.admin.base import (
    COLUMNS,
    ReadOnly,
    RetentionFilter,
    SearchedByIndex,
    TenantAdmin,
    WordedChoices,
    as_json,
    name_rows,
    to_the_desk,
    worded,
)
from ledger.models import id_or_none

name_rows(Task, gettext_lazy("task"), gettext_lazy("tasks"))
name_rows(Question, gettext_lazy("question"), gettext_lazy("questions"))


class TaskAdmin(ReadOnly, SearchedByIndex):
    """Read only. Not registered here: the desk does, with the actions that it offers operators."""

    counted_by = ("tenant", "-pk")
    list_display = (
        "created_at",
        "summary",
        "state_",
        "reason_code",
        "submitted_by",
        "owner",
        "on_the_desk",
    )
    list_display_links = ("summary",)
    list_filter = (("state", WordedChoices), RetentionFilter)
    search_help_text = gettext_lazy("Whole id, or whole trace id.")
    fields = (
        "tenant",
        "state_",
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
    input_ = as_json("input", gettext_lazy("input"))
    result_ = as_json("result", gettext_lazy("result"))
    errors_ = as_json("errors", gettext_lazy("what did not fit"))
    state_ = worded("state")

    @admin.display(description=COLUMNS["task"])
    def summary(self, row: Task) -> str:
        return f"{row.skill_slug} · {row.short_id}"

    @admin.display(description=gettext_lazy("desk"))
    def on_the_desk(self, row: Task) -> SafeString:
        return to_the_desk(reverse("desk:task", args=[row.pk]))

    def rows_of(self, request: HttpRequest, value: str) -> Iterable[QuerySet[Any]]:
        rows = self.get_queryset(request)
        if task_id := id_or_none(value):
            yield rows.filter(pk=task_id)
        yield rows.filter(trace_id=validation.w3c_trace_id(value.strip())[:128])


@admin.register(Question)
class QuestionAdmin(ReadOnly, TenantAdmin):
    counted_by = ("tenant", "-pk")
    list_display = (
        "expires_at",
        "text_",
        "state_",
        "asked_by_name",
        "answered_by_name",
        "on_the_desk",
    )
    list_display_links = ("text_",)
    list_filter = (("state", WordedChoices),)
    fields = (
        "text",
        "state_",
        "tenant",
        "task",
        "asked_by_name",
        "asked_by",
        "may_answer",
        "form_",
        "evidence_",
        "answer_",
        "answered_by_name",
        "answered_by",
        "answered_via",
        "created_at",
        "expires_at",
        "ended_at",
    )
    form_ = as_json("form", COLUMNS["form"])
    evidence_ = as_json("evidence", COLUMNS["evidence"])
    answer_ = as_json("answer", COLUMNS["answer"])
    state_ = worded("state")

    @admin.display(description=COLUMNS["question"])
    def text_(self, row: Question) -> str:
        return row.headline[:90]

    @admin.display(description=gettext_lazy("desk"))
    def on_the_desk(self, row: Question) -> SafeString:
        return to_the_desk(self.view_on_site(row))

    def view_on_site(self, row: Question) -> str:
        return reverse("desk:task", args=[row.task_id])
