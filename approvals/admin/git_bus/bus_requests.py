"""Requests of git buses in the admin: read only, with what an operator may want to be done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.db.models.functions import Lower
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from a2a.doors.git_bus import origins
from a2a.doors.git_bus.models import BusRequest, Wish
from approvals.admin.actions import ReasonForm, RowActions
from approvals.admin.git_bus import bus_orders
from approvals.desk.policies import who_can
from approvals.http.middleware import roles_of
from approvals.models import Role
from approvals.people import principal_of
from approvals.presentation import in_words
from ledger.admin.base import ReadOnly, SearchedByIndex
from ledger.admin.transactions import OPERATE
from ledger.errors import NotAllowed, NotFound
from ledger.models import id_or_none
from ledger.principals import Surface

TITLES = {
    Wish.RELEASE: "Put it back into the inbox",
    Wish.REFUSE: "Answer with an error",
    Wish.RETRY: "Look at it again",
}


@admin.register(BusRequest)
class BusRequestAdmin(RowActions, ReadOnly, SearchedByIndex):
    tenant_path = "bus__agent__tenant"
    change_form_template = "admin/git_bus/busrequest/change_form.html"
    list_display = ("request_id", "bus_", "progress", "method", "sender_id", "trust", "task_", "at")
    list_filter = ("progress", "is_ours")
    search_help_text = "Whole id of a request, or of its task."
    fields = (
        "request_id",
        "bus_",
        "sent_by_us",
        "progress",
        "problem",
        "wish",
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

    @admin.display(description="bus")
    def bus_(self, row: BusRequest) -> str:
        return row.bus.agent.name

    @admin.display(description="who sent it")
    def trust(self, row: BusRequest) -> str:
        if not row.is_ours:
            return in_words(origins.trust_in(row))
        return f"We did. The answer: {in_words(origins.trust_in(row))}" if row.author else "We did."

    @admin.display(description="sent by us", boolean=True)
    def sent_by_us(self, row: BusRequest) -> bool:
        return row.is_ours

    @admin.display(description="task")
    def task_(self, row: BusRequest) -> SafeString | str:
        return _link(row.task)

    @admin.display(description="question whether to take it")
    def admission_(self, row: BusRequest) -> SafeString | str:
        return _link(row.admission)

    # --- what operators want ----------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        pages = [
            path(
                f"<int:pk>/{wish.value}/",
                view(self._page_of(wish)),
                name=self._name(wish.value),
            )
            for wish in Wish
        ]
        return [*pages, *admin.ModelAdmin.get_urls(self)]

    def _page_of(self, wish: Wish) -> Any:
        def page(request: HttpRequest, pk: int) -> HttpResponse:
            def verb(person: User, key: int, *, via: Surface, reason: str) -> BusRequest:
                return wish_for(person, key, wish, via=via, reason=reason)

            form = ReasonForm(request.POST or None)
            return self.act(request, pk, TITLES[wish], form, verb)

        return page

    def offered(self, person: Any, row: BusRequest) -> dict[str, Any]:
        possible = bus_orders.possible_for(row) if person.has_perm(OPERATE) else []
        names = {wish: self._name(wish.value) for wish in possible}
        return {
            "wishes": [
                {"title": TITLES[wish], "address": reverse(f"admin:{name}", args=[row.pk])}
                for wish, name in names.items()
            ]
        }


def wish_for(user: User, pk: int, wish: Wish, *, via: Surface, reason: str) -> BusRequest:
    """As an operator of its tenant. Raises ``NotFound, NotAllowed, WishImpossible``."""
    rows = BusRequest.objects.filter(pk=pk, bus__agent__tenant__in=roles_of(user))
    tenant = rows.values_list("bus__agent__tenant", flat=True).first()
    if tenant is None:
        raise NotFound()
    if Role.OPERATOR not in roles_of(user)[tenant]:
        raise NotAllowed(f"You are not an operator of {tenant}. {who_can(tenant, Role.OPERATOR)}")
    return bus_orders.wish_for(pk, wish, by=principal_of(user), via=via, reason=reason)


def _link(task: Any) -> SafeString | str:
    if task is None:
        return ""
    address = reverse("desk:task", args=[task.pk])
    return format_html('<a href="{}">{}</a>', address, task.short_id)
