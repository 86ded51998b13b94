"""Changes of accounts, roles, rights and passwords, for the admin, the desk and commands.

Each function appends a sealed event in its own database transaction and notifies the person. Nobody
changes their own rights alone: see ``approvals.people.second_operator``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Permission, User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db.transaction import atomic
from django.utils.translation import gettext as _

from approvals.models import LinkPurpose, Membership, Role, UserName
from approvals.people import reset_letters, second_operator, sign_in
from approvals.people.account_log import record_change
from approvals.people.principals import name_of
from approvals.people.rights import apply, event_details, is_in_effect, kind_of_flag
from approvals.people.sign_in import end_links, new_link
from approvals.people.signing_keys import check_is_ready
from ledger.events import ChangeKind, edits_between
from ledger.foundation.characters import folded
from ledger.principals import Principal, Surface

# Columns that identify an account, and the kind of event of their change.
LABELS = {
    "username": ChangeKind.USER_RENAMED,
    "first_name": ChangeKind.USER_RENAMED,
    "last_name": ChangeKind.USER_RENAMED,
    "email": ChangeKind.EMAIL_CHANGED,
}

ADMIN_APPS = ["ledger", "a2a", "approvals", "git_bus", "humanlayer"]


def invite(username: str, *, email: str = "", name: str = "", by: Principal, via: Surface) -> User:
    """Make the account of a person who has none yet, without a password.

    Raises ``ValidationError`` for a name that somebody has or had, and for an address that is none.
    """
    username = User.normalize_username(username)
    UnicodeUsernameValidator()(username)
    if email:
        validate_email(email)
    first, _between, last = name.strip().partition(" ")
    with atomic():
        if UserName.objects.filter(name=username.lower()).exists():
            raise ValidationError(_("Somebody else has this username, or once had it."))
        person = User(username=username, email=email, first_name=first[:150], last_name=last[:150])
        person.full_clean(exclude=["password"])
        person.set_unusable_password()
        person.save()
        opened(person, by=by, via=via)
    return person


def is_name_of_another(person: User, name: str) -> bool:
    """True if somebody of the same tenant has this name, in any spelling."""
    tenants = Membership.objects.filter(user=person).values("tenant")
    others = User.objects.filter(memberships__tenant__in=tenants).exclude(pk=person.pk).distinct()
    wanted = folded(name).casefold()
    taken = (text for each in others for text in (name_of(each), each.username))
    return any(wanted == folded(text).casefold() for text in taken)


def make_link(person: User, *, by: Principal, via: Surface) -> str:
    """The address where the person chooses a first password or passkey; shown once."""
    with atomic():
        record_change(person, ChangeKind.PERSON_INVITED, by=by, via=via)
        return new_link(LinkPurpose.INVITE, person)


def reset_access(person: User, tenant: str, *, by: Principal, via: Surface) -> bool:
    """End all ways in of this person. False: a second operator has to confirm it, and gets a link
    for the person then."""
    return _change(person, ChangeKind.ACCESS_RESET, by=by, via=via, tenant=tenant)


def let_sign(
    person: User, passkey_id: int | str, tenant: str, *, by: Principal, via: Surface
) -> None:
    """Have a second operator confirm that this passkey of the person signs decisions.

    Raises ``NotFound, NotPossible``.
    """
    after = check_is_ready(person, passkey_id)
    kind = ChangeKind.SIGNING_KEY_ENROLLED
    second_operator.ask(person, kind, by=by, via=via, tenant=tenant, details=after)


def opened(person: User, *, by: Principal, via: Surface) -> None:
    """Record an account that the caller created in the same database transaction."""
    record_change(
        person,
        ChangeKind.USER_CREATED,
        by=by,
        via=via,
        username=person.username,
        email=person.email,
    )
    for flag in ("is_staff", "is_superuser"):
        if getattr(person, flag):  # only a command on the server creates such accounts
            record_change(person, kind_of_flag(flag, True), by=by, via=via)


def relabelled(person: User, before: dict[str, Any], *, by: Principal, via: Surface) -> None:
    """Record names or an address that the caller changed in the same database transaction."""
    edits = edits_between(before, {name: getattr(person, name) for name in LABELS})
    for kind in dict.fromkeys(LABELS[name] for name in edits):
        of_kind = {name: edit for name, edit in edits.items() if LABELS[name] == kind}
        owed: list[tuple[str, str]] = []
        if kind == ChangeKind.EMAIL_CHANGED:
            end_links(person, LinkPurpose.RESET)  # it went to the old address
            owed = reset_letters.owed_to_old_address(person, before["email"])
        record_change(person, kind, by=by, via=via, also_owed=owed, edits=of_kind)


def relabel(person: User, wanted: dict[str, str], *, by: Principal, via: Surface) -> None:
    """Set names or an address of somebody else. Raises ``ValidationError``.

    Nobody alone gets a way into an account that decides: a link to a new password goes to the
    address. And a username stays once its owner has signed in with it.
    """
    with atomic():
        row = User.objects.select_for_update().get(pk=person.pk)
        assert set(wanted) <= set(LABELS)
        if "email" in wanted and second_operator.keeps_own_address(row):
            raise ValidationError(_("Only they can change their address now."))
        if "username" in wanted and row.last_login is not None:
            raise ValidationError(_("This username stays: somebody has signed in with it."))
        before = {name: getattr(row, name) for name in LABELS}
        User.objects.filter(pk=row.pk).update(
            **{name: wanted[name] for name in LABELS if name in wanted}
        )
        row.refresh_from_db()
        relabelled(row, before, by=by, via=via)


def end_sessions(person: User, *, by: Principal, via: Surface) -> list[str]:
    """Sign the person out everywhere. Returns the keys of the sessions that ended."""
    with atomic():
        ended = sign_in.end_sessions(person)
        if ended:
            kind = ChangeKind.SESSIONS_ENDED
            record_change(person, kind, by=by, via=via, sessions=len(ended))
    return ended


def let_into_admin(person: User, *, by: Principal, via: Surface) -> None:
    """Make the person staff, with all rights to the rows of the product."""
    set_flag(person, "is_staff", True, by=by, via=via)
    rights = Permission.objects.filter(content_type__app_label__in=ADMIN_APPS)
    set_permissions(person, rights, by=by, via=via)


def give_role(person: User, tenant: str, role: str, *, by: Principal, via: Surface) -> bool:
    """Give a role. Returns False if a second operator has to confirm it first."""
    return _change(
        person, ChangeKind.ROLE_GRANTED, by=by, via=via, tenant=tenant, role=Role(role).value
    )


def take_role(person: User, tenant: str, role: str, *, by: Principal, via: Surface) -> bool:
    """Take a role away. Returns False if a second operator has to confirm it first."""
    return _change(
        person, ChangeKind.ROLE_REVOKED, by=by, via=via, tenant=tenant, role=Role(role).value
    )


def set_flag(
    person: User, flag: str, value: bool, *, by: Principal, via: Surface, tenant: str = ""
) -> bool:
    """Set ``is_active``, ``is_staff`` or ``is_superuser``. Returns as ``give_role`` does.

    ``tenant`` names whose operators may confirm it, where one has to.
    """
    kind = kind_of_flag(flag, value)
    return _change(person, kind, by=by, via=via, tenant=tenant)


def set_permissions(
    person: User, permissions: Iterable[Permission], *, by: Principal, via: Surface
) -> bool:
    """Set the permissions in the admin. Returns as ``give_role`` does."""
    keys = sorted(permission.pk for permission in permissions)
    return _change(person, ChangeKind.PERMISSIONS_CHANGED, by=by, via=via, permissions=keys)


def _change(
    person: User, kind: str, *, by: Principal, via: Surface, tenant: str = "", **details: Any
) -> bool:
    with atomic():
        # One change of an account at a time; its present rights are read under this lock.
        User.objects.select_for_update().get(pk=person.pk)
        if is_in_effect(person, kind, tenant, details):
            return True
        sealed = event_details(details)
        if second_operator.has_to_confirm(person, kind, by, details.get("role", "")):
            origin: dict[str, Any] = {"by": by, "tenant": tenant, "details": details}
            if not second_operator.is_alone(
                kind, tenant, person, by, details.get("role", Role.VIEWER)
            ):
                second_operator.ask(person, kind, via=via, **origin)
                return False
            second_operator.note_alone(person, kind, **origin)
            sealed = {**sealed, "alone": True}
        apply(person, kind, tenant, details)
        record_change(person, kind, by=by, via=via, tenant=tenant, **sealed)
    return True


def set_password(person: User, password: str, *, by: Principal, via: Surface) -> None:
    """Set a new password. Every link ends, and every session that the caller does not renew."""
    with atomic():
        person.set_password(password)
        person.save(update_fields=["password"])
        password_was_set(person, by=by, via=via)


def password_was_set(person: User, *, by: Principal, via: Surface) -> None:
    """Record a password that the caller set in the same database transaction; all links end."""
    end_links(person)
    record_change(person, ChangeKind.PASSWORD_CHANGED, by=by, via=via)
