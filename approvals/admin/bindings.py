"""Functions that Assent carries out for agents, in the admin; most take two operators."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _, gettext_lazy

from a2a.doors.humanlayer import calls
from a2a.doors.humanlayer.calls import bindings
from a2a.doors.humanlayer.models import Binding
from approvals.admin.operator_pages import OperatorPages, operated_by, origin_of
from approvals.presentation import refusal_in_words
from ledger.errors import LedgerError


class BindingForm(forms.ModelForm):
    chosen = forms.CharField(
        label=gettext_lazy("Tool"),
        max_length=100,
        required=False,
        help_text=gettext_lazy(
            "The tool that Assent carries out in place of the function, once it is signed off. "
            "The arguments go to it by their names. Empty: the agent runs the function itself."
        ),
    )

    class Meta:
        model = Binding
        fields = ("tenant", "agent", "function", "chosen")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["chosen"] = self.instance.tool

    def clean(self) -> Any:
        """Check it here, so that the form shows what is wrong with it."""
        fields = super().clean()
        if self.errors or fields is None:
            return fields
        tenant = fields.get("tenant") or self.instance.tenant
        agent, function = fields.get("agent"), fields.get("function") or self.instance.function
        if agent is not None and agent.tenant_id != tenant.pk:
            raise ValidationError(_("The agent is of another tenant."))
        try:
            calls.tool_name_of(function)
            bindings.check_tool(tenant, fields["chosen"].strip())
        except LedgerError as refusal:
            raise ValidationError(refusal_in_words(refusal)) from None
        if not self.instance.pk:
            same = Binding.objects.filter(tenant=tenant, agent=agent, function=function)
            if same.exists():
                raise ValidationError(_("There is such a function already: change it there."))
        return fields

    def validate_unique(self) -> None:
        """Said in ``clean``, in words."""


@admin.register(Binding)
class BindingAdmin(OperatorPages):
    form = BindingForm
    list_display = ("function", "agent_", "tenant", "tool_", "waits")
    list_select_related = ("tenant", "agent")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(tenant__in=operated_by(request))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and bool(operated_by(request))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("tenant", "agent", "function", "waits") if obj else ()

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Only a saved row shows what waits."""
        return ["tenant", "agent", "function", "chosen", *(["waits"] if obj else [])]

    @admin.display(description=gettext_lazy("agent"))
    def agent_(self, row: Binding) -> str:
        return row.agent.slug if row.agent else _("every agent")

    @admin.display(description=gettext_lazy("carried out with"))
    def tool_(self, row: Binding) -> str:
        return row.tool or _("the agent runs it itself")

    @admin.display(description=gettext_lazy("waits for a second operator"))
    def waits(self, row: Binding) -> SafeString | str:
        change = bindings.waiting_for(row)
        if change is None:
            return ""
        address = reverse("admin:humanlayer_binding_waiting", args=[row.pk])
        return format_html('<a href="{}">{}</a>', address, change.after["tool"] or _("no tool"))

    def save_model(self, request: HttpRequest, obj: Binding, form: Any, change: bool) -> None:
        tool = form.cleaned_data["chosen"].strip()
        row = bindings.bind(obj.tenant, obj.agent, obj.function, tool, **origin_of(request))
        obj.pk = row.pk
        if bindings.waiting_for(row):
            self.say_it_waits(request, row.function)

    # --- what waits -------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        waiting = self.admin_site.admin_view(self.waiting_page)
        name = "humanlayer_binding_waiting"
        return [path("<int:pk>/waiting/", waiting, name=name), *super().get_urls()]

    def waiting_page(self, request: HttpRequest, pk: int) -> HttpResponse:
        rows = self.get_queryset(request).select_related("tenant", "agent")
        row = get_object_or_404(rows, pk=pk)
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        change = bindings.waiting_for(row)
        wanted = change.after["tool"] if change else ""
        before, after = bindings.compared(row, wanted)
        return self.waiting(
            request,
            "admin/humanlayer/binding_waiting.html",
            change,
            title=_("Change of {name}").format(name=row.function),
            row=row,
            wanted=wanted,
            before=before,
            after=after,
        )
