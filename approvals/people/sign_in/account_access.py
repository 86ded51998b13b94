"""All ways in of one person, ended at once; and their open sessions."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from django.contrib.auth import HASH_SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.utils.crypto import constant_time_compare

from approvals.models import (
    AuthenticatorApp,
    CompanyIdentity,
    Passkey,
    RecoveryCodes,
    UserSession,
)
from approvals.people.sign_in import links

LONGEST_AGENT = 200
BATCH = 500  # expired sessions that are forgotten in one database transaction


def end_ways_in(person: User) -> None:
    """End password, passkeys, codes, company identity, links and sessions of the person."""
    person.set_unusable_password()
    User.objects.filter(pk=person.pk).update(password=person.password)
    for model in (AuthenticatorApp, RecoveryCodes, Passkey, CompanyIdentity):
        model.objects.filter(user=person).delete()
    links.end_links(person)
    end_sessions(person)


def end_sessions(person: User, *, but: str = "", only: int | None = None) -> list[str]:
    """End sessions of the person: all, all but one by its key, or only one by its number.

    Returns the keys of those that ended.
    """
    rows = UserSession.objects.filter(user=person).exclude(session=but)
    if only is not None:
        rows = rows.filter(pk=only)
    keys = list(rows.values_list("session_id", flat=True))
    Session.objects.filter(pk__in=keys).delete()
    return keys


def has_way_in(person: User, *, without_company: bool = False, without_passkey: int = 0) -> bool:
    """True if the person could still come in without this one."""
    has_company = CompanyIdentity.objects.filter(user=person).exists() and not without_company
    has_passkey = Passkey.objects.filter(user=person).exclude(pk=without_passkey).exists()
    return person.has_usable_password() or has_passkey or has_company


def remember_session(request: Any, person: User) -> None:
    """Note where this session was opened, for the list in the person's account."""
    if "REMOTE_ADDR" not in request.META:
        return  # no browser: a command, or a test
    if not request.session.session_key:
        request.session.save()  # it followed another person's, which Django has ended
    UserSession.objects.update_or_create(
        session_id=request.session.session_key,
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
    """Delete a batch of expired sessions. The sweeper calls it in each round; a row that somebody
    holds is left for the next."""
    with atomic():
        rows = Session.objects.filter(expire_date__lt=Now()).order_by("expire_date")
        locked = rows.select_for_update(skip_locked=True).values_list("pk", flat=True)
        if keys := list(locked[:BATCH]):
            Session.objects.filter(pk__in=keys).delete()


def sessions_of(person: User) -> list[UserSession]:
    """The person's open sessions, newest first."""
    rows = UserSession.objects.filter(user=person, session__expire_date__gt=Now())
    newest = rows.select_related("session").order_by("-created_at")
    return [row for row in newest if session_is_of(row.session.get_decoded(), person)]


def session_is_of(session: Mapping[str, Any], person: User) -> bool:
    """As ``django.contrib.auth.get_user``: a changed password ends the sessions before it."""
    hashes = [person.get_session_auth_hash(), *person.get_session_auth_fallback_hash()]
    known = session.get(HASH_SESSION_KEY, "")
    return any(constant_time_compare(known, each) for each in hashes)
