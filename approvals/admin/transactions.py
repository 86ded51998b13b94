"""Transactions in the admin, with operators' actions through ``approvals.desk.decisions``."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse

from approvals.admin import legal_holds
from approvals.admin.actions import ReasonForm, RowActions
from approvals.desk import decisions, policies
from approvals.http.middleware import roles_of
from approvals.people import principal_of
from ledger.admin.transactions import OPERATE, TransactionAdmin
from ledger.models import Transaction


class ResolveForm(ReasonForm):
    outcome = forms.ChoiceField(choices=list(policies.OUTCOMES.items()))
    receipt = forms.CharField(required=False, max_length=500)
    field_order = ("outcome", "receipt", "reason")


@admin.register(Transaction)
class TransactionWithActionsAdmin(RowActions, TransactionAdmin):
    change_form_template = "admin/ledger/transaction/change_form.html"
    hold_verb = legal_holds.hold_transaction
    release_verb = legal_holds.release_transaction

    def view_on_site(self, row: Transaction) -> str:
        return reverse("desk:transaction", args=[row.pk])

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("<uuid:pk>/resolve/", view(self.resolve), name="ledger_transaction_resolve"),
            path(
                "<uuid:pk>/compensate/", view(self.compensate), name="ledger_transaction_compensate"
            ),
            *super().get_urls(),
        ]

    def offered(self, person: Any, row: Transaction) -> dict[str, bool]:
        may_act = person.has_perm(OPERATE) and bool(
            policies.may_operate(row, str(principal_of(person)), roles_of(person))
        )
        return {
            **super().offered(person, row),
            "may_resolve": may_act and bool(policies.settling(row).outcomes),
            "may_compensate": may_act and policies.can_compensate(row),
        }

    def resolve(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Settle a transaction in doubt, a late receipt, or work that no worker can do."""
        form = ResolveForm(request.POST or None)
        return self.act(request, pk, "Settle by hand", form, decisions.resolve)

    def compensate(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        form = ReasonForm(request.POST or None)
        return self.act(request, pk, "Compensate", form, decisions.compensate)
