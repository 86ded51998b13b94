"""People of a tenant and their roles, and the groups in which they sign."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any

from django.contrib.auth.models import User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from approvals.declared.kinds import Edits, Kind, Reference, Refused, Run, Spec, Strict
from approvals.models import Membership, Role
from approvals.people import accounts, company_sign_in, principal_of
from ledger.models import Group, GroupMember
from ledger.principals import Principal
from ledger.sign_off import groups


def _username(name: str) -> str:
    try:
        UnicodeUsernameValidator()(name)
    except ValidationError:
        raise ValueError("letters, digits and @ . + - _ only") from None
    return User.normalize_username(name)


def _email(address: str) -> str:
    if address:
        try:
            validate_email(address)
        except ValidationError:
            raise ValueError("this is no e-mail address") from None
    return address


Username = Annotated[str, Field(max_length=150), AfterValidator(_username)]


def person_named(tenant: str, username: str) -> User:
    """Somebody with a role in the tenant. Raises ``Refused`` for everybody else."""
    rows = User.objects.filter(username=username, memberships__tenant=tenant).distinct()
    person = rows.first()
    if person is None:
        raise Refused(f"{username} has no role in {tenant}.")
    return person


class PersonSpec(Spec):
    identity = ("username",)

    username: Username
    # Left out, they stay as they are: the account may be of other tenants, too.
    name: Annotated[str, Field(max_length=150)] | None = None
    email: Annotated[str, AfterValidator(_email)] | None = None
    roles: Annotated[list[Role], Field(min_length=1)]
    is_active: bool = True

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "roles": sorted(set(map(str, self.roles)))}


class People(Kind[PersonSpec]):
    """Roles are of the tenant. The account is of all its tenants: only where it is of this one
    alone, and no superuser's, a document changes its name, its address, and whether it is open."""

    name = "person"
    spec = PersonSpec
    removal = "loses every role here, and an account of no other tenant is closed"

    def present(self, tenant: str) -> Iterator[PersonSpec]:
        rows = User.objects.filter(memberships__tenant=tenant).distinct().order_by("username")
        for row in rows:
            yield PersonSpec.model_construct(
                tenant=tenant,
                username=row.username,
                name=row.get_full_name(),
                email=row.email,
                roles=[Role(role) for role in _roles(row, tenant)],
                is_active=row.is_active,
            )

    def rank(self, wanted: PersonSpec) -> int:
        """Operators first: the last one before them may go then."""
        return 0 if Role.OPERATOR in wanted.roles and wanted.is_active else 1

    def edits(self, before: PersonSpec, wanted: PersonSpec) -> Edits:
        edits = super().edits(before, wanted)
        return {name: edit for name, edit in edits.items() if edit[1] is not None}

    def make(self, wanted: PersonSpec, run: Run) -> None:
        """Raises ``ValidationError`` for a name that somebody has, or had."""
        person = User.objects.filter(username=wanted.username).first()
        is_new = person is None
        if person is None:
            about: dict[str, Any] = {"email": wanted.email or "", "name": wanted.name or ""}
            person = accounts.invite(wanted.username, **about, **run.origin)
        self._bring_in_line(person, wanted, run)
        if is_new and wanted.is_active:  # after the roles, which end the links before them
            link = accounts.make_link(person, **run.origin)
            run.made.append((f"link for {wanted.username}, once and within three days", link))

    def change(self, before: PersonSpec, wanted: PersonSpec, edits: Edits, run: Run) -> None:
        self._bring_in_line(User.objects.get(username=wanted.username), wanted, run)

    def _bring_in_line(self, person: User, wanted: PersonSpec, run: Run) -> None:
        """Raises ``Refused, ValidationError``."""
        has, wants = set(_roles(person, wanted.tenant)), set(map(str, wanted.roles))
        stays = Role.OPERATOR in wants and wanted.is_active
        if Role.OPERATOR in has and person.is_active and not stays:
            _check_not_last(person, wanted.tenant)
        for role in sorted(wants - has):
            accounts.give_role(person, wanted.tenant, role, **run.origin)
        for role in sorted(has - wants):
            accounts.take_role(person, wanted.tenant, role, **run.origin)
        changed: dict[str, str] = {}
        if wanted.name is not None and wanted.name.strip() != person.get_full_name():
            first, _space, last = wanted.name.strip().partition(" ")
            changed |= {"first_name": first[:150], "last_name": last[:150]}
        if wanted.email is not None and wanted.email != person.email:
            changed["email"] = wanted.email
        if changed or wanted.is_active != person.is_active:
            _check_is_kept(person, wanted.tenant)
        if changed:
            accounts.relabel(person, changed, **run.origin)
        accounts.set_flag(person, "is_active", wanted.is_active, tenant=wanted.tenant, **run.origin)

    def remove(self, before: PersonSpec, run: Run) -> None:
        """Raises ``Refused`` for the last operator."""
        person = User.objects.get(username=before.username)
        if Role.OPERATOR in before.roles and person.is_active:
            _check_not_last(person, before.tenant)
        is_kept = _is_kept(person, before.tenant)
        for role in before.roles:
            accounts.take_role(person, before.tenant, role, **run.origin)
        if is_kept:
            accounts.set_flag(person, "is_active", False, tenant=before.tenant, **run.origin)


def _roles(person: User, tenant: str) -> list[str]:
    rows = Membership.objects.filter(user=person, tenant=tenant).order_by("role")
    return list(rows.values_list("role", flat=True))


def _check_not_last(person: User, tenant: str) -> None:
    operators = Membership.objects.filter(tenant=tenant, role=Role.OPERATOR, user__is_active=True)
    if not operators.exclude(user=person).exists():
        raise Refused(f"{person.username} is the last operator of {tenant}: make another first.")


def _is_kept(person: User, tenant: str) -> bool:
    elsewhere = Membership.objects.filter(user=person).exclude(tenant=tenant)
    return not (person.is_superuser or person.is_staff or elsewhere.exists())


def _check_is_kept(person: User, tenant: str) -> None:
    if not _is_kept(person, tenant):
        raise Refused(
            f"The account of {person.username} is not of {tenant} alone: write its name, its "
            "address and is_active as they are, or change them on the desk."
        )


# --- groups ---------------------------------------------------------------------------------------


class MemberSpec(Strict):
    person: Username
    starts_at: AwareDatetime | None = None
    ends_at: AwareDatetime | None = None
    in_place_of: Username | None = None

    def is_as(self, row: GroupMember) -> bool:
        """``starts_at`` left out: since whenever."""
        stands_in = str(principal_of(_user(self.in_place_of))) if self.in_place_of else ""
        return (
            str(principal_of(_user(self.person))) == row.person
            and self.starts_at in {None, row.starts_at}
            and self.ends_at == row.ends_at
            and stands_in == row.in_place_of
        )


class GroupSpec(Spec):
    identity = ("name",)

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
    members: list[MemberSpec] = []

    @model_validator(mode="after")
    def _names_each_once(self) -> GroupSpec:
        names = [each.person for each in self.members]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"members: {twice[0]} stands there twice")
        return self

    def facts(self) -> dict[str, Any]:
        members = super().facts()["members"]
        plain = [{name: value for name, value in each.items() if value} for each in members]
        return {"name": self.name, "members": sorted(plain, key=lambda each: str(each["person"]))}

    def needs(self) -> Iterable[Reference]:
        for each in self.members:
            yield "person", each.person
            if each.in_place_of:
                yield "person", each.in_place_of


class Groups(Kind[GroupSpec]):
    """A group stays for good; its members come and go."""

    name = "group"
    spec = GroupSpec
    removal = "loses every member"

    def present(self, tenant: str) -> Iterator[GroupSpec]:
        names = dict(User.objects.values_list("pk", "username"))
        for group in Group.objects.filter(tenant=tenant).order_by("name"):
            members = [
                MemberSpec.model_construct(
                    person=_name(row.person, names),
                    starts_at=row.starts_at,
                    ends_at=row.ends_at,
                    in_place_of=_name(row.in_place_of, names) if row.in_place_of else None,
                )
                for row in _members(group)
            ]
            yield GroupSpec.model_construct(tenant=tenant, name=group.name, members=members)

    def edits(self, before: GroupSpec, wanted: GroupSpec) -> Edits:
        """None where only since when somebody is in it is left out."""
        edits = super().edits(before, wanted)
        since = {each.person: each.starts_at for each in before.members}
        filled = [
            each.model_copy(update={"starts_at": each.starts_at or since.get(each.person)})
            for each in wanted.members
        ]
        return super().edits(before, wanted.model_copy(update={"members": filled})) and edits

    def make(self, wanted: GroupSpec, run: Run) -> None:
        self._bring_in_line(groups.make(wanted.tenant, wanted.name, **run.origin), wanted, run)

    def change(self, before: GroupSpec, wanted: GroupSpec, edits: Edits, run: Run) -> None:
        group = Group.objects.get(tenant=wanted.tenant, name=wanted.name)
        self._bring_in_line(group, wanted, run)

    def remove(self, before: GroupSpec, run: Run) -> None:
        for row in _members(Group.objects.get(tenant=before.tenant, name=before.name)):
            groups.remove(row, **run.origin)

    def is_removable(self, before: GroupSpec) -> bool:
        return bool(before.members)

    def _bring_in_line(self, group: Group, wanted: GroupSpec, run: Run) -> None:
        rows = list(_members(group))
        for row in rows:
            if not any(each.is_as(row) for each in wanted.members):
                groups.remove(row, **run.origin)
        for each in wanted.members:
            if not any(each.is_as(row) for row in rows):
                self._add(group, each, run)

    def _add(self, group: Group, member: MemberSpec, run: Run) -> None:
        """Raises ``Refused, InvalidRequest, NotPossible``."""
        starts_at: datetime = member.starts_at or timezone.now()
        other = member.in_place_of
        groups.add(
            group,
            principal_of(person_named(group.tenant, member.person)),
            starts_at=starts_at,
            ends_at=member.ends_at,
            in_place_of=principal_of(person_named(group.tenant, other)) if other else None,
            **run.origin,
        )


def _members(group: Group) -> Any:
    """Without those whom sign-in with the company keeps by itself."""
    rows = GroupMember.objects.select_related("group").filter(group=group, removed_at=None)
    rows = rows.exclude(added_by=str(company_sign_in.COMPANY))
    return rows.filter(Q(ends_at=None) | Q(ends_at__gt=Now())).order_by("person_name", "pk")


def _user(username: str) -> User:
    person = User.objects.filter(username=username).first()
    if person is None:
        raise Refused(f"There is no account named {username}.")
    return person


def _name(principal: str, names: dict[int, str]) -> str:
    return names.get(Principal.parse(principal).user_key or 0, principal)
