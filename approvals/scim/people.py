"""The directory's verbs of people: make, change, close and reopen an account that it keeps.

It may do no more than one operator alone. A closed account ends at once whatever else is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import scim2_models as scim
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection
from django.db.models.functions import Now
from django.db.transaction import atomic

from approvals.models import Membership, Role, UserName
from approvals.people import accounts, principal_of, record_change
from approvals.people.sign_in import has_way_in
from approvals.scim.changes import DIRECTORY, ORIGIN, DirectoryChange
from approvals.scim.models import LONGEST_ID, Entry
from approvals.scim.resources import Person, person_of
from approvals.web.settings.person import PersonForm
from ledger.events import ChangeKind, chain_of
from ledger.foundation.characters import lookalikes
from ledger.models import Event, Tenant

LOCK = int.from_bytes(b"scim")
TAKEN = (
    "An account has or had the userName {name!r}, and the directory does not keep it. Nothing was "
    "made. If it is the same person, an operator links it on the server: manage.py scim_link {name}"
)
KEPT_BY_ITS_PERSON = (
    "{names}: only its person changes this now, as they have come in or may decide. Nothing was "
    "changed."
)
LAST_ONE = "It is the last {what} who can sign in. Nothing was changed: make another one first."
CLOSED_AT_DESK = (
    "{name} was closed by an operator, and is opened again by one at the desk. Nothing was changed."
)
TAKES_MORE = (
    "{name} is an operator, may enter the admin, or belongs to another tenant, too: operators open "
    "such an account again, at the desk. Nothing was changed."
)


@contextmanager
def writing() -> Iterator[None]:
    """One database transaction, and one of the directory at a time.

    So none takes back what another did, and no two operators who leave count on each other.
    """
    with atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        if not Tenant.objects.filter(pk=settings.SCIM_TENANT).exists():
            raise scim.ConflictException(detail="ASSENT_SCIM_TENANT names no tenant of the desk.")
        yield


def entry_of(key: int) -> Entry:
    """Raises ``NotFoundException``, also for an account that the directory does not keep."""
    entry = Entry.objects.select_related("user").filter(pk=key).first()
    if entry is None:
        raise scim.NotFoundException(detail="The directory keeps no such account.")
    return entry


def make(wanted: Person) -> Entry:
    """An account without a password, whose person is a viewer until they are given more."""
    labels = wanted.labels
    with writing():
        _require_free(labels["username"])
        person = accounts.invite(labels["username"], email=labels["email"], **ORIGIN)
        accounts.give_role(person, settings.SCIM_TENANT, Role.VIEWER, **ORIGIN)
        entry = Entry.objects.create(user=person)
        entry.refresh_from_db()
        _require_own_looks(person, labels["username"])
        _label(person, labels)
        note(entry, external_id=wanted.external_id or "")
        _switch(person, wanted.active is not False)
    return entry_of(person.pk)


def _require_free(name: str, key: int = 0) -> None:
    if UserName.objects.filter(name=name.lower()).exclude(user_id=key).exists():
        raise scim.UniquenessException(detail=TAKEN.format(name=name))


def change(key: int, edit: Callable[[Person], Person]) -> Entry:
    """Change one account as ``edit`` changes what the directory sees of it."""
    with writing():
        entry, closes = _held(key), False
        person = entry.user
        wanted = edit(person_of(entry))
        if wanted.active is not None and wanted.active != person.is_active:
            _switch(person, wanted.active)
            closes = not wanted.active
        try:
            with atomic():
                _label(person, wanted.labels)
                note(entry, external_id=wanted.external_id or "")
        except (scim.SCIMException, ValidationError, IntegrityError):
            if not closes:
                raise  # else who has left is out, whatever came with it
    return entry_of(key)


def close(key: int) -> Entry:
    """Close an account, and change nothing else of it."""
    with writing():
        _switch(_held(key).user, active=False)
    return entry_of(key)


def _held(key: int) -> Entry:
    """Its account is not changed at the desk until commit: each side sees what the other did."""
    User.objects.select_for_update().filter(pk=key).first()
    return entry_of(key)


def _switch(person: User, active: bool) -> None:
    if active == person.is_active:
        return
    if active:
        _require_ours(person)
    else:
        _require_another(person)
    accounts.set_flag(person, "is_active", active, **ORIGIN)


def _require_ours(person: User) -> None:
    """Raises ``ForbiddenException`` for an account that one operator would not open either, and
    for one that was closed at the desk: there was a reason that the directory does not know."""
    roles = Membership.objects.filter(user=person)
    elsewhere = roles.exclude(tenant=settings.SCIM_TENANT) | roles.filter(role=Role.OPERATOR)
    if person.is_staff or person.is_superuser or elsewhere.exists():
        raise scim.ForbiddenException(detail=TAKES_MORE.format(name=person.username))
    chain, kind = chain_of(str(principal_of(person))), ChangeKind.USER_DEACTIVATED
    closed = Event.objects.filter(subject=chain, kind=kind).order_by("pk").last()
    if closed is None or closed.principal != str(DIRECTORY):
        raise scim.ForbiddenException(detail=CLOSED_AT_DESK.format(name=person.username))


def _require_another(person: User) -> None:
    """Raises ``ConflictException`` where nobody would be left to keep a tenant, or all of them."""
    rows = User.objects.filter(is_active=True).exclude(pk=person.pk)
    operated = Membership.objects.filter(user=person, role=Role.OPERATOR)
    for tenant in operated.values_list("tenant", flat=True):
        others = rows.filter(memberships__tenant=tenant, memberships__role=Role.OPERATOR)
        if not any(map(has_way_in, others)):
            raise scim.ConflictException(detail=LAST_ONE.format(what=f"operator of {tenant}"))
    if person.is_superuser and not any(map(has_way_in, rows.filter(is_superuser=True))):
        raise scim.ConflictException(detail=LAST_ONE.format(what="superuser"))


def _label(person: User, wanted: dict[str, str]) -> None:
    """By the rules of the page about a person: no colleague's name, no approver's address."""
    changed = {name: text for name, text in wanted.items() if text != getattr(person, name)}
    if not changed:
        return
    form = PersonForm(wanted, instance=User.objects.get(pk=person.pk))
    if kept := sorted(changed.keys() - form.fields.keys()):
        raise scim.MutabilityException(detail=KEPT_BY_ITS_PERSON.format(names=", ".join(kept)))
    _require_free(wanted["username"], person.pk)
    if "username" in changed:
        _require_own_looks(person, wanted["username"])
    if not form.is_valid():
        words = " ".join(str(text) for texts in form.errors.values() for text in texts)
        raise scim.InvalidValueException(detail=f"{words} Nothing was changed.")
    accounts.relabel(person, changed, **ORIGIN)


def _require_own_looks(person: User, name: str) -> None:
    """Whoever has no other name is shown by their user name."""
    if lookalikes([name]) or accounts.is_name_of_another(person, name):
        raise scim.InvalidValueException(
            detail=f"{name} could be read as another name. Nothing was changed."
        )


def note(entry: Entry, **wanted: Any) -> None:
    """Write what the directory says of the account, sealed."""
    edits = {
        name: [getattr(entry, name), value]
        for name, value in wanted.items()
        if getattr(entry, name) != value
    }
    if not edits:
        return
    if len(wanted.get("external_id", "")) > LONGEST_ID:
        raise scim.InvalidValueException(detail="externalId is too long. Nothing was changed.")
    Entry.objects.filter(pk=entry.pk).update(**wanted, changed_at=Now())
    entry.refresh_from_db()
    record_change(entry.user, DirectoryChange.ENTRY_CHANGED, **ORIGIN, edits=edits)
