"""Slack in the admin: workspaces, routes and who is who, each within the operator's tenants."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Field, ManyToManyField, Model, QuerySet
from django.http import HttpRequest
from django.shortcuts import redirect

from approvals.models import Membership, SlackIdentity, SlackMessage, SlackRoute, SlackWorkspace
from approvals.people import name_of
from approvals.slack.identities import propose_link, unlink_account
from ledger.admin.base import (
    COUNTED,
    BoundedPaginator,
    OwnChoices,
    StrictLookups,
    TenantFilter,
    tenants_of,
)
from ledger.admin.sealed_changes import VIA, SealedEdits, principal_of
from ledger.models import Tenant


class WithinTenants(OwnChoices, StrictLookups):
    """Workspaces and people, too, are offered from the reader's own tenants."""

    def choices_of(self, related: type[Model], request: HttpRequest) -> QuerySet[Any] | None:
        if related is SlackWorkspace:
            return _within(SlackWorkspace.objects.all(), request)
        if related is get_user_model():
            people = Membership.objects.filter(tenant__in=tenants_of(request)).values("user")
            return related._default_manager.filter(pk__in=people)
        return super().choices_of(related, request)


def _within(rows: QuerySet[SlackWorkspace], request: HttpRequest) -> QuerySet[SlackWorkspace]:
    """The workspaces whose tenants all belong to the reader; all of them for a superuser."""
    if request.user.is_superuser:
        return rows
    tenants = tenants_of(request)
    others = rows.filter(tenants__in=Tenant.objects.exclude(slug__in=tenants)).values("pk")
    return rows.filter(tenants__in=tenants).exclude(pk__in=others).distinct()


@admin.register(SlackWorkspace)
class WorkspaceAdmin(WithinTenants, SealedEdits):
    sealed_as = "slack_workspace"
    list_display = ("name", "team_id", "bot_user_id", "language")
    readonly_fields = ("team_id", "name", "bot_user_id", "app")
    filter_horizontal = ("tenants",)

    def tenant_slug_of(self, row: SlackWorkspace) -> str:
        """Empty for a workspace of several tenants: only superusers see its changes."""
        slugs = list(row.tenants.values_list("slug", flat=True)[:2])
        return slugs[0] if len(slugs) == 1 else ""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: ``manage.py slack_connect`` adds workspaces, because it asks Slack for them."""
        return False

    def formfield_for_dbfield(
        self, db_field: Field[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        if db_field.name != "language":
            return super().formfield_for_dbfield(db_field, request, **kwargs)
        of_installation = ("", "As the installation: English")
        return forms.ChoiceField(
            choices=[of_installation, *settings.LANGUAGES],
            required=False,
            help_text=db_field.help_text,
        )

    def get_queryset(self, request: HttpRequest) -> QuerySet[SlackWorkspace]:
        return _within(super().get_queryset(request), request)

    def formfield_for_manytomany(
        self, db_field: ManyToManyField[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        kwargs["queryset"] = Tenant.objects.filter(slug__in=tenants_of(request))
        return super().formfield_for_manytomany(db_field, request, **kwargs)


@admin.register(SlackRoute)
class RouteAdmin(WithinTenants, SealedEdits):
    sealed_as = "slack_route"
    list_display = (
        "tenant",
        "concerns",
        "tool",
        "owner",
        "min_risk",
        "channel",
        "approver",
        "escalate_to",
        "escalate_after",
    )
    list_filter = (("tenant", TenantFilter), "concerns")
    list_select_related = ("tenant", "approver")

    def get_queryset(self, request: HttpRequest) -> QuerySet[SlackRoute]:
        rows: QuerySet[SlackRoute] = super().get_queryset(request)
        return rows.filter(tenant__in=tenants_of(request))


@admin.register(SlackIdentity)
class IdentityAdmin(WithinTenants):
    list_display = ("slack_user_id", "user", "workspace", "linked_by", "linked_at")
    search_fields = ("slack_user_id", "user__username")
    exclude = ("linked_by",)
    readonly_fields = ("linked_at",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[SlackIdentity]:
        """Only of people without other tenants: a link gives access to all tenants of a person."""
        rows: QuerySet[SlackIdentity] = super().get_queryset(request)
        if request.user.is_superuser:
            return rows
        return rows.filter(user__in=_own_people(request))

    def choices_of(self, related: type[Model], request: HttpRequest) -> QuerySet[Any] | None:
        rows = super().choices_of(related, request)
        if related is get_user_model() and rows is not None and not request.user.is_superuser:
            return rows.filter(pk__in=_own_people(request))
        return rows

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Request a link, which counts when the person confirms it on the desk."""
        link = (obj.user, obj.workspace, obj.slack_user_id, obj.home_team_id)
        obj.pk = propose_link(*link, by=principal_of(request)).pk

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Nothing to log: there is no row yet, and the sealed event has who requested it."""

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> Any:
        text = f"{obj.slack_user_id} gets a link that {name_of(obj.user)} has to confirm."
        self.message_user(request, text)
        return redirect("admin:approvals_slackidentity_changelist")

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        unlink_account(obj.user, obj.workspace, by=principal_of(request), via=VIA)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for identity in queryset:
            self.delete_model(request, identity)


def _own_people(request: HttpRequest) -> Any:
    tenants = tenants_of(request)
    own = Membership.objects.filter(tenant__in=tenants).values_list("user", flat=True)
    others = Membership.objects.exclude(tenant__in=tenants).values_list("user", flat=True)
    return own.exclude(user__in=others).exclude(user__is_superuser=True)


@admin.register(SlackMessage)
class MessageAdmin(StrictLookups):
    """The Slack messages of each transaction and question, and their places. Read-only."""

    list_display = ("pk", "workspace", "target", "channel", "ts", "is_gone")
    list_select_related = ("workspace",)
    ordering = ("-pk",)
    sortable_by = ()
    show_full_result_count = False
    paginator = BoundedPaginator

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
        rows = SlackMessage.objects.filter(pk__in=newest).select_related("workspace", "transaction")
        return rows.order_by("-pk"), False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
