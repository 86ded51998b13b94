"""Roles, flags and permissions of a person: compare, write, and record a change.

Only ``accounts`` and ``second_operator`` call these to change a right.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Permission, User
from django.db.transaction import atomic

from approvals.models import LinkPurpose, Membership, PushSubscription, Role
from approvals.people import account_access, links, notices
from approvals.people.principals import name_of, principal_of
from ledger.events import account_changes
from ledger.events.account_changes import ChangeKind
from ledger.models import Event
from ledger.principals import Principal, Surface

FLAGS = {"is_active": "user", "is_staff": "staff", "is_superuser": "superuser"}


def record(
    person: User,
    kind: str,
    *,
    by: Principal,
    via: Surface,
    tenant: str = "",
    also_owed: Iterable[tuple[str, str]] = (),
    **details: Any,
) -> Event:
    """Append a sealed event of a change of this account, and notify the person.

    ``also_owed`` has channel and recipient of further deliveries of the event.
    """
    with atomic():
        event = account_changes.record(
            str(principal_of(person)),
            kind,
            tenant=tenant,
            by=by,
            via=via,
            name=name_of(person),
            details=details,
            owed_to=[*notices.deliveries(person, kind, by), *also_owed],
        )
        notices.show_on_desk(person, event)
    return event


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
            links.end(person, LinkPurpose.INVITE, LinkPurpose.RECOVER)
    elif kind == ChangeKind.ROLE_REVOKED:
        Membership.objects.filter(user=person, tenant=tenant, role=details["role"]).delete()
    elif kind == ChangeKind.ACCESS_RESET:
        account_access.end_all(person)
    elif kind == ChangeKind.PERMISSIONS_CHANGED:
        person.user_permissions.set(Permission.objects.filter(pk__in=details["permissions"]))
    else:
        flag, value = _flag_of(kind)
        User.objects.filter(pk=person.pk).update(**{flag: value})
        if kind == ChangeKind.USER_DEACTIVATED:
            PushSubscription.objects.filter(user=person).delete()
            links.end(person)
            account_access.end_sessions(person)
        setattr(person, flag, value)


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
