"""Transactions in the admin. Operators settle and undo them on the desk; legal holds are here."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from approvals.admin import legal_holds
from approvals.admin.actions import RowActions
from approvals.desk import policies
from approvals.http.middleware import roles_of
from approvals.people import principal_of
from ledger.admin.base import to_the_desk
from ledger.admin.transactions import OPERATE, TransactionAdmin
from ledger.models import Transaction


@admin.register(Transaction)
class TransactionWithActionsAdmin(RowActions, TransactionAdmin):
    change_form_template = "admin/ledger/transaction/change_form.html"
    list_display = (*TransactionAdmin.list_display, "on_the_desk")
    hold_verb = legal_holds.hold_transaction
    release_verb = legal_holds.release_transaction

    def view_on_site(self, row: Transaction) -> str:
        return reverse("desk:transaction", args=[row.pk])

    @admin.display(description=gettext_lazy("desk"))
    def on_the_desk(self, row: Transaction) -> SafeString:
        return to_the_desk(self.view_on_site(row))

    def offered(self, person: Any, row: Transaction) -> dict[str, bool]:
        may_act = person.has_perm(OPERATE) and bool(
            policies.may_operate(row, str(principal_of(person)), roles_of(person))
        )
        return {
            **super().offered(person, row),
            "may_resolve": may_act and bool(policies.settling(row).outcomes),
            "may_compensate": may_act and policies.can_compensate(row),
        }
