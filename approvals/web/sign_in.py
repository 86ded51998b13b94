"""Signing in, for the desk and the admin: who fails too often has to wait."""

from __future__ import annotations

import threading
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from ledger.errors import LimitReached
from ledger.limits import rates

# Checking a password takes half a second of a processor: so many at once in one process.
hashing = threading.BoundedSemaphore(2)
HASHING_WAIT_S = 3.0


class SignInForm(AuthenticationForm):
    """Refuses before the password is looked at; ``retry_after_s`` is set then."""

    retry_after_s = 0

    def clean(self) -> dict[str, Any]:
        address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        account = str(self.cleaned_data.get("username", ""))
        try:
            rates.attempt_sign_in(address, account)
        except LimitReached as refusal:
            self._refuse(refusal.retry_after_s, "Too many attempts failed.")
        if not hashing.acquire(timeout=HASHING_WAIT_S):
            self._refuse(5, "Too many people sign in at this moment.")
        try:
            fields = super().clean()
        finally:
            hashing.release()
        rates.sign_in_succeeded(address, account)
        return fields

    def _refuse(self, retry_after_s: int, reason: str) -> None:
        self.retry_after_s = retry_after_s
        raise forms.ValidationError(
            f"{reason} Wait {retry_after_s} seconds, then try again. Your password was not checked."
        )


class SignIn(LoginView):
    form_class = SignInForm
    template_name = "registration/sign_in.html"
    redirect_authenticated_user = True

    def form_invalid(self, form: Any) -> HttpResponse:
        response = super().form_invalid(form)
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
