"""Functions of agents that Assent carries out with a tool; most changes take two operators."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_http_methods

from a2a.doors.humanlayer import calls
from a2a.doors.humanlayer.calls import bindings
from a2a.doors.humanlayer.models import Binding
from approvals.presentation import refusal_in_words
from approvals.web.record.pending import Difference, Pending, asks_to_change, show
from approvals.web.settings.operators import TRIES, choose_tenant, kept_tenants, origin_of
from approvals.web.settings.saving import saves_changes_only
from ledger.errors import LedgerError
from ledger.models import Agent, ChangeRequest, Tenant
from ledger.tools import tools_of
from ledger.tools.permits import PermitTool


class ToolForm(forms.Form):
    """The tool of one function."""

    tool = forms.ChoiceField(
        label=gettext_lazy("Carried out with"),
        required=False,
        help_text=gettext_lazy(
            "The tool that Assent carries out in place of the function, once it is signed off. "
            "The arguments go to it by their names."
        ),
    )

    def __init__(self, *args: Any, tenants: Any, row: Binding | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row = row
        there = tools_of([tenant.pk for tenant in tenants])
        names = {name for name, tool in there.items() if not isinstance(tool, PermitTool)}
        if row is not None and row.tool:
            names.add(row.tool)
        choices = [("", _("nothing here: the agent runs it itself"))]
        self.fields["tool"].choices = [*choices, *((name, name) for name in sorted(names))]  # type: ignore[attr-defined]
        if row is not None:
            saves_changes_only(self)

    def _check_tool(self, tenant: Tenant, tool: str) -> None:
        try:
            bindings.check_tool(tenant, tool)
        except LedgerError as refusal:
            self.add_error("tool", refusal_in_words(refusal))

    def clean(self) -> Any:
        fields = super().clean() or self.cleaned_data
        if self.row is not None and "tool" in fields:
            self._check_tool(self.row.tenant, fields["tool"])
        return fields


class FunctionForm(ToolForm):
    """A function that has no row yet."""

    tenant = forms.ModelChoiceField(Tenant.objects.none(), label=gettext_lazy("Tenant"))
    agent = forms.ModelChoiceField(
        Agent.objects.none(),
        label=gettext_lazy("Function of"),
        required=False,
        empty_label=gettext_lazy("every agent of the tenant"),
    )
    function = forms.CharField(
        label=gettext_lazy("Name of the function"),
        max_length=80,
        help_text=gettext_lazy("As its client sends it: send_money."),
    )
    field_order = ("tenant", "agent", "function", "tool")

    def __init__(self, *args: Any, tenants: Any, **kwargs: Any) -> None:
        super().__init__(*args, tenants=tenants, **kwargs)
        choose_tenant(self, tenants)
        agents = Agent.objects.filter(tenant__in=tenants).exclude(slug__startswith=TRIES)
        self.fields["agent"].queryset = agents.order_by("tenant", "name")  # type: ignore[attr-defined]

    def clean_function(self) -> str:
        function: str = self.cleaned_data["function"]
        try:
            calls.tool_name_of(function)
        except LedgerError as refusal:
            raise ValidationError(refusal_in_words(refusal)) from None
        return function

    def clean(self) -> Any:
        fields = super().clean()
        if self.errors:
            return fields
        tenant, agent, function = fields["tenant"], fields["agent"], fields["function"]
        self._check_tool(tenant, fields["tool"])
        if agent is not None and agent.tenant_id != tenant.pk:
            self.add_error("agent", _("The agent is of another tenant."))
        if Binding.objects.filter(tenant=tenant, agent=agent, function=function).exists():
            self.add_error("function", _("There is such a function already: change it there."))
        return fields


@login_required
@require_http_methods(["GET", "POST"])
def new_function(request: HttpRequest) -> HttpResponse:
    tenants = kept_tenants(request)
    form = FunctionForm(request.POST or None, tenants=tenants, initial=_chosen(request))
    if request.method == "POST" and form.is_valid():
        wanted = form.cleaned_data
        return _bind(request, wanted["tenant"], wanted["agent"], wanted["function"], wanted["tool"])
    return _page(request, form, None)


@login_required
@require_http_methods(["GET", "POST"])
def function(request: HttpRequest, binding_id: int) -> HttpResponse:
    """One function: the tool that carries it out, and what waits for a second operator."""
    row = get_object_or_404(kept_functions(request), pk=binding_id)
    initial = {"tool": row.tool}
    form = ToolForm(request.POST or None, tenants=[row.tenant], row=row, initial=initial)
    if request.method == "POST" and form.is_valid():
        if form.has_changed():
            return _bind(request, row.tenant, row.agent, row.function, form.cleaned_data["tool"])
        return redirect("desk:connection-function", row.pk)
    return _page(request, form, row)


def kept_functions(request: HttpRequest) -> QuerySet[Binding]:
    """Of the tenants that the person keeps."""
    rows = Binding.objects.filter(tenant__in=kept_tenants(request))
    return rows.select_related("tenant", "agent").order_by("tenant", "function", "agent")


def functions_of(agent: Agent) -> QuerySet[Binding]:
    """Those of the agent, and those of every agent of its tenant."""
    rows = Binding.objects.filter(Q(agent=agent) | Q(agent=None), tenant=agent.tenant_id)
    return rows.select_related("tenant", "agent").order_by("function", "agent")


def _chosen(request: HttpRequest) -> dict[str, Any]:
    """The agent from whose page the person came, and its tenant."""
    pk = request.GET.get("agent", "")
    agents = Agent.objects.filter(tenant__in=kept_tenants(request))
    agent = agents.filter(pk=pk).first() if pk.isdecimal() and len(pk) < 10 else None
    return {"agent": agent.pk, "tenant": agent.tenant_id} if agent else {}


def _bind(
    request: HttpRequest, tenant: Tenant, agent: Agent | None, function: str, tool: str
) -> HttpResponse:
    row = bindings.bind(tenant, agent, function, tool, **origin_of(request))
    change = bindings.waiting_for(row)
    if change is not None:
        text = _("{name} changes when another operator has confirmed it.")
        messages.warning(request, text.format(name=row.function))
        return redirect("desk:change", change.pk)
    messages.success(request, _("Saved. It counts for calls that come from now on."))
    return redirect("desk:connection-function", row.pk)


def _page(request: HttpRequest, form: ToolForm, row: Binding | None) -> HttpResponse:
    waiting = bindings.waiting_for(row) if row is not None else None
    context = {"form": form, "row": row, "waiting": waiting}
    status = 422 if form.errors else 200
    return render(request, "settings/function.html", context, status=status)


# --- the page of the second operator --------------------------------------------------------------


def _pending(change: ChangeRequest) -> Pending:
    """A change of a binding, with the terms that its calls fall under before and afterwards."""
    row = Binding.objects.select_related("tenant", "agent").get(pk=change.subject)
    before, after = bindings.compared(row, change.after["tool"])
    itself = _("the agent runs it itself")
    compared = [
        (_("Carried out with"), row.tool or itself, change.after["tool"] or itself),
        (_("Risk"), before.risk_level, after.risk_level),
        (_("Who signs off"), before.required_approver, after.required_approver),
        (_("How many sign off"), before.quorum, after.quorum),
        (_("Undo"), before.consequence_level, after.consequence_level),
        (_("On the desk only"), _yes_or_no(before.web_only), _yes_or_no(after.web_only)),
    ]
    agent = row.agent.slug if row.agent else _("every agent")
    return Pending(
        asks_to_change(change, f"{row.function} · {agent}"),
        [Difference(name, str(old), str(new)) for name, old, new in compared],
        is_overtaken=row.tool != change.in_place_of,
    )


def _yes_or_no(value: bool) -> str:
    return _("yes") if value else _("no")


show(bindings.KIND, _pending)

urlpatterns = [
    path("connections/functions/new/", new_function, name="connection-function-new"),
    path("connections/functions/<int:binding_id>/", function, name="connection-function"),
]
