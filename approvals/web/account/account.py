"""A person's own account: name, language, appearance, ways of signing in, sessions."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.transaction import atomic
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from approvals.http.preferences import formats_of, zones_to_choose
from approvals.models import CompanyIdentity, Preferences, Theme
from approvals.notifications import notification_settings_of, plan_summary
from approvals.people import (
    accounts,
    address_asked_with,
    ask_for_address,
    company_sign_in,
    confirm_address,
    letters_are_possible,
    listed,
    principal_of,
    record_own,
    that_sign,
)
from approvals.people.sign_in import (
    end_sessions,
    passkeys_of,
    second_steps,
    sessions_of,
)
from approvals.presentation import amount_written, refusal_in_words
from approvals.web import ringing
from approvals.web.account import notifications
from approvals.web.forms import ProfileForm
from approvals.web.requests import roles_of_request
from approvals.web.sign_in import authentication
from approvals.web.sign_in.authentication import confirmed_person, person_of
from approvals.web.sign_in.sign_in import TooBusy, hashing_turn
from ledger import limits
from ledger.errors import LimitReached, NotPossible
from ledger.events import ChangeKind
from ledger.principals import Surface

FORMATS = ("en-GB", "en-US", "de-DE", "de-CH", "de-AT", "fr-FR", "es-ES", "it-IT", "sv-SE", "ja-JP")


# What each of the formats looks like, beside its name.
SAMPLE, SAMPLE_CURRENCY = Decimal("1234.50"), "CHF"


def _in_short(name: str) -> tuple[str, str]:
    with formats_of(name):
        return name, f"{name} · {amount_written(SAMPLE, SAMPLE_CURRENCY)}"


class EmailForm(forms.ModelForm):
    class Meta:
        model = User
        fields = ("email",)
        labels = {"email": gettext_lazy("E-mail address")}


class PreferencesForm(forms.ModelForm):
    """Preferences of one person. An empty choice leaves it to the browser."""

    language = forms.ChoiceField(label=gettext_lazy("Language"), required=False)
    time_zone = forms.ChoiceField(label=gettext_lazy("Time zone"), required=False)
    formats = forms.ChoiceField(label=gettext_lazy("Dates and numbers"), required=False)
    theme = forms.ChoiceField(label=gettext_lazy("Theme"), required=False)

    class Meta:
        model = Preferences
        fields = ("language", "time_zone", "formats", "theme", "opens_next")
        labels = {"opens_next": gettext_lazy("After a decision, open the next item by itself")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        of_browser = ("", _("As the browser says"))
        choices = {
            "language": [of_browser, *settings.LANGUAGES],
            "time_zone": [of_browser, *zones_to_choose()],
            "formats": [("", _("As the language has them")), *map(_in_short, FORMATS)],
            "theme": [
                ("", _("As the system")),
                (Theme.LIGHT.value, _("Light")),
                (Theme.DARK.value, _("Dark")),
            ],
        }
        for name, offered in choices.items():
            self.fields[name].choices = offered  # type: ignore[attr-defined]


@login_required
@require_safe
def account(request: HttpRequest) -> HttpResponse:
    return _page(request)


def _page(request: HttpRequest, status: int = 200, **forms_in_error: Any) -> HttpResponse:
    person = person_of(request)
    preferences = Preferences.objects.filter(user=person).first()
    context = {
        "profile": ProfileForm(instance=person),
        "email": EmailForm(instance=person),
        "sends_letters": letters_are_possible(),
        "preferences": PreferencesForm(instance=preferences),
        "passkeys": listed(person),
        "may_let_sign": bool(that_sign(person)),
        "has_app": second_steps.has_app(person),
        "has_second_step": second_steps.are_wanted(person),
        "codes_left": second_steps.codes_left(person),
        "company": settings.OIDC_NAME if company_sign_in.is_configured() else "",
        "identity": CompanyIdentity.objects.filter(user=person).first(),
        "sessions": sessions_of(person),
        "this_session": request.session.session_key,
        "was_confirmed": authentication.was_confirmed(request),
        **_notifications(request),
        **forms_in_error,
    }
    return render(request, "account/account.html", context, status=status)


def _notifications(request: HttpRequest) -> dict[str, Any]:
    form = notifications.NotificationsForm(instance=notification_settings_of(person_of(request)))
    return notifications.context_of(request, form, roles_of_request(request))


@login_required
@require_POST
def profile(request: HttpRequest) -> HttpResponse:
    """Change one's own name: sealed, as every change of an account."""
    person = person_of(request)
    form = ProfileForm(request.POST, instance=User.objects.get(pk=person.pk))
    return _relabel(request, form, "profile", _("Your name is changed."))


@confirmed_person
@require_POST
def email(request: HttpRequest) -> HttpResponse:
    """Change one's own address, to which a link to a new password may go.

    Where this installation sends e-mail, a letter to the new address has to be confirmed first.
    """
    person = User.objects.get(pk=person_of(request).pk)
    before, form = person.email, EmailForm(request.POST, instance=person)
    wanted = form.cleaned_data["email"] if form.is_valid() else ""
    if not letters_are_possible() or wanted in {"", before}:
        return _relabel(request, form, "email", _("Your e-mail address is changed."))
    try:
        ask_for_address(person, wanted)
    except NotPossible as refusal:
        messages.error(request, refusal_in_words(refusal))
    else:
        told = _("A letter is on its way to {address}. It counts once you open the link in it.")
        messages.success(request, told.format(address=wanted))
    return redirect("desk:account")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def confirm_email(request: HttpRequest, token: str) -> HttpResponse:
    """Opening the link shows the address; only pressing the button makes it count."""
    person, page = person_of(request), "account/address.html"
    try:
        address = address_asked_with(token, person)
        if request.method == "POST":
            confirm_address(token, person)
    except NotPossible as refusal:
        return render(request, page, {"problem": refusal_in_words(refusal)}, status=409)
    if request.method != "POST":
        return render(request, page, {"address": address})
    messages.success(request, _("Your e-mail address is changed."))
    return redirect("desk:account")


def _relabel(request: HttpRequest, form: forms.ModelForm, name: str, message: str) -> HttpResponse:
    before = User.objects.get(pk=person_of(request).pk)
    if not form.is_valid():
        return _page(request, 422, **{name: form})
    with atomic():
        person = form.save(commit=False)
        person.save(update_fields=list(form.fields))
        labels = {label: getattr(before, label) for label in accounts.LABELS}
        accounts.relabelled(person, labels, by=principal_of(before), via=Surface.WEB)
    messages.success(request, message)
    return redirect("desk:account")


@login_required
@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    row = Preferences.objects.filter(user=person).first() or Preferences(user=person)
    form = PreferencesForm(request.POST, instance=row)
    if not form.is_valid():
        return _page(request, 422, preferences=form)
    form.save()
    plan_summary(person)  # its hours are of the time zone
    messages.success(request, _("Saved."))
    return redirect("desk:account")


# --- sessions -----------------------------------------------------------------------------------


@login_required
@require_POST
def end_other_sessions(request: HttpRequest) -> HttpResponse:
    return _end(request, but=request.session.session_key or "")


@login_required
@require_POST
def end_session(request: HttpRequest, session_id: int) -> HttpResponse:
    return _end(request, but=request.session.session_key or "", only=session_id)


def _end(request: HttpRequest, **which: Any) -> HttpResponse:
    person = person_of(request)
    with atomic():
        ended = end_sessions(person, **which)
        if ended:
            record_own(person, ChangeKind.SESSIONS_ENDED, sessions=len(ended))
    if not ended and "only" in which:
        raise Http404
    for key in ended:
        ringing.ring_session(key)
    messages.success(request, _("Signed out there."))
    return redirect("desk:account")


# --- proving again who one is -------------------------------------------------------------------


@sensitive_post_parameters()
@login_required
@require_http_methods(["GET", "POST"])
def confirm(request: HttpRequest) -> HttpResponse:
    """Ask again who it is: for the second step, where there is one, else for the password."""
    person = person_of(request)
    there = authentication.safe(
        request, request.GET.get("next", "") or request.POST.get("next", "")
    )
    wants_code = second_steps.are_wanted(person)
    context: dict[str, Any] = {
        "next": there,
        "wants_code": wants_code,
        "has_passkey": passkeys_of(person).exists(),
        "has_password": person.has_usable_password() and not wants_code,
        "company": settings.OIDC_NAME if _is_connected(person) and not wants_code else "",
    }
    if request.method == "GET":
        return render(request, "account/confirm.html", context)
    status = 429
    try:
        if _is_right(request, person, wants_code):
            authentication.confirmed(request)
            return redirect(there)
        status, problem = 422, _("This code is wrong.") if wants_code else _("Wrong password.")
    except LimitReached as refusal:
        problem = _("Too many attempts failed. Wait %(seconds)s seconds.") % {
            "seconds": refusal.retry_after_s
        }
    except TooBusy:
        problem = _("Too many people sign in at this moment. Try again.")
    return render(request, "account/confirm.html", {**context, "problem": problem}, status=status)


def _is_connected(person: User) -> bool:
    is_known = CompanyIdentity.objects.filter(user=person).exists()
    return is_known and company_sign_in.is_configured()


def _is_right(request: HttpRequest, person: User, wants_code: bool) -> bool:
    if wants_code:
        return authentication.check_code(request, person, request.POST.get("code", ""))
    address, key = authentication.address_of(request), str(person.pk)
    limits.attempt_code(address, key)
    with hashing_turn():
        is_right = person.has_usable_password() and person.check_password(
            request.POST.get("password", "")
        )
    if is_right:
        limits.code_was_right(address, key)
    return is_right
