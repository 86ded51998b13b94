"""People and roles; and what operators may do to a transaction, through the one choke point."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse

from approvals.desk import decisions, policies
from approvals.http.middleware import roles_of
from approvals.people.principals import principal_of
from approvals.web.forms import ReasonField
from ledger.admin.transactions import OPERATE, TransactionAdmin
from ledger.errors import LedgerError, NotFound
from ledger.models import Transaction

admin.site.unregister(Transaction)


class ReasonForm(forms.Form):
    reason = ReasonField(widget=forms.Textarea(attrs={"rows": 3}), max_length=2000)


class ResolveForm(ReasonForm):
    outcome = forms.ChoiceField(choices=list(policies.OUTCOMES.items()))
    receipt = forms.CharField(required=False, max_length=500)
    field_order = ("outcome", "receipt", "reason")


@admin.register(Transaction)
class TransactionWithActionsAdmin(TransactionAdmin):
    change_form_template = "admin/ledger/transaction/change_form.html"

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

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        offered = self._offered(request.user, row) if row else {}
        return super().change_view(
            request, object_id, form_url, {**(extra_context or {}), **offered}
        )

    def _offered(self, person: Any, row: Transaction) -> dict[str, bool]:
        """Which buttons there are; the verbs decide for themselves who may press them."""
        may_act = person.has_perm(OPERATE) and bool(
            policies.may_operate(row, str(principal_of(person)), roles_of(person))
        )
        return {
            "may_resolve": may_act and bool(policies.settling(row).outcomes),
            "may_compensate": may_act and policies.can_compensate(row),
        }

    def resolve(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Settle what is in doubt, came late, or nobody can do."""
        form = ResolveForm(request.POST or None)
        return self._act(request, pk, "Settle by hand", form, decisions.resolve)

    def compensate(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        form = ReasonForm(request.POST or None)
        return self._act(request, pk, "Compensate", form, decisions.compensate)

    def _act(
        self, request: HttpRequest, pk: UUID, title: str, form: forms.Form, verb: Any
    ) -> HttpResponse:
        if not request.user.has_perm(OPERATE):
            raise PermissionDenied
        row = self.get_queryset(request).filter(pk=pk).first()
        if row is None:
            raise Http404
        if request.method == "POST" and form.is_valid():
            try:
                verb(request.user, pk, via="admin", **form.cleaned_data)
            except NotFound:
                raise Http404 from None
            except LedgerError as refusal:
                words = f"{refusal.detail} {refusal.hint}"
                self.message_user(request, words, messages.ERROR)
            else:
                self.message_user(request, f"{title}: recorded.", messages.SUCCESS)
            return redirect("admin:ledger_transaction_change", pk)
        context = {**self.admin_site.each_context(request), "title": title, "form": form, "tx": row}
        return render(request, "admin/ledger/transaction/act.html", context)
