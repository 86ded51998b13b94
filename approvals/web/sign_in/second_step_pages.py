"""Passkeys, the authenticator app and recovery codes of one's own account; which passkeys sign."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from approvals.people import begin_enrolling, company_sign_in, end_key, enrol, principal_of
from approvals.people.sign_in import (
    begin_registering_passkey,
    begin_using_passkey,
    delete_passkey,
    has_way_in,
    person_with_passkey,
    register_passkey,
    second_steps,
)
from approvals.presentation import refusal_in_words
from approvals.web.sign_in import authentication, qr_code
from approvals.web.sign_in.authentication import confirmed_person, person_of
from ledger import limits
from ledger.errors import LedgerError, LimitReached, NotFound, NotPossible
from ledger.principals import Surface

SECRET, NEW_CODES = "new_app_secret", "new_codes"  # in the session


@confirmed_person
@require_http_methods(["GET", "POST"])
def app(request: HttpRequest) -> HttpResponse:
    """Add an authenticator app: it counts once it has shown a right code."""
    person = person_of(request)
    if request.method == "POST":
        return _add_app(request)
    secret = second_steps.new_secret()
    authentication.keep_secret(request, SECRET, secret)
    return render(request, "account/app.html", _app_context(person, secret))


def _add_app(request: HttpRequest) -> HttpResponse:
    person, secret = person_of(request), authentication.kept_secret(request, SECRET)
    if not secret:
        return redirect("desk:account-app")
    codes = second_steps.add_app(person, secret, request.POST.get("code", ""))
    if codes is None:
        context = _app_context(person, secret)
        context["problem"] = _("This code is wrong. Look at the app once more.")
        return render(request, "account/app.html", context, status=422)
    del request.session[SECRET]
    return show_new(request, codes, _("Your authenticator app is added."))


def _app_context(person: Any, secret: str) -> dict[str, Any]:
    image = qr_code.data_url(second_steps.setup_address(person, secret))
    return {"image": image, "secret": " ".join(secret[i : i + 4] for i in range(0, len(secret), 4))}


@confirmed_person
@require_POST
def remove_app(request: HttpRequest) -> HttpResponse:
    if not second_steps.remove_app(person_of(request)):
        raise Http404
    messages.success(request, _("The authenticator app is removed."))
    return redirect("desk:account")


def show_new(request: HttpRequest, codes: list[str], message: str) -> HttpResponse:
    """Redirect to the page that shows new recovery codes once, if there are any."""
    messages.success(request, message)
    if not codes:
        return redirect("desk:account")
    authentication.keep_secret(request, NEW_CODES, " ".join(codes))
    return redirect("desk:account-codes")


@login_required
@require_safe
def codes(request: HttpRequest) -> HttpResponse:
    """The new recovery codes, once."""
    new = authentication.kept_secret(request, NEW_CODES).split()
    request.session.pop(NEW_CODES, None)
    return (
        render(request, "account/codes.html", {"codes": new}) if new else redirect("desk:account")
    )


@confirmed_person
@require_POST
def new_codes(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    if not second_steps.are_wanted(person):
        raise Http404
    return show_new(request, second_steps.new_codes(person), _("The old codes ended."))


# --- passkeys -----------------------------------------------------------------------------------


@login_required
@require_POST
def passkey_options(request: HttpRequest) -> HttpResponse:
    """Let the browser make a passkey, or use one to confirm."""
    person = person_of(request)
    if request.POST.get("for") == "confirm":
        return authentication.challenge(request, *begin_using_passkey(person))
    if not authentication.was_confirmed(request):
        return JsonResponse({"location": _to_confirm()}, status=403)
    try:
        return authentication.challenge(request, *begin_registering_passkey(person))
    except NotPossible as refusal:
        return JsonResponse({"problem": refusal_in_words(refusal)}, status=409)


def _to_confirm() -> str:
    return f"{reverse('desk:account-confirm')}?next={reverse('desk:account')}"


@login_required
@require_POST
def add_passkey(request: HttpRequest) -> HttpResponse:
    if not authentication.was_confirmed(request):
        return JsonResponse({"location": _to_confirm()}, status=403)
    answer, name = authentication.answer_to_challenge(request), request.POST.get("name", "")
    try:
        new = register_passkey(person_of(request), *answer, name)
    except NotPossible as refusal:
        return JsonResponse({"problem": refusal_in_words(refusal)}, status=409)
    there = show_new(request, new, _("Your passkey is added."))
    return JsonResponse({"location": there["Location"]})


@confirmed_person
@require_POST
def remove_passkey(request: HttpRequest, passkey_id: int) -> HttpResponse:
    person = person_of(request)
    if not has_way_in(person, without_passkey=passkey_id):
        return _last_way_in(request)
    if not delete_passkey(person, passkey_id):
        raise Http404
    messages.success(request, _("The passkey is removed."))
    return redirect("desk:account")


@login_required
@require_POST
def signing_options(request: HttpRequest, passkey_id: int) -> HttpResponse:
    """Options for the browser that signs, with a key which does already, that this one may."""
    try:
        return authentication.challenge(request, *begin_enrolling(person_of(request), passkey_id))
    except LedgerError as refusal:
        return JsonResponse({"problem": refusal_in_words(refusal)}, status=refusal.status)


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
def end_signing(request: HttpRequest, passkey_id: int) -> HttpResponse:
    """Nothing is signed with this passkey any more; it still signs in."""
    person = person_of(request)
    try:
        end_key(person, passkey_id, by=principal_of(person), via=Surface.WEB)
    except NotFound:
        raise Http404 from None
    messages.success(request, _("Your passkey signs no decisions any more."))
    return redirect("desk:account")


@login_required
@require_POST
def confirm_passkey(request: HttpRequest) -> HttpResponse:
    """Prove again who one is, with a passkey of one's own."""
    address, person = authentication.address_of(request), person_of(request)
    try:
        limits.attempt_code(address, str(person.pk))
    except LimitReached:
        return JsonResponse({"problem": _("Too many attempts failed. Wait a minute.")}, status=429)
    if person_with_passkey(*authentication.answer_to_challenge(request)) != person:
        return JsonResponse({"problem": _("This passkey is not yours.")}, status=422)
    limits.code_was_right(address, str(person.pk))
    authentication.confirmed(request)
    return JsonResponse({"location": authentication.safe(request, request.POST.get("next", ""))})


@confirmed_person
@require_POST
def disconnect_company(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    if not has_way_in(person, without_company=True):
        return _last_way_in(request)
    if not company_sign_in.disconnect(person):
        raise Http404
    messages.success(request, _("Disconnected."))
    return redirect("desk:account")


def _last_way_in(request: HttpRequest) -> HttpResponse:
    messages.error(
        request,
        _("You could not sign in any more without it. Choose a password first, or add a passkey."),
    )
    return redirect("desk:account")
