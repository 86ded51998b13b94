"""All ways in of one person, ended at once."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db.models.functions import Now
from django.db.transaction import atomic

from approvals.models import CompanyIdentity
from approvals.people import links

LONGEST_AGENT = 200
BATCH = 500  # expired sessions that are forgotten in one database transaction


def end_all(person: User) -> None:
    """End password, passkeys, codes, company identity, links and sessions of the person."""
    person.set_unusable_password()
    User.objects.filter(pk=person.pk).update(password=person.password)
    Authenticator.objects.filter(user=person).delete()
    CompanyIdentity.objects.filter(user=person).delete()
    links.end(person)
    end_sessions(person)


def end_sessions(person: User, *, but: str = "", only: int | None = None) -> list[str]:
    """End sessions of the person: all, all but one by its key, or only one by its number.

    Returns the keys of those that ended.
    """
    rows = UserSession.objects.filter(user=person).exclude(session_key=but)
    if only is not None:
        rows = rows.filter(pk=only)
    keys = list(rows.values_list("session_key", flat=True))
    Session.objects.filter(session_key__in=keys).delete()
    rows.delete()
    return keys


def are_left(person: User, *, without_company: bool = False, without_passkey: int = 0) -> bool:
    """Whether the person could still come in if this one went."""
    rows = Authenticator.objects.filter(user=person, type=Authenticator.Type.WEBAUTHN)
    has_company = CompanyIdentity.objects.filter(user=person).exists() and not without_company
    has_passkey = rows.exclude(pk=without_passkey).exists()
    return person.has_usable_password() or has_passkey or has_company


def remember_session(request: Any, person: User, *, instead_of: str = "") -> None:
    """Note where this session was opened, for the list in the person's account."""
    UserSession.objects.filter(session_key=instead_of).delete()
    if "REMOTE_ADDR" not in request.META:
        return  # no browser: a command, or a test
    if not request.session.session_key:
        request.session.save()  # it followed another person's, which Django has ended
    UserSession.objects.update_or_create(
        session_key=request.session.session_key,
        defaults={
            "user": person,
            "ip": _address(request.META["REMOTE_ADDR"]),
            "user_agent": request.META.get("HTTP_USER_AGENT", "")[:LONGEST_AGENT],
        },
    )


def _address(text: str) -> str:
    """The address, or the one that stands for none: a socket of this machine has none."""
    try:
        return str(ip_address(text))
    except ValueError:
        return "::"


def on_sign_in(sender: Any, request: Any, user: User, **_: Any) -> None:
    """Listens to Django's signal."""
    request.session.set_expiry(None)  # what was begun before the sign-in was kept for less
    remember_session(request, user)


def forget_expired() -> None:
    """Delete a batch of expired sessions, and their lines in the lists of open ones. The sweeper
    calls it in each round; a row that somebody holds is left for the next."""
    with atomic():
        rows = Session.objects.filter(expire_date__lt=Now()).order_by("expire_date")
        locked = rows.select_for_update(skip_locked=True).values_list("pk", flat=True)
        if keys := list(locked[:BATCH]):
            UserSession.objects.filter(session_key__in=keys).delete()
            Session.objects.filter(pk__in=keys).delete()


def sessions_of(person: User) -> list[UserSession]:
    """The person's open sessions, newest first; those that have ended are forgotten."""
    found = UserSession.objects.purge_and_list(person)
    return sorted(found, key=lambda session: session.created_at, reverse=True)
