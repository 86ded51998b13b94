"""Passkeys of one's own account that sign decisions: let one sign, and end that."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from approvals.people import begin_enrolling, end_keys, enrol, listed, principal_of
from approvals.presentation import refusal_in_words
from approvals.web.sign_in import authentication
from approvals.web.sign_in.authentication import confirmed_person, person_of
from ledger.errors import LedgerError, NotPossible
from ledger.principals import Surface


@login_required
@require_POST
def options(request: HttpRequest, passkey_id: int) -> HttpResponse:
    """Options for the browser that signs, with a key which does already, that this one may."""
    try:
        asked, state = begin_enrolling(person_of(request), passkey_id)
    except LedgerError as refusal:
        return JsonResponse({"problem": refusal_in_words(refusal)}, status=refusal.status)
    return authentication.challenge(request, asked, dict(state))


@login_required
@require_POST
def let_sign(request: HttpRequest, passkey_id: int) -> HttpResponse:
    state, answer = authentication.answer_to_challenge(request)
    try:
        if state.get("passkey") != passkey_id:
            raise NotPossible(_("It was begun too long ago. Try again."))
        enrol(person_of(request), state, answer)
    except LedgerError as refusal:
        return JsonResponse({"problem": refusal_in_words(refusal)}, status=refusal.status)
    messages.success(request, _("Your passkey may sign decisions. The list says from when."))
    return JsonResponse({"location": reverse("desk:account")})


@confirmed_person
@require_POST
def stop(request: HttpRequest, passkey_id: int) -> HttpResponse:
    """Nothing is signed with this passkey any more; it still signs in."""
    person = person_of(request)
    own = [each.key for each in listed(person) if each.passkey and each.passkey.pk == passkey_id]
    if not own:
        raise Http404
    end_keys(person, only=[key.credential for key in own], by=principal_of(person), via=Surface.WEB)
    messages.success(request, _("Your passkey signs no decisions any more."))
    return redirect("desk:account")
