"""People stop an agent, a tool, their organisation or everything, and let it go on."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from approvals.desk import SPANS, may_lift, put_in_words, scope_in_words, scopes_within, span_of
from approvals.people import principal_of
from approvals.presentation import refusal_in_words
from approvals.web.forms import ReasonField
from approvals.web.requests import roles_of_request, tenants_of_request
from approvals.web.sign_in.authentication import person_of
from ledger.errors import LedgerError
from ledger.events import brakes
from ledger.events.brakes import Scope
from ledger.models import Agent, Brake, Transaction
from ledger.principals import Principal, Surface
from ledger.tools import last_named


class StopForm(forms.Form):
    """``scopes`` are those that the person may stop, the narrowest first."""

    scope = forms.ChoiceField(label=gettext_lazy("What to stop"), widget=forms.RadioSelect)
    lasts = forms.ChoiceField(
        label=gettext_lazy("For how long"),
        choices=list(SPANS.items()),
        widget=forms.RadioSelect,
        initial="900",
        required=False,
    )
    keeps = forms.BooleanField(
        label=gettext_lazy("Keep what agents propose meanwhile; it waits here"),
        required=False,
        help_text=gettext_lazy(
            "Otherwise they are told to ask again later, as with tools that reserve something."
        ),
    )
    why = ReasonField(
        label=gettext_lazy("Why"),
        max_length=brakes.WHY_MAX,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy("Everybody in the organisation reads it, and so do the agents."),
        error_messages={"required": gettext_lazy("Say why: everybody who is stopped reads it.")},
    )

    def __init__(self, *args: Any, scopes: list[Scope], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.scopes = scopes
        field: Any = self.fields["scope"]
        field.choices = [(str(n), scope_in_words(scope)) for n, scope in enumerate(scopes)]
        field.initial = "0"

    def wanted(self) -> dict[str, Any]:
        """The brake that the person asks for."""
        data = self.cleaned_data
        return {
            "scope": self.scopes[int(data["scope"])],
            "why": data["why"],
            "lasts": span_of(data["lasts"]),
            "keeps": data["keeps"],
        }


@login_required
@require_http_methods(["GET", "POST"])
def stop(request: HttpRequest) -> HttpResponse:
    """The page on which a person stops what its address names, or more of the same."""
    form = StopForm(request.POST or None, scopes=_scopes(request))
    if request.method == "POST" and form.is_valid():
        by = principal_of(person_of(request))
        try:
            done = brakes.put(**form.wanted(), by=by, via=Surface.WEB)
        except LedgerError as refusal:
            form.add_error("why", refusal_in_words(refusal))
        else:
            say = messages.success if done.is_waited_for else messages.warning
            say(request, put_in_words(done))
            return redirect("desk:inbox")
    status = 422 if form.errors else 200
    return render(request, "desk/stop.html", {"form": form}, status=status)


def _scopes(request: HttpRequest) -> list[Scope]:
    """The scopes that the address names and this person may stop; refuses who may stop none."""
    asked = {name: request.GET.get(name, "") for name in ("tenant", "agent", "tool")}
    seen = Scope(**asked)
    if seen.tenant:
        _check_is_there(request, **asked)
    roles, is_superuser = roles_of_request(request), person_of(request).is_superuser
    tenants = tenants_of_request(request)
    scopes = scopes_within(seen, tenants, roles, is_superuser=is_superuser)
    if not scopes:
        raise PermissionDenied(_("Managers stop agents and tools, operators also the rest."))
    return scopes


def _check_is_there(request: HttpRequest, tenant: str, agent: str, tool: str) -> None:
    """Raises ``Http404`` for what is not of a tenant of this person."""
    slug = Principal.parse(agent)
    is_agent = not agent or (
        slug.is_agent
        and slug.tenant == tenant
        and Agent.objects.filter(tenant=tenant, slug=slug.slug).exists()
    )
    proposed = Transaction.objects.filter(tenant=tenant, tool=tool)
    is_tool = not tool or last_named(tenant, tool) is not None or proposed.exists()
    if tenant not in tenants_of_request(request) or not (is_agent and is_tool):
        raise Http404


@login_required
@require_POST
def lift(request: HttpRequest, brake_id: int) -> HttpResponse:
    """Let it go on; back to the page that showed it."""
    tenants = ["", *tenants_of_request(request)]
    brake = get_object_or_404(Brake, pk=brake_id, tenant__in=tenants)
    person = person_of(request)
    by, roles = principal_of(person), roles_of_request(request)
    if not may_lift(brake, str(by), roles, is_superuser=person.is_superuser):
        raise PermissionDenied(_("Who stopped it lets it go on, or an operator."))
    try:
        brakes.lift(brake.pk, by=by, via=Surface.WEB)
        messages.success(request, _("It goes on."))
    except LedgerError as refusal:
        messages.error(request, refusal_in_words(refusal))
    there = request.POST.get("next", "")
    is_ours = there.startswith("/") and not there.startswith(("//", "/\\"))
    return redirect(there if is_ours else "desk:inbox")
