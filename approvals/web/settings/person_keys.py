"""Passkeys of a person that sign decisions, for the operators of their tenants."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from approvals.people import accounts, end_keys, enrolled
from approvals.presentation import refusal_in_words
from approvals.web.settings.operators import kept_people, kept_tenants, origin_of
from approvals.web.settings.people import home_of
from ledger.errors import LedgerError


@login_required
@require_POST
def let_sign(request: HttpRequest, person_id: int) -> HttpResponse:
    """Ask that a passkey of the person signs decisions; a second operator confirms it."""
    person = _kept(request, person_id)
    number = request.POST.get("passkey", "")
    if not number.isdecimal() or len(number) > 18:
        raise Http404
    try:
        accounts.let_sign(person, int(number), home_of(request, person_id), **origin_of(request))
    except LedgerError as refusal:
        messages.error(request, refusal_in_words(refusal))
    else:
        text = _("A second operator has to confirm it. It waits in their inbox.")
        messages.warning(request, text)
    return redirect("desk:person", person_id)


@login_required
@require_POST
def end(request: HttpRequest, person_id: int) -> HttpResponse:
    """Nothing is signed any more with this key of the person. One operator is enough."""
    person, credential = _kept(request, person_id), request.POST.get("key", "")
    if credential not in enrolled(person):
        raise Http404
    end_keys(person, only=[credential], **origin_of(request))
    messages.success(request, _("The key has ended."))
    return redirect("desk:person", person_id)


def _kept(request: HttpRequest, person_id: int) -> User:
    """A person whose account these operators keep."""
    return get_object_or_404(kept_people(kept_tenants(request)), pk=person_id)
