"""From a proof of who somebody is to an open session; and the proof asked again later."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

from approvals import metrics
from approvals.people import principal_of, record_change
from approvals.people.sign_in import second_steps
from ledger import limits
from ledger.errors import LimitReached
from ledger.events import ChangeKind, chain_of
from ledger.foundation.crypto import encryption
from ledger.models import Event
from ledger.principals import Surface, system

BACKEND = "django.contrib.auth.backends.ModelBackend"
# In the session:
PENDING, CONFIRMED = "sign_in_pending", "confirmed_at"
CHALLENGE = "passkey_challenge"
PENDING_FOR_S = 600
BEGUN_FOR_S = 900  # a sign-in that is not finished
BLOCKED_AGAIN_S = 3600
GATE = system("sign_in", "The sign-in page")


def enter(request: HttpRequest, person: User, next_page: str = "") -> HttpResponse:
    """Open a session for the person, who has proven everything, and go to the page they wanted."""
    request.session.pop(PENDING, None)
    login(request, person, backend=BACKEND)
    metrics.count_sign_in("signed_in")
    request.session[CONFIRMED] = time.time()
    return redirect(safe(request, next_page))


def after_first_step(request: HttpRequest, person: User, next_page: str = "") -> HttpResponse:
    """Enter, or ask for the second step where the person has one."""
    if not second_steps.are_wanted(person):
        return enter(request, person, next_page)
    begun(request)
    request.session[PENDING] = {
        "person": person.pk,
        "hash": person.get_session_auth_hash(),
        "at": time.time(),
        "next": next_page,
    }
    return redirect("desk:sign-in-code")


def begun(request: HttpRequest) -> None:
    """Keep the session of a stranger, who began to sign in, no longer than that takes."""
    if not request.user.is_authenticated:
        request.session.set_expiry(BEGUN_FOR_S)


def pending_person(request: HttpRequest) -> User | None:
    """The person who passed the first step in this session, lately, with a password that counts."""
    pending = request.session.get(PENDING)
    if not pending or time.time() - pending["at"] > PENDING_FOR_S:
        return None
    person = User.objects.filter(pk=pending["person"], is_active=True).first()
    if person is None or not constant_time_compare(pending["hash"], person.get_session_auth_hash()):
        return None
    return person


def safe(request: HttpRequest, there: str) -> str:
    """The page, if it is one of ours; else the inbox."""
    is_ours = url_has_allowed_host_and_scheme(there, allowed_hosts={request.get_host()})
    return there if there and is_ours else reverse("desk:inbox")


def address_of(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))


def tell_if_blocked(address: str, account: str) -> None:
    """Tell a person, once an hour, that somebody fails again and again to sign in as them."""
    if limits.account_has_to_wait(address, account):
        person = User.objects.filter(username=account, is_active=True).first()
        if person is not None:
            tell_blocked(person)


def tell_blocked(person: User) -> None:
    chain = chain_of(str(principal_of(person)))
    last = Event.objects.filter(subject=chain, kind=ChangeKind.SIGN_IN_BLOCKED).last()
    if last is None or time.time() - last.at.timestamp() > BLOCKED_AGAIN_S:
        record_change(person, ChangeKind.SIGN_IN_BLOCKED, by=GATE, via=Surface.WEB)


def check_code(request: HttpRequest, person: User, code: str) -> bool:
    """Use up a code of the person. Raises ``LimitReached``, and then looks at no code."""
    address, key = address_of(request), str(person.pk)
    try:
        limits.attempt_code(address, key)
    except LimitReached:
        tell_blocked(person)
        raise
    is_right = second_steps.check_code(person, code)
    if is_right:
        limits.code_was_right(address, key)
    return is_right


def challenge(request: HttpRequest, options: dict[str, Any], state: dict[str, Any]) -> HttpResponse:
    """Let the browser make or use a passkey."""
    request.session[CHALLENGE] = state
    begun(request)
    return JsonResponse(options)


def answer_to_challenge(request: HttpRequest) -> tuple[dict[str, Any], str]:
    """The challenge of this session, which counts once, and the browser's answer to it."""
    return request.session.pop(CHALLENGE, None) or {}, request.POST.get("credential", "")


# --- secrets that one page hands to the next ---


def keep_secret(request: HttpRequest, name: str, text: str) -> None:
    """Keep it in the session, encrypted: sessions are rows, and in backups."""
    request.session[name] = encryption.encrypt(text, f"session.{name}")


def kept_secret(request: HttpRequest, name: str) -> str:
    """The secret that an earlier page kept, or an empty text."""
    return encryption.decrypt(request.session.get(name, ""), f"session.{name}")


# --- asking again -------------------------------------------------------------------------------


def was_confirmed(request: HttpRequest) -> bool:
    return bool(time.time() - request.session.get(CONFIRMED, 0) < settings.CONFIRMED_FOR_S)


def confirmed(request: HttpRequest) -> None:
    request.session[CONFIRMED] = time.time()


def confirmed_person(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Decorates views that change how somebody signs in: without a proof of the last minutes they
    do nothing, and the person is asked for it."""

    @wraps(view)
    def asked_first(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if was_confirmed(request):
            return view(request, *args, **kwargs)
        there = request.path if request.method == "GET" else reverse("desk:account")
        return redirect(f"{reverse('desk:account-confirm')}?{urlencode({'next': there})}")

    return cast(Callable[..., HttpResponse], login_required(asked_first))


def person_of(request: HttpRequest) -> User:
    return cast(User, request.user)
