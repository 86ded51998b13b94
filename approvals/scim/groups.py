"""The directory's groups: those that the settings name, and what being in one gives.

A group that no setting names is not here, whatever it is called: nobody gets a right by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice

import scim2_models as scim
from django.conf import settings

from approvals.models import Role
from approvals.people import company_sign_in
from approvals.people.company_sign_in import OF_DIRECTORY, Mapped
from approvals.scim.changes import ORIGIN
from approvals.scim.models import Entry
from approvals.scim.people import note, writing
from approvals.scim.resources import Group, group_of, id_of_group
from ledger.models import Tenant

KEY = re.compile("[0-9]{1,20}")
MOST_NAMED = 10  # of the accounts that there are not


def served() -> list[str]:
    """The names of the groups, in order."""
    return sorted({each.value for each in (*_roles(), *_groups())})


def named(key: str) -> str:
    """The name of the group with this id. Raises ``NotFoundException``."""
    for name in served():
        if id_of_group(name) == key:
            return name
    raise scim.NotFoundException(detail="No setting of the desk names such a group.")


def shown(name: str) -> Group:
    return group_of(name, _members(name))


def _members(name: str) -> list[Entry]:
    rows = Entry.objects.filter(groups__contains=[name])
    return list(rows.select_related("user").order_by("pk"))


def change(key: str, edit: Callable[[Group], Group]) -> Group:
    """Change who is in a group, all or nothing."""
    name = named(key)
    with writing():
        before = _members(name)
        wanted = edit(group_of(name, before))
        if wanted.display_name != name:
            raise scim.MutabilityException(
                detail=f"{name} is called so by the settings of the desk. Nothing was changed."
            )
        # Before any account, as who confirms a role does; not while the request is worked out.
        Tenant.objects.select_for_update(no_key=True).get(pk=settings.SCIM_TENANT)
        is_in, should_be = {each.pk for each in before}, _keys(wanted)
        for entry in _entries(should_be - is_in):
            _put(entry, sorted({*entry.groups, name}), name)
        for entry in before:
            if entry.pk not in should_be:
                _put(entry, [each for each in entry.groups if each != name], name)
    return shown(name)


def _keys(wanted: Group) -> set[int]:
    values = {each.value or "" for each in wanted.members or []}
    if unknown := sorted(each for each in values if not KEY.fullmatch(each)):
        raise scim.InvalidValueException(detail=_unknown(unknown))
    return {int(each) for each in values}


def _entries(keys: Iterable[int]) -> list[Entry]:
    wanted = set(keys)
    entries = list(Entry.objects.select_related("user").filter(pk__in=wanted).order_by("pk"))
    if unknown := wanted - {each.pk for each in entries}:
        raise scim.InvalidValueException(detail=_unknown(map(str, sorted(unknown))))
    return entries


def _unknown(keys: Iterable[str]) -> str:
    first = ", ".join(key[:20] for key in islice(keys, MOST_NAMED))
    return f"The directory keeps no account {first}. Nobody's groups were changed."


def _put(entry: Entry, groups: list[str], changed: str) -> None:
    """Keep the roles and groups that ``changed`` stands for in step, and no others."""
    note(entry, groups=groups)
    claims = {OF_DIRECTORY: groups}
    company_sign_in.apply_roles(entry.user, claims, _of(changed, _roles()), **ORIGIN)
    company_sign_in.apply_groups(entry.user, claims, _of(changed, _groups()), **ORIGIN)


def _of(name: str, entries: list[Mapped]) -> list[Mapped]:
    """The entries for what this group gives: another group may give the same."""
    goals = {each.goal for each in entries if each.value == name}
    return [each for each in entries if each.goal in goals]


def _roles() -> list[Mapped]:
    """Of our tenant alone; an operator is made by two, at the desk."""
    entries = company_sign_in.mapped_roles(of_directory=True)
    return [each for each in _ours(entries) if each.goal != Role.OPERATOR]


def _groups() -> list[Mapped]:
    return _ours(company_sign_in.mapped_groups(of_directory=True))


def _ours(entries: list[Mapped]) -> list[Mapped]:
    return [each for each in entries if each.tenant == settings.SCIM_TENANT]
