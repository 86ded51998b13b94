"""Passkeys of a person that sign decisions, for the operators of their tenants."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from approvals.models import Passkey
from approvals.people import accounts, end_keys, listed
from approvals.presentation import refusal_in_words
from approvals.web.settings.operators import kept_people, kept_tenants, origin_of
from approvals.web.settings.people import home_of
from ledger.errors import LedgerError
from ledger.sign_off.passkeys import SigningKey


@login_required
@require_POST
def let_sign(request: HttpRequest, person_id: int) -> HttpResponse:
    """Ask that a passkey of the person signs decisions; a second operator confirms it."""
    person = _kept(request, person_id)
    passkey, _key = _chosen(request, person)
    tenant = home_of(request, person_id)
    try:
        accounts.let_sign(person, passkey.pk, tenant, **origin_of(request))
    except LedgerError as refusal:
        messages.error(request, refusal_in_words(refusal))
    else:
        text = _("A second operator has to confirm it. It waits in their inbox.")
        messages.warning(request, text)
    return redirect("desk:person", person_id)


@login_required
@require_POST
def end(request: HttpRequest, person_id: int) -> HttpResponse:
    """Nothing is signed any more with this passkey of the person. One operator is enough."""
    person = _kept(request, person_id)
    _passkey, key = _chosen(request, person)
    end_keys(person, only=[key.credential], **origin_of(request))
    messages.success(request, _("The key has ended."))
    return redirect("desk:person", person_id)


def _chosen(request: HttpRequest, person: User) -> tuple[Passkey, SigningKey]:
    number = request.POST.get("passkey", "")
    for each in listed(person):
        if each.passkey is not None and str(each.passkey.pk) == number:
            return each.passkey, each.key
    raise Http404


def _kept(request: HttpRequest, person_id: int) -> User:
    """A person whose account these operators keep."""
    return get_object_or_404(kept_people(kept_tenants(request)), pk=person_id)
