"""Open sessions and their people: for all open pages of a process in one look."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.utils import timezone

from approvals.models import Membership, Preferences
from approvals.people.sign_in import session_is_of
from ledger import principals
from ledger.events import chain_of
from ledger.models import Tenant


class OpenSession(NamedTuple):
    """The chain of the person's account, the tenants whose rows they may see, and who they are.

    ``roles`` has a pair for each tenant in which they have any.
    """

    user_chain: str
    tenants: frozenset[str]
    principal: str = ""
    roles: frozenset[tuple[str, frozenset[str]]] = frozenset()
    preferences: Preferences | None = None


KEY = re.compile(r"[a-z0-9]{8,40}")  # as Django makes them
NOBODY = OpenSession("", frozenset())


def read_all(keys: list[str]) -> list[OpenSession]:
    """Read each session, in as many queries for one as for a thousand.

    A session that ended, and one whose person was deactivated, changed the password or has no role
    any more, sees nothing.
    """
    sessions = _contents(set(keys))
    users = User.objects.filter(is_active=True).in_bulk(
        {session[SESSION_KEY] for session in sessions.values()}
    )
    roles = _roles(users)
    every = _every_tenant(users)
    preferences = Preferences.objects.in_bulk(list(users))
    seen = {}
    for key, session in sessions.items():
        user = users.get(int(session[SESSION_KEY]))
        if user is not None and session_is_of(session, user):
            principal, own = str(principals.user(user.pk)), roles[user.pk]
            seen[key] = OpenSession(
                str(chain_of(principal)),
                every if user.is_superuser else frozenset(own),
                principal,
                frozenset((tenant, frozenset(names)) for tenant, names in own.items()),
                preferences.get(user.pk),
            )
    return [seen.get(key, NOBODY) for key in keys]


def _contents(keys: set[str]) -> dict[str, dict[str, Any]]:
    """The sessions in which somebody signed in, by their keys."""
    possible = [key for key in keys if KEY.fullmatch(key)]
    rows = Session.objects.filter(session_key__in=possible, expire_date__gt=timezone.now())
    contents = {
        key: _decoded(data) for key, data in rows.values_list("session_key", "session_data")
    }
    return {
        key: content
        for key, content in contents.items()
        if str(content.get(SESSION_KEY, "")).isdecimal()
        and content.get(BACKEND_SESSION_KEY) in settings.AUTHENTICATION_BACKENDS
    }


@lru_cache(maxsize=20_000)
def _decoded(data: str) -> dict[str, Any]:
    """Sessions change rarely, and to verify the signature of each would take most of a look."""
    content: dict[str, Any] = SessionStore().decode(data)
    return content


def _roles(users: dict[int, User]) -> dict[int, dict[str, set[str]]]:
    """As ``approvals.http.middleware.roles_of``, of many."""
    of_members: dict[int, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    memberships = Membership.objects.filter(user__in=users)
    for user_id, tenant, role in memberships.values_list("user_id", "tenant_id", "role"):
        of_members[user_id][tenant].add(role)
    return of_members


def _every_tenant(users: dict[int, User]) -> frozenset[str]:
    """As ``approvals.http.middleware.tenants_of``: a superuser sees all."""
    if not any(user.is_superuser for user in users.values()):
        return frozenset()
    return frozenset(Tenant.objects.values_list("slug", flat=True))
