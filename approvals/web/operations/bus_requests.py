"""One request of a git bus: what became of it, and what an operator may want to be done with it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_http_methods

from a2a.doors.git_bus import origins
from a2a.doors.git_bus.models import BusRequest, Wish
from approvals.models import Role
from approvals.people import principal_of
from approvals.presentation import in_words, refusal_and_hint
from approvals.web.forms import ReasonField
from approvals.web.operations import bus_orders
from approvals.web.requests import roles_of_request
from approvals.web.sign_in.authentication import person_of
from ledger.errors import LedgerError
from ledger.principals import Surface

TITLES = {
    Wish.RELEASE: gettext_lazy("Put it back into the inbox"),
    Wish.REFUSE: gettext_lazy("Answer with an error"),
    Wish.RETRY: gettext_lazy("Look at it again"),
}


class WishForm(forms.Form):
    wish = forms.ChoiceField(
        label=gettext_lazy("What the next pass does"), widget=forms.RadioSelect
    )
    reason = ReasonField(
        label=gettext_lazy("Why"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3}),
        error_messages={"required": gettext_lazy("Say why; it is kept for good.")},
    )

    def __init__(self, *args: Any, possible: list[Wish], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        wish: Any = self.fields["wish"]
        wish.choices = [(each.value, TITLES[each]) for each in possible]


@login_required
@require_http_methods(["GET", "POST"])
def bus_request(request: HttpRequest, request_id: int) -> HttpResponse:
    """Its page; a posted wish is noted, sealed, and carried out by the next pass."""
    row = _kept(request, request_id)
    possible = bus_orders.possible_for(row)
    offered = list(Wish) if request.method == "POST" else possible
    form = WishForm(request.POST or None, possible=offered)
    if request.method == "POST" and form.is_valid():
        wish, reason = Wish(form.cleaned_data["wish"]), form.cleaned_data["reason"]
        try:
            by = principal_of(person_of(request))
            bus_orders.wish_for(row.pk, wish, reason=reason, by=by, via=Surface.WEB)
        except LedgerError as refusal:
            messages.error(request, refusal_and_hint(refusal))
        else:
            messages.success(request, _("Noted. The next pass does it."))
        return redirect("desk:bus-request", row.pk)
    context = {"row": row, "form": form if possible else None, "trust": _trust(row)}
    status = 422 if form.errors else 200
    return render(request, "desk/bus_request.html", context, status=status)


def _kept(request: HttpRequest, request_id: int) -> BusRequest:
    """Of a tenant that the person keeps."""
    kept = [slug for slug, roles in roles_of_request(request).items() if Role.OPERATOR in roles]
    if not kept:
        raise PermissionDenied(_("Requests of git buses are for operators to settle."))
    rows = BusRequest.objects.filter(bus__agent__tenant__in=kept)
    rows = rows.select_related("bus__agent", "task", "admission")
    rows = rows.defer("bus__deploy_key", "bus__signing_key", "bus__password")
    return get_object_or_404(rows, pk=request_id)


def _trust(row: BusRequest) -> str:
    """Its sender, and how far that can be trusted; of one of ours, the sender of the answer."""
    return in_words(origins.trust_in(row)) if row.author or not row.is_ours else ""


urlpatterns = [
    path("ops/requests/<int:request_id>/", bus_request, name="bus-request"),
]
