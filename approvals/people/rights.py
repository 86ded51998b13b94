"""Roles, flags and permissions of a person: compare, write, and list for the proof.

Only ``accounts`` and ``second_operator`` call these to change a right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import Permission, User

from approvals.models import LinkPurpose, Membership, PushSubscription, Role
from approvals.people.principals import principal_of
from approvals.people.sign_in import end_links, end_sessions, end_ways_in
from ledger.events import ChangeKind, chain_of
from ledger.proof.audit import Account
from ledger.sign_off import grants

FLAGS = {"is_active": "user", "is_staff": "staff", "is_superuser": "superuser"}


def is_in_effect(person: User, kind: str, tenant: str, details: dict[str, Any]) -> bool:
    """True if the person's rights are already as the change would make them."""
    if kind in {ChangeKind.ROLE_GRANTED, ChangeKind.ROLE_REVOKED}:
        roles = Membership.objects.filter(user=person, tenant=tenant, role=details["role"])
        return bool(roles.exists()) == (kind == ChangeKind.ROLE_GRANTED)
    if kind == ChangeKind.ACCESS_RESET:
        return False
    if kind == ChangeKind.PERMISSIONS_CHANGED:
        keys = person.user_permissions.order_by("pk").values_list("pk", flat=True)
        return bool(list(keys) == details["permissions"])
    flag, value = _flag_of(kind)
    current: bool = getattr(User.objects.get(pk=person.pk), flag)
    return current == value


def apply(person: User, kind: str, tenant: str, details: dict[str, Any]) -> None:
    """Write the change. Only inside the database transaction that records it."""
    if kind == ChangeKind.ROLE_GRANTED:
        Membership.objects.create(user=person, tenant_id=tenant, role=details["role"])
        if details["role"] != Role.VIEWER:
            # Whoever made a link that is still open knows it, and could decide with it alone.
            end_links(person, LinkPurpose.INVITE, LinkPurpose.RECOVER, LinkPurpose.RESET)
    elif kind == ChangeKind.ROLE_REVOKED:
        Membership.objects.filter(user=person, tenant=tenant, role=details["role"]).delete()
        is_operator = details["role"] == Role.OPERATOR
        if details["role"] != Role.VIEWER:
            own = {"tenant": tenant, "is_break_glass": is_operator}
            grants.end_all_of(str(principal_of(person)), **own)
    elif kind == ChangeKind.ACCESS_RESET:
        end_ways_in(person)
    elif kind == ChangeKind.PERMISSIONS_CHANGED:
        person.user_permissions.set(Permission.objects.filter(pk__in=details["permissions"]))
    else:
        flag, value = _flag_of(kind)
        User.objects.filter(pk=person.pk).update(**{flag: value})
        if kind == ChangeKind.USER_DEACTIVATED:
            PushSubscription.objects.filter(user=person).delete()
            end_links(person)
            end_sessions(person)
            grants.end_all_of(str(principal_of(person)))
        setattr(person, flag, value)


def of_everybody() -> Iterator[Account]:
    """The rights that each account has now, for the proof to compare with its events."""
    roles: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for user, *role in Membership.objects.values_list("user", "tenant", "role"):
        roles[user].append((role[0], role[1]))
    for person in User.objects.order_by("pk").iterator():
        principal = str(principal_of(person))
        flags = {flag: getattr(person, flag) for flag in FLAGS}
        chain = chain_of(principal)
        yield Account(chain, principal, roles=tuple(sorted(roles[person.pk])), **flags)


def _flag_of(kind: str) -> tuple[str, bool]:
    by_kind = {
        kind_of_flag(flag, value): (flag, value) for flag in FLAGS for value in (True, False)
    }
    return by_kind[kind]


def event_details(details: dict[str, Any]) -> dict[str, Any]:
    """The details of a change as its event keeps them: permissions by name, not by key."""
    if "permissions" not in details:
        return details
    rows = Permission.objects.filter(pk__in=details["permissions"]).select_related("content_type")
    names = sorted(f"{row.content_type.app_label}.{row.codename}" for row in rows)
    return {**details, "permissions": names}


def kind_of_flag(flag: str, value: bool) -> str:
    verbs = ("deactivated", "activated") if flag == "is_active" else ("revoked", "granted")
    return f"{FLAGS[flag]}_{verbs[value]}"
