"""Tasks in the admin, with operators' actions."""

from __future__ import annotations

from django.contrib import admin
from django.urls import reverse

from a2a.admin import TaskAdmin
from a2a.models import Task
from approvals.admin import legal_holds
from approvals.admin.actions import RowActions


@admin.register(Task)
class TaskWithActionsAdmin(RowActions, TaskAdmin):
    change_form_template = "admin/a2a/task/change_form.html"
    hold_verb = legal_holds.hold_task
    release_verb = legal_holds.release_task

    def view_on_site(self, row: Task) -> str:
        return reverse("desk:task", args=[row.pk])
