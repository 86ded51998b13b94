"""Breaking the glass: an operator asks for it, and a second one reads what it does and confirms."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_http_methods

from approvals.models import Role
from approvals.people import principal_of
from approvals.presentation import grant_in_words, in_words, refusal_in_words
from approvals.presentation.labels import title_of
from approvals.web.forms import ReasonField, amount_field
from approvals.web.record.pending import Pending, show, strong
from approvals.web.record.standing import tenants_with
from approvals.web.sign_in.authentication import person_of
from ledger.contracts import CURRENCIES
from ledger.errors import LedgerError
from ledger.models import Agent, ChangeRequest, Grant
from ledger.principals import Principal, Surface
from ledger.sign_off import grants
from ledger.sign_off.grants import Wanted
from ledger.sign_off.rules import sentences
from ledger.tools import tools_of

HOURS = (1, 2, 4, 8)
WHAT_IT_DOES = gettext_lazy(
    "Two operators sign in place of every group, for what this agent proposes. Never what is "
    "denied or stopped, critical or irreversible. Everybody who decides or operates is told when "
    "it begins and, when it ends, what it let through."
)


class BreakGlassForm(forms.Form):
    agent = forms.ChoiceField(label=gettext_lazy("Agent"))
    tool = forms.ChoiceField(label=gettext_lazy("Tool"), required=False)
    lasts = forms.TypedChoiceField(
        label=gettext_lazy("For how long, once it is confirmed"), coerce=int, initial=1
    )
    times = forms.IntegerField(
        label=gettext_lazy("How many times at most"), min_value=1, max_value=10_000, initial=10
    )
    each = amount_field(gettext_lazy("At most each time"))
    in_all = amount_field(gettext_lazy("At most in all"))
    currency = forms.CharField(
        label=gettext_lazy("Currency"),
        required=False,
        max_length=3,
        initial="EUR",
        help_text=gettext_lazy("Of both amounts; without them any amount is let through."),
    )
    why = ReasonField(
        label=gettext_lazy("Why"),
        max_length=grants.WHY_MAX,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy("Everybody who decides or operates reads it."),
        error_messages={"required": gettext_lazy("Say why: everybody who decides reads it.")},
    )

    def __init__(self, *args: Any, tenants: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        fields: Any = self.fields
        several = len(tenants) > 1
        agents = Agent.objects.filter(tenant__in=tenants, is_active=True).order_by("name", "pk")
        fields["agent"].choices = [("", _("Choose an agent"))] + [
            (str(agent.principal), f"{agent.name} · {agent.tenant_id}" if several else agent.name)
            for agent in agents.select_related("tenant")
        ]
        fields["tool"].choices = [
            ("", _("any tool")),
            *((name, title_of(name)) for name in sorted(tools_of(tenants))),
        ]
        fields["lasts"].choices = [(n, in_words(sentences.length(n * 3600))) for n in HOURS]

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        given["currency"] = str(given.get("currency", "")).upper()
        has_amount = given.get("each") is not None or given.get("in_all") is not None
        if has_amount and given["currency"] not in CURRENCIES:
            self.add_error("currency", _("Give the currency as three letters, like EUR."))
        return given

    def wanted(self) -> Wanted:
        given = self.cleaned_data
        budgets = [{"most": str(given["times"]), "per": "total"}]
        if given["in_all"] is not None:
            budgets.insert(0, {"most": self._money("in_all"), "per": "total"})
        return Wanted(
            tenant=Principal.parse(given["agent"]).tenant,
            agent=given["agent"],
            tool=given["tool"],
            when={"amount": {"at_most": self._money("each")}} if given["each"] is not None else {},
            budgets=budgets,
            lasts=timedelta(hours=given["lasts"]),
            why=given["why"],
        )

    def _money(self, name: str) -> str:
        return f"{self.cleaned_data[name]:f} {self.cleaned_data['currency']}"


@login_required
@require_http_methods(["GET", "POST"])
def break_glass(request: HttpRequest) -> HttpResponse:
    """The page on which an operator asks for it; it counts once another has confirmed it."""
    form = BreakGlassForm(request.POST or None, tenants=tenants_with(request, Role.OPERATOR))
    if request.method == "POST" and form.is_valid():
        by = principal_of(person_of(request))
        try:
            grants.ask_break_glass(form.wanted(), by=by, via=Surface.WEB)
        except LedgerError as refusal:
            form.add_error(None, refusal_in_words(refusal))
        else:
            messages.success(request, _("Asked. It counts once a second operator confirms it."))
            return redirect("desk:standing")
    context = {"form": form, "what_it_does": WHAT_IT_DOES}
    status = 422 if form.errors else 200
    return render(request, "desk/break_glass.html", context, status=status)


# --- what waits for a second operator -------------------------------------------------------------


def waiting_glass(request: ChangeRequest) -> Pending:
    columns = {name: value for name, value in request.after.items() if name != "seconds"}
    grant = Grant(**columns)
    says = _("{asker} says why: {why}").format(asker=request.asked_by_name, why=grant.why)
    return Pending(_sentence(request, grant), notes=[str(WHAT_IT_DOES), says])


def _sentence(request: ChangeRequest, grant: Grant) -> SafeString:
    return format_html(
        _("{asker} asks to break the glass for {time}: {what}."),
        asker=strong(request.asked_by_name),
        time=in_words(sentences.length(int(request.after["seconds"]))),
        what=grant_in_words(grant),
    )


show(grants.KIND, waiting_glass)
