"""One's own password, and the notices of what was changed about oneself."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from approvals.people import accounts, dismiss_one_notice, principal_of
from approvals.people.sign_in import remember_session
from approvals.web.sign_in import authentication
from ledger import limits
from ledger.errors import LimitReached
from ledger.principals import Surface


@sensitive_post_parameters()
@login_required
@require_http_methods(["GET", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    """Change one's own password, given the old one; whoever has none confirms who they are first.

    Every other session of the account ends.
    """
    person = cast(User, request.user)
    has_one = person.has_usable_password()
    if not has_one and not authentication.was_confirmed(request):
        return redirect(f"{reverse('desk:account-confirm')}?next={request.path}")
    form_of: Any = PasswordChangeForm if has_one else SetPasswordForm
    form = form_of(person, request.POST or None)
    try:
        is_valid = request.method == "POST" and _is_valid(request, form)
    except LimitReached as refusal:
        messages.error(request, _("Too many attempts failed. Wait a minute."))
        answer = render(request, "desk/password.html", {"form": form_of(person)}, status=429)
        answer["Retry-After"] = str(refusal.retry_after_s)
        return answer
    if is_valid:
        accounts.set_password(
            person, form.cleaned_data["new_password1"], by=principal_of(person), via=Surface.WEB
        )
        update_session_auth_hash(request, person)
        remember_session(request, person)
        messages.success(request, _("Your password is changed. Every other session was ended."))
        return redirect("desk:password")
    status = 422 if form.errors else 200
    return render(request, "desk/password.html", {"form": form}, status=status)


def _is_valid(request: HttpRequest, form: Any) -> bool:
    """Look at the passwords. An old one that is wrong counts as a wrong code: ``LimitReached``."""
    address, key = authentication.address_of(request), str(request.user.pk)
    limits.attempt_code(address, key)
    is_valid: bool = form.is_valid()
    if "old_password" not in form.errors:
        limits.code_was_right(address, key)
    return is_valid


@login_required
@require_POST
def dismiss_notice(request: HttpRequest, notice_id: int) -> HttpResponse:
    dismiss_one_notice(notice_id, cast(User, request.user))
    there = request.POST.get("next", "")
    is_ours = there.startswith("/") and not there.startswith(("//", "/\\"))
    return redirect(there if is_ours else "desk:inbox")
