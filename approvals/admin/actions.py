"""Actions of operators on one row in the admin: a page with a form that calls one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path
from django.utils.translation import gettext as _, gettext_lazy

from approvals.presentation import refusal_and_hint
from approvals.web.forms import ReasonField
from ledger.admin.transactions import OPERATE
from ledger.errors import LedgerError, NotFound
from ledger.principals import Surface


class ReasonForm(forms.Form):
    reason = ReasonField(
        label=gettext_lazy("Reason"), widget=forms.Textarea(attrs={"rows": 3}), max_length=2000
    )


class RowActions(ModelAdmin):
    """An admin whose rows have action pages. Legal holds are there for every such row."""

    hold_verb: ClassVar[Callable[..., Any]]
    release_verb: ClassVar[Callable[..., Any]]

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("<uuid:pk>/hold/", view(self.hold), name=self._name("hold")),
            path("<uuid:pk>/release/", view(self.release), name=self._name("release")),
            *super().get_urls(),
        ]

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        offered = self.offered(request.user, obj) if obj else {}
        return super().render_change_form(request, context | offered, add, change, form_url, obj)

    def offered(self, person: Any, row: Any) -> dict[str, Any]:
        """The buttons that the page shows. The functions behind them check the right again."""
        may_act = person.has_perm(OPERATE)
        is_held = row.legal_hold_at is not None
        return {
            "may_hold": may_act and not is_held and row.content_erased_at is None,
            "may_release": may_act and is_held,
        }

    def hold(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Keep the content past its retention."""
        form = ReasonForm(request.POST or None)
        return self.act(request, pk, _("Place a legal hold"), form, type(self).hold_verb)

    def release(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Let retention erase the content again."""
        form = ReasonForm(request.POST or None)
        return self.act(request, pk, _("Release the legal hold"), form, type(self).release_verb)

    def act(
        self, request: HttpRequest, pk: Any, title: Any, form: forms.Form, verb: Callable[..., Any]
    ) -> HttpResponse:
        """Show the form; when it is sent, call ``verb`` and go back to the row."""
        if not request.user.has_perm(OPERATE):
            raise PermissionDenied
        row = get_object_or_404(self.get_queryset(request), pk=pk)
        back = f"admin:{self._name('change')}"
        if request.method == "POST" and form.is_valid():
            try:
                verb(request.user, pk, via=Surface.ADMIN, **form.cleaned_data)
            except NotFound:
                raise Http404 from None
            except LedgerError as refusal:
                self.message_user(request, refusal_and_hint(refusal), messages.ERROR)
            else:
                text = _("{what}: recorded.").format(what=title)
                self.message_user(request, text, messages.SUCCESS)
            return redirect(back, pk)
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "form": form,
            "row": row,
            "back": back,
        }
        return render(request, "admin/ledger/act.html", context)

    def _name(self, page: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{page}"
