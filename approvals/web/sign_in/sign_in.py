"""Signing in, for the desk and the admin: who fails too often has to wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from approvals import metrics
from approvals.people import company_sign_in
from approvals.people.sign_in import (
    begin_using_passkey,
    passkeys_of,
    person_with_passkey,
    second_steps,
)
from approvals.web.sign_in import authentication
from ledger import limits
from ledger.errors import LimitReached

# Checking a password takes half a second of a processor: so many at once in one process.
hashing = threading.BoundedSemaphore(2)
HASHING_WAIT_S = 3.0
# Who may be tried in the demo; `make demo` makes them with the passwords demo-<username>.
DEMO = (
    ("alice", "Alice Moreau", gettext_lazy("a manager")),
    ("bob", "Bob Tanaka", gettext_lazy("a second manager")),
    ("olga", "Olga Novak", gettext_lazy("an operator")),
    ("omar", "Omar Haddad", gettext_lazy("a second operator")),
)


class TooBusy(Exception):
    """Every thread that may hash a password does."""


@contextmanager
def hashing_turn() -> Iterator[None]:
    """Wait for one's turn to have a password hashed. Raises ``TooBusy``."""
    if not hashing.acquire(timeout=HASHING_WAIT_S):
        raise TooBusy
    try:
        yield
    finally:
        hashing.release()


class SignInForm(AuthenticationForm):
    """Refuses before the password is looked at; ``retry_after_s`` is set then."""

    retry_after_s = 0

    def clean(self) -> dict[str, Any]:
        address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        account = str(self.cleaned_data.get("username", ""))
        try:
            limits.attempt_sign_in(address, account or "nobody")
        except LimitReached as refusal:
            authentication.tell_if_blocked(address, account)
            self._refuse(refusal.retry_after_s, _("Too many attempts failed."))
        try:
            with hashing_turn():
                fields = super().clean()
        except TooBusy:
            self._refuse(5, _("Too many people sign in at this moment."))
        limits.sign_in_succeeded(address, account or "nobody")
        return fields

    def _refuse(self, retry_after_s: int, reason: str) -> None:
        self.retry_after_s = retry_after_s
        raise forms.ValidationError(
            _("%(reason)s Wait %(seconds)s seconds, then try again. Your password was not checked.")
            % {"reason": reason, "seconds": retry_after_s}
        )


class SignIn(LoginView):
    form_class = SignInForm
    template_name = "registration/sign_in.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        more: dict[str, Any] = {
            "company": settings.OIDC_NAME if company_sign_in.is_configured() else "",
            "demo": DEMO if settings.IS_DEMO else (),
            "is_empty": not User.objects.exists(),
            "notice": self.request.session.pop("sign_in_notice", ""),
        }
        return super().get_context_data(**kwargs) | more

    def form_valid(self, form: Any) -> HttpResponse:
        return authentication.after_first_step(
            self.request, form.get_user(), self.get_redirect_url()
        )

    def form_invalid(self, form: Any) -> HttpResponse:
        response = super().form_invalid(form)
        metrics.count_sign_in("blocked" if form.retry_after_s else "refused")
        if form.retry_after_s:
            response.status_code = 429
            response["Retry-After"] = str(form.retry_after_s)
        return response


def admin_sign_in(request: HttpRequest, **_: object) -> HttpResponse:
    """The admin has no sign-in of its own. Who is signed in already may not use it."""
    if request.user.is_authenticated:
        raise PermissionDenied
    there = request.GET.get("next", reverse("admin:index"))
    return redirect(f"{reverse('desk:sign-in')}?{urlencode({'next': there})}")


# --- the second step ----------------------------------------------------------------------------


@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def code(request: HttpRequest) -> HttpResponse:
    """A code of the authenticator app, or a recovery code, after the password."""
    person = authentication.pending_person(request)
    if person is None:
        return redirect("desk:sign-in")
    context: dict[str, Any] = {
        "has_app": second_steps.has_app(person),
        "has_passkey": passkeys_of(person).exists(),
        "has_codes": second_steps.has_codes(person),
    }
    if request.method == "GET":
        return render(request, "registration/code.html", context)
    next_page = request.session[authentication.PENDING]["next"]
    try:
        if authentication.check_code(request, person, request.POST.get("code", "")):
            return authentication.enter(request, person, next_page)
    except LimitReached as refusal:
        metrics.count_sign_in("blocked")
        context["problem"] = _("Too many codes were wrong. Wait %(seconds)s seconds.") % {
            "seconds": refusal.retry_after_s
        }
        answer = render(request, "registration/code.html", context, status=429)
        answer["Retry-After"] = str(refusal.retry_after_s)
        return answer
    metrics.count_sign_in("refused")
    context["problem"] = _("This code is wrong, or was used already.")
    return render(request, "registration/code.html", context)


# --- passkeys -----------------------------------------------------------------------------------


@require_POST
def passkey_options(request: HttpRequest) -> HttpResponse:
    """Ask the browser for a passkey: after a password for one of its person, else for any."""
    return authentication.challenge(
        request, *begin_using_passkey(authentication.pending_person(request))
    )


@require_POST
def passkey(request: HttpRequest) -> HttpResponse:
    """Sign in with a passkey, alone or as the second step."""
    address = authentication.address_of(request)
    try:
        limits.attempt_sign_in(address, "")
    except LimitReached as refusal:
        return _refused(_("Too many attempts failed. Wait a minute."), 429, refusal.retry_after_s)
    person = person_with_passkey(*authentication.answer_to_challenge(request))
    expected = authentication.pending_person(request)
    if person is None or (expected is not None and expected.pk != person.pk):
        return _refused(_("This passkey does not open an account here."), 422)
    limits.sign_in_succeeded(address, "")
    pending = request.session.get(authentication.PENDING) or {}
    next_page = pending.get("next") or request.POST.get("next", "")
    answer = authentication.enter(request, person, next_page)
    return JsonResponse({"location": answer["Location"]})


def _refused(problem: str, status: int, retry_after_s: int = 0) -> HttpResponse:
    metrics.count_sign_in("blocked" if retry_after_s else "refused")
    answer = JsonResponse({"problem": problem}, status=status)
    if retry_after_s:
        answer["Retry-After"] = str(retry_after_s)
    return answer
