"""Other ways in: the company's sign-in, one-time links, and a forgotten password."""

from __future__ import annotations

import logging
import time
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.db.transaction import atomic
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from approvals import metrics
from approvals.models import LinkPurpose, SignInLink
from approvals.people import (
    accounts,
    ask_for_letter,
    company_sign_in,
    dismiss_all_notices,
    letters_are_possible,
    principal_of,
)
from approvals.people.company_sign_in import CompanyRefused
from approvals.people.sign_in import (
    begin_registering_passkey,
    find_link,
    register_passkey,
    second_steps,
    use_link,
)
from approvals.presentation import refusal_in_words
from approvals.web.sign_in import authentication
from approvals.web.sign_in.sign_in import TooBusy, hashing_turn
from ledger import limits
from ledger.errors import LimitReached, NotPossible
from ledger.principals import Surface

logger = logging.getLogger(__name__)
STARTED, JOINS = "company_sign_in", "company_join"  # in the session
ANSWERED_AFTER_S = 0.25  # whoever asks for a letter
BY_LINK = (LinkPurpose.INVITE, LinkPurpose.RECOVER, LinkPurpose.RESET)


# --- sign-in with the company -------------------------------------------------------------------


@require_safe
def company_start(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider: to sign in, to connect an account, to confirm, to join."""
    purpose = request.GET.get("for", "sign-in")
    if not company_sign_in.is_configured() or not _may_start(request, purpose):
        raise Http404
    try:
        kind, _colon, token = purpose.partition(":")
        begun = company_sign_in.start(
            kind, request.GET.get("next", ""), confirms=purpose == "confirm"
        )
        if token:
            authentication.keep_secret(request, JOINS, token)
    except CompanyRefused as refusal:
        return _company_refused(request, refusal)
    request.session[STARTED] = begun.kept
    authentication.begun(request)
    return redirect(begun.address)


def _may_start(request: HttpRequest, purpose: str) -> bool:
    if purpose == "connect":
        # Else another site could connect its own identity with the account of who visits it.
        is_own = request.headers.get("Sec-Fetch-Site", "none") in {"same-origin", "none"}
        return request.user.is_authenticated and authentication.was_confirmed(request) and is_own
    if purpose == "confirm":
        is_known = request.user.is_authenticated
        return is_known and not second_steps.are_wanted(authentication.person_of(request))
    return purpose == "sign-in" or purpose.startswith("join:")


@require_safe
def company_callback(request: HttpRequest) -> HttpResponse:
    """Finish the sign-in for which the provider sent the browser back."""
    address = authentication.address_of(request)
    try:
        limits.attempt_sign_in(address, "")
        kept = request.session.pop(STARTED, {})
        claims = company_sign_in.finish(kept, request.GET.dict())
        answer = _did(request, kept, claims)
    except LimitReached as refusal:
        return _company_refused(request, CompanyRefused(str(refusal)))
    except CompanyRefused as refusal:
        return _company_refused(request, refusal)
    except NotPossible as refusal:
        messages.error(request, refusal_in_words(refusal))
        return redirect("desk:account" if request.user.is_authenticated else "desk:sign-in")
    limits.sign_in_succeeded(address, "")
    return answer


def _did(
    request: HttpRequest, kept: dict[str, Any], claims: company_sign_in.Claims
) -> HttpResponse:
    purpose = kept["purpose"]
    if purpose == "connect":
        return _connected(request, claims)
    if purpose == "confirm":
        return _confirmed(request, kept, claims)
    if purpose == "join":
        return _joined(request, authentication.kept_secret(request, JOINS), claims)
    person = company_sign_in.person_of(claims)
    if person is None:
        raise CompanyRefused("nobody connected this identity with an account")
    company_sign_in.apply_claims(person, claims)
    return authentication.after_first_step(request, person, kept["next"])


def _connected(request: HttpRequest, claims: company_sign_in.Claims) -> HttpResponse:
    if not (request.user.is_authenticated and authentication.was_confirmed(request)):
        raise CompanyRefused("who wanted to connect an account is not signed in any more")
    company_sign_in.connect(authentication.person_of(request), claims)
    messages.success(request, _("Connected: from now on this identity signs in as you."))
    return redirect("desk:account")


def _confirmed(
    request: HttpRequest, kept: dict[str, Any], claims: company_sign_in.Claims
) -> HttpResponse:
    person = company_sign_in.person_of(claims)
    if person is None or person != request.user:
        raise CompanyRefused("another person confirmed")
    authentication.confirmed(request)
    return redirect(authentication.safe(request, kept["next"]))


def _joined(request: HttpRequest, token: str, claims: company_sign_in.Claims) -> HttpResponse:
    link = find_link(token, LinkPurpose.INVITE, LinkPurpose.RECOVER)
    person = _of(link)
    with atomic():
        use_link(link)
        company_sign_in.connect(person, claims)
        _welcome(link)
    company_sign_in.apply_claims(person, claims)
    return authentication.enter(request, person)


def _company_refused(request: HttpRequest, refusal: CompanyRefused) -> HttpResponse:
    """The log says why; the person reads what to do."""
    logger.warning("Sign-in with the company refused: %s", refusal)
    metrics.count_sign_in("refused")
    text = _(
        "The sign-in with %(company)s did not work. Sign in with your password or a passkey and "
        "connect it in your account, or ask an operator."
    )
    notice = text % {"company": settings.OIDC_NAME}
    if request.user.is_authenticated:
        messages.error(request, notice)
        return redirect("desk:account")
    request.session["sign_in_notice"] = notice
    authentication.begun(request)
    return redirect("desk:sign-in")


# --- one-time links -----------------------------------------------------------------------------


@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def join(request: HttpRequest, token: str) -> HttpResponse:
    """Choose a password; the page also offers a passkey. Opening the link uses up nothing."""
    try:
        limits.attempt_sign_in(authentication.address_of(request), "")
        link = find_link(token, *BY_LINK)
    except (NotPossible, LimitReached) as refusal:
        status = 429 if isinstance(refusal, LimitReached) else 410
        return render(
            request, "registration/join.html", {"problem": refusal_in_words(refusal)}, status=status
        )
    limits.sign_in_succeeded(authentication.address_of(request), "")
    person = _of(link)
    form = SetPasswordForm(person, request.POST or None)
    if request.method == "POST" and form.is_valid():
        return _password_chosen(request, link, form.cleaned_data["new_password1"])
    context = {
        "form": form,
        "person": person,
        "token": token,
        "is_reset": link.purpose == LinkPurpose.RESET,
        "company": settings.OIDC_NAME if company_sign_in.is_configured() else "",
    }
    return render(request, "registration/join.html", context, status=422 if form.errors else 200)


def _password_chosen(request: HttpRequest, link: SignInLink, password: str) -> HttpResponse:
    person = _of(link)
    try:
        with hashing_turn(), atomic():
            use_link(link)
            accounts.set_password(person, password, by=principal_of(person), via=Surface.WEB)
            _welcome(link)
    except (NotPossible, TooBusy) as refusal:
        problem = str(refusal) or _("Too many people sign in at this moment. Try again.")
        return render(request, "registration/join.html", {"problem": problem}, status=409)
    if link.purpose == LinkPurpose.RESET:
        # A letter alone is not a second step: who has one needs it to come in.
        return authentication.after_first_step(request, person)
    return authentication.enter(request, person)


@require_POST
def join_passkey_options(request: HttpRequest, token: str) -> HttpResponse:
    try:
        person = _of(find_link(token, LinkPurpose.INVITE, LinkPurpose.RECOVER))
        return authentication.challenge(request, *begin_registering_passkey(person))
    except NotPossible as refusal:
        return JsonResponse({"problem": refusal_in_words(refusal)}, status=410)


@require_POST
def join_passkey(request: HttpRequest, token: str) -> HttpResponse:
    """Come in with a passkey in the place of a password."""
    answer, name = authentication.answer_to_challenge(request), request.POST.get("name", "")
    try:
        link = find_link(token, LinkPurpose.INVITE, LinkPurpose.RECOVER)
        with atomic():
            use_link(link)
            codes = register_passkey(_of(link), *answer, name)
            _welcome(link)
    except NotPossible as refusal:
        return JsonResponse({"problem": refusal_in_words(refusal)}, status=409)
    authentication.enter(request, _of(link))
    authentication.keep_secret(request, "new_codes", " ".join(codes))
    return JsonResponse({"location": reverse("desk:account-codes")})


def _welcome(link: SignInLink) -> None:
    """Dismiss the notices of the invitation itself: they are not news to its person."""
    if link.purpose == LinkPurpose.INVITE:
        dismiss_all_notices(_of(link))


def _of(link: SignInLink) -> User:
    assert link.user is not None
    return link.user


# --- a forgotten password -----------------------------------------------------------------------


@require_http_methods(["GET", "POST"])
def forgotten(request: HttpRequest) -> HttpResponse:
    """Send a link to the account's address. The answer is the same whether there is an account."""
    context: dict[str, Any] = {"has_mail": letters_are_possible()}
    if request.method == "GET" or not context["has_mail"]:
        return render(request, "registration/forgotten.html", context)
    username = request.POST.get("username", "").strip()[:150]
    try:
        # Never taken back: a letter costs its reader something, too.
        limits.attempt_sign_in(authentication.address_of(request), f"letter {username}")
    except LimitReached as refusal:
        context["problem"] = _("Too many letters were asked for. Wait a minute.")
        answer = render(request, "registration/forgotten.html", context, status=429)
        answer["Retry-After"] = str(refusal.retry_after_s)
        return answer
    begun = time.monotonic()
    ask_for_letter(username)
    # What is written for an account takes time, which would tell that there is one.
    time.sleep(max(0.0, begun + ANSWERED_AFTER_S - time.monotonic()))
    return render(request, "registration/forgotten.html", {**context, "is_sent": True})
