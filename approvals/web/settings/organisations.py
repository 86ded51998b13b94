"""The tenants that an operator keeps: one page each, with the tools, the pace and the limits."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.db.transaction import atomic
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from approvals.http.preferences import zones_to_choose
from approvals.presentation import refusal_in_words
from approvals.web.settings.limit_fields import WithLimits, limit_named
from approvals.web.settings.operators import kept_tenants, names_after, origin_of
from approvals.web.settings.saving import saves_changes_only
from ledger import contracts
from ledger.agents import enrolment
from ledger.errors import NotPossible
from ledger.events import edits_between
from ledger.limits import Of
from ledger.models import PolicyDocument, Tenant
from ledger.models.agents import ALL_TOOLS
from ledger.tools import is_handed_over, readonly_tools_of, registered_names, tools_of

TOOLS = {"tools", "further_tools"}


class TenantForm(WithLimits):
    limits_of = Of.TENANT
    name = forms.CharField(label=gettext_lazy("Name"), max_length=200)
    tools = forms.MultipleChoiceField(
        label=gettext_lazy("Its agents may ask for"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    further_tools = forms.CharField(
        label=gettext_lazy("And for these"),
        max_length=4000,
        required=False,
        help_text=gettext_lazy(
            "Names with spaces between, of tools that another tenant has registered, or of calls "
            "that agents carry out themselves."
        ),
    )
    own_agent_tools = forms.MultipleChoiceField(
        label=gettext_lazy(
            "People may connect a program as a new agent of theirs, which may ask for"
        ),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy(
            "Of what is allowed above. None: an operator prepares each agent, kept by its person."
        ),
    )
    time_zone = forms.ChoiceField(
        label=gettext_lazy("Time zone of days and months"),
        help_text=gettext_lazy("Budgets for each day and month begin anew at midnight there."),
    )
    demands_sender = forms.BooleanField(
        label=gettext_lazy("Requests of agents to its skills name their sender and their time"),
        required=False,
    )
    demands_scopes = forms.BooleanField(
        label=gettext_lazy("A request lends its skills only the scopes that it names"),
        required=False,
    )
    fast_approvals = forms.IntegerField(
        label=gettext_lazy("After so many approvals in a row, each within two seconds"),
        min_value=0,
        max_value=1_000,
        help_text=gettext_lazy("a person types the amount of the next one. 0: never."),
    )
    undo_seconds = forms.IntegerField(
        label=gettext_lazy("For so many seconds an approval can be undone at the desk"),
        min_value=0,
        max_value=60,
        help_text=gettext_lazy(
            "Not of what is irreversible. No worker begins before. 0: workers begin at once."
        ),
    )

    signing_key_hours = forms.IntegerField(
        label=gettext_lazy("For so many hours a passkey waits before it signs decisions"),
        min_value=0,
        max_value=720,
        help_text=gettext_lazy(
            "Its person is told at once, and can stop it meanwhile. 0: it signs at once. A shorter "
            "time counts once the longer one is over."
        ),
    )

    class Meta:
        model = Tenant
        fields = (
            "name",
            "time_zone",
            "tools",
            "own_agent_tools",
            "demands_sender",
            "demands_scopes",
            "fast_approvals",
            "undo_seconds",
            "signing_key_hours",
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = {self.instance.pk}
        offered = sorted({*tools_of(own), *readonly_tools_of(own)})
        fields: Any = self.fields
        fields["tools"].choices = [
            (ALL_TOOLS, _("every tool, also later ones")),
            *((name, name) for name in offered),
        ]
        known = dict(fields["tools"].choices)
        kept = {name: name for name in self.instance.own_agent_tools if name not in known}
        fields["own_agent_tools"].choices = list((known | kept).items())
        if not settings.AUTHORIZATION_SERVER:
            del fields["own_agent_tools"]
        fields["time_zone"].choices = zones_to_choose()
        has = self.instance.tools
        self.initial["tools"] = [name for name in has if name in {ALL_TOOLS, *offered}]
        self.initial["further_tools"] = " ".join(sorted({*has} - {*self.initial["tools"]}))
        saves_changes_only(self)

    def clean_time_zone(self) -> str:
        """Refuse a second change within a month: each one begins a day or a month of budgets."""
        zone: str = self.cleaned_data["time_zone"]
        try:
            enrolment.check_time_zone(self.instance.pk, zone)
        except NotPossible as refusal:
            raise ValidationError(refusal_in_words(refusal)) from None
        return zone

    def clean_further_tools(self) -> list[str]:
        """Refuse misspelled names, which would allow nothing."""
        names: list[str] = self.cleaned_data["further_tools"].replace(",", " ").split()
        known = {*contracts.tools, *contracts.readonly_tools, *registered_names()}
        known |= {ALL_TOOLS, *self.instance.tools}
        if unknown := [name for name in names if name not in known and not is_handed_over(name)]:
            text = _("There is no tool named {names}.")
            raise ValidationError(text.format(names=", ".join(unknown)))
        return names

    def wanted(self) -> dict[str, Any]:
        """Columns but for tools, and limits by their fields' names, that this person changed."""
        changed = [name for name in self.changed_data if name not in TOOLS]
        return {name: self.cleaned_data[name] for name in changed}

    def tools_after(self, present: list[str]) -> dict[str, list[str]]:
        """The column of tools as this person changed it; empty if they did not."""
        for field in sorted(TOOLS & set(self.changed_data)):
            present = names_after(self, field, present)
        return {"tools": present} if TOOLS & set(self.changed_data) else {}


@login_required
@require_safe
def organisations(request: HttpRequest) -> HttpResponse:
    """The page of the only tenant, or a list of several."""
    tenants = kept_tenants(request)
    if len(tenants) == 1:
        return organisation(request, tenants[0].pk)
    return render(request, "settings/organisations.html", {"tenants": tenants})


@login_required
@require_http_methods(["GET", "POST"])
def organisation(request: HttpRequest, slug: str) -> HttpResponse:
    """One tenant; what is posted is saved."""
    tenants = kept_tenants(request)
    row = get_object_or_404(tenants, pk=slug)
    form = TenantForm(request.POST or None, instance=row)
    if request.method == "POST" and form.is_valid():
        _save(request, row.pk, form)
        messages.success(request, _("Saved."))
        return redirect("desk:organisation", row.pk)
    kept = tenants.get(pk=slug)  # as it is: a form in error has changed its own
    policy = PolicyDocument.objects.filter(tenant=slug, sha256=kept.required_policy).first()
    context = {"tenant": kept, "form": form, "policy": policy, "is_only": len(tenants) == 1}
    status = 422 if form.errors else 200
    return render(request, "settings/organisation.html", context, status=status)


def _save(request: HttpRequest, slug: str, form: TenantForm) -> None:
    """Save and seal what this person changed, and nothing that somebody else did meanwhile."""
    with atomic():
        row = Tenant.objects.select_for_update().get(pk=slug)
        wanted = form.wanted() | form.tools_after(row.tools)
        before: dict[str, Any] = {name: _present(row, name) for name in wanted}
        if edits := edits_between(before, wanted):
            Tenant.objects.filter(pk=slug).update(**_columns(row, wanted))
            enrolment.tenant_was_changed(Tenant.objects.get(pk=slug), edits, **origin_of(request))


def _present(row: Tenant, name: str) -> Any:
    limit = limit_named(name)
    return row.limits.get(limit) if limit else getattr(row, name)


def _columns(row: Tenant, wanted: dict[str, Any]) -> dict[str, Any]:
    columns = {name: value for name, value in wanted.items() if not limit_named(name)}
    changed = {limit: wanted[name] for name in wanted if (limit := limit_named(name))}
    numbers = {**row.limits, **changed}
    limits = {limit: number for limit, number in numbers.items() if number is not None}
    return {**columns, "limits": limits}
