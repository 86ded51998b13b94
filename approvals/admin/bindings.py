"""Functions that Assent carries out for agents, in the admin; most take two operators."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _, gettext_lazy

from approvals.admin.tool_pages import VIA
from approvals.admin.tools import operated_by, person_of
from approvals.people import principal_of, require_another_person
from approvals.presentation.sentences import refusal_and_hint, refusal_in_words
from ledger import bindings, handed_over
from ledger.admin.base import TenantAdmin
from ledger.errors import LedgerError
from ledger.models import Agent, Binding, Tenant


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
            handed_over.name_of(function)
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
class BindingAdmin(TenantAdmin):
    form = BindingForm
    list_display = ("function", "agent_", "tenant", "tool_", "waits")
    list_select_related = ("tenant", "agent")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(tenant__in=operated_by(request))

    def choices_of(self, related: Any, request: HttpRequest) -> QuerySet[Any] | None:
        if related is Tenant:
            return Tenant.objects.filter(slug__in=operated_by(request))
        if related is Agent:
            return Agent.objects.filter(tenant__in=operated_by(request))
        return super().choices_of(related, request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and bool(operated_by(request))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("tenant", "agent", "function", "waits") if obj else ()

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """What waits is shown of a row that is there."""
        return ["tenant", "agent", "function", "chosen", *(["waits"] if obj else [])]

    @admin.display(description=gettext_lazy("agent"))
    def agent_(self, row: Binding) -> str:
        return row.agent.slug if row.agent else _("every agent")

    @admin.display(description=gettext_lazy("carried out with"))
    def tool_(self, row: Binding) -> str:
        return row.tool or _("the agent runs it itself")

    @admin.display(description=gettext_lazy("waits for a second operator"))
    def waits(self, row: Binding) -> SafeString | str:
        if not is_waiting(row):
            return ""
        address = reverse("admin:ledger_binding_waiting", args=[row.pk])
        return format_html('<a href="{}">{}</a>', address, row.wanted or _("no tool"))

    def save_model(self, request: HttpRequest, obj: Binding, form: Any, change: bool) -> None:
        tool, by = form.cleaned_data["chosen"].strip(), principal_of(person_of(request))
        row = bindings.bind(obj.tenant, obj.agent, obj.function, tool, by=by, via=VIA)
        obj.pk = row.pk
        if row.wanted is not None:
            text = _("{name} changes when another operator has confirmed it.")
            self.message_user(request, text.format(name=row.function), messages.WARNING)

    # --- what waits -------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        waiting = self.admin_site.admin_view(self.waiting_page)
        name = "ledger_binding_waiting"
        return [path("<int:pk>/waiting/", waiting, name=name), *super().get_urls()]

    def waiting_page(self, request: HttpRequest, pk: int) -> HttpResponse:
        """What one operator asked for: exactly what it changes; confirming or declining it."""
        row = self.get_queryset(request).select_related("tenant", "agent").filter(pk=pk).first()
        if row is None:
            raise Http404
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        if request.method == "POST":
            self._settle(request, row)
            return redirect(request.path)
        before, after = bindings.compared(row, row.wanted or "")
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _("Change of {name}").format(name=row.function),
            "row": row,
            "is_open": is_waiting(row),
            "is_own": row.asked_by == str(principal_of(person_of(request))),
            "before": before,
            "after": after,
        }
        return render(request, "admin/ledger/binding_waiting.html", context)

    def _settle(self, request: HttpRequest, row: Binding) -> None:
        person = person_of(request)
        origin: dict[str, Any] = {"by": principal_of(person), "via": VIA}
        try:
            if "confirm" in request.POST:
                asked = _("{name} has asked for this change.")
                require_another_person(person, [row.asked_by], asked)
                tool, before = request.POST["confirm"], request.POST.get("before", "")
                bindings.confirm(row.pk, tool=tool, in_place_of=before, **origin)
                self.message_user(request, _("It is confirmed."), messages.SUCCESS)
            else:
                bindings.decline(row.pk, **origin)
                self.message_user(request, _("It is declined."), messages.SUCCESS)
        except LedgerError as refusal:
            self.message_user(request, refusal_and_hint(refusal), messages.ERROR)


def is_waiting(row: Binding) -> bool:
    if row.wanted is None or row.expires_at is None:
        return False
    return row.expires_at > timezone.now()
