"""People of a tenant and their roles, and the groups in which they sign."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from django.contrib.auth.models import User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.validators import validate_email
from django.utils import timezone
from pydantic import AfterValidator, Field

from approvals.declared.kinds import Edits, Moment, Reference, Refused, Run, Spec, Strict, checked
from approvals.models import Membership, Role
from approvals.people import accounts, company_sign_in, principal_of
from ledger.models import Group, GroupMember
from ledger.sign_off import groups

Username = Annotated[
    str,
    Field(max_length=150),
    checked(UnicodeUsernameValidator()),
    AfterValidator(User.normalize_username),
]
Email = Annotated[
    str,
    Field(max_length=254),
    checked(lambda address: validate_email(address) if address else None),
]


def person_named(tenant: str, username: str) -> User:
    """Somebody with a role in the tenant. Raises ``ObjectDoesNotExist`` for everybody else."""
    return User.objects.filter(memberships__tenant=tenant).distinct().get(username=username)


def usernames() -> dict[str, str]:
    """By principal."""
    return {str(principal_of(person)): person.username for person in User.objects.all()}


class PersonSpec(Spec):
    """Roles are of the tenant. The account is of all its tenants: only where it is of this one
    alone, and no superuser's, a document changes its name, its address, and whether it is open."""

    kind = "person"
    identity = ("username",)
    stays = frozenset({"name", "email"})
    removal = "loses every role here, and an account of no other tenant is closed"

    username: Username
    name: Annotated[str, Field(max_length=150), AfterValidator(str.strip)] | None = None
    email: Email | None = None
    roles: Annotated[
        list[Role],
        Field(min_length=1),
        AfterValidator(lambda roles: sorted(set(roles))),
    ]
    is_active: bool = True

    @classmethod
    def rows(cls, tenant: str) -> Any:
        rows = User.objects.filter(memberships__tenant=tenant).distinct()
        return rows.order_by("username").prefetch_related("memberships")

    @classmethod
    def present(cls, tenant: str) -> Iterable[PersonSpec]:
        for row in cls.rows(tenant):
            roles = [each.role for each in row.memberships.all() if each.tenant_id == tenant]
            about = {"name": row.get_full_name(), "roles": sorted(map(Role, roles))}
            yield cls.of(row, tenant=tenant, **about)

    def rank(self) -> int:
        """Operators first: the last one before them may go then."""
        return 0 if Role.OPERATOR in self.roles and self.is_active else 1

    def make(self, run: Run) -> None:
        """Raises ``ValidationError`` for a name that somebody has, or had."""
        person = User.objects.filter(username=self.username).first()
        if person is not None:
            self._bring_in_line(person, set(), run)
            return
        about: dict[str, Any] = {"email": self.email or "", "name": self.name or ""}
        person = accounts.invite(self.username, **about, **run.origin)
        self._bring_in_line(person, set(), run)
        if self.is_active:  # after the roles, which end the links before them
            link = accounts.make_link(person, **run.origin)
            run.made.append((f"link for {self.username}, once and within three days", link))

    def change(self, before: PersonSpec, edits: Edits, run: Run) -> None:
        self._bring_in_line(self.row(), set(before.roles), run)

    def _bring_in_line(self, person: User, has: set[Role], run: Run) -> None:
        """Raises ``Refused, ValidationError``."""
        if Role.OPERATOR in has and person.is_active and self.rank() > 0:
            _check_not_last(person, self.tenant)
        for role in sorted(set(self.roles) - has):
            accounts.give_role(person, self.tenant, role, **run.origin)
        for role in sorted(has - set(self.roles)):
            accounts.take_role(person, self.tenant, role, **run.origin)
        changed: dict[str, str] = {}
        if self.name is not None and self.name != person.get_full_name():
            first, _space, last = self.name.partition(" ")
            changed |= {"first_name": first, "last_name": last}
        if self.email is not None and self.email != person.email:
            changed["email"] = self.email
        if (changed or self.is_active != person.is_active) and not _is_of_it(person, self.tenant):
            raise Refused(
                f"The account of {person.username} is not of {self.tenant} alone: write its name, "
                "its address and is_active as they are, or change them on the desk."
            )
        if changed:
            accounts.relabel(person, changed, **run.origin)
        accounts.set_flag(person, "is_active", self.is_active, tenant=self.tenant, **run.origin)

    def remove(self, run: Run) -> None:
        """Raises ``Refused`` for the last operator."""
        person = self.row()
        if Role.OPERATOR in self.roles and person.is_active:
            _check_not_last(person, self.tenant)
        is_of_it = _is_of_it(person, self.tenant)
        for role in self.roles:
            accounts.take_role(person, self.tenant, role, **run.origin)
        if is_of_it:
            accounts.set_flag(person, "is_active", False, tenant=self.tenant, **run.origin)

    def is_removable(self) -> bool:
        return True


def _check_not_last(person: User, tenant: str) -> None:
    operators = Membership.objects.filter(tenant=tenant, role=Role.OPERATOR, user__is_active=True)
    if not operators.exclude(user=person).exists():
        raise Refused(f"{person.username} is the last operator of {tenant}: make another first.")


def _is_of_it(person: User, tenant: str) -> bool:
    """True if the account is of this tenant alone, and has no rights beyond it."""
    elsewhere = Membership.objects.filter(user=person).exclude(tenant=tenant)
    return not (person.is_superuser or person.is_staff or elsewhere.exists())


# --- groups ---------------------------------------------------------------------------------------


class MemberSpec(Strict):
    """``starts_at`` left out: since whenever."""

    person: Username
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    in_place_of: Username | None = None

    def has_ended(self) -> bool:
        return self.ends_at is not None and self.ends_at <= timezone.now()


def _left(members: list[MemberSpec]) -> list[MemberSpec]:
    """Without those that have ended, as those in old files have."""
    names = [each.person for each in members]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{twice[0]} stands there twice")
    left = [each for each in members if not each.has_ended()]
    return sorted(left, key=lambda each: each.person)


class GroupSpec(Spec):
    """A group stays for good; its members come and go."""

    kind = "group"
    identity = ("name",)
    paths = {"tenant": "tenant"}
    removal = "loses every member"

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
    members: Annotated[list[MemberSpec], AfterValidator(_left)] = []

    def facts(self) -> dict[str, Any]:
        members = super().facts()["members"]
        plain = [{name: value for name, value in each.items() if value} for each in members]
        return {"name": self.name, "members": plain}

    def needs(self) -> Iterable[Reference]:
        for each in self.members:
            yield "person", each.person
            if each.in_place_of:
                yield "person", each.in_place_of

    @classmethod
    def rows(cls, tenant: str) -> Any:
        return Group.objects.filter(tenant=tenant).order_by("name")

    @classmethod
    def present(cls, tenant: str) -> Iterable[GroupSpec]:
        names = usernames()
        for row in cls.rows(tenant):
            members = [_as_member(each, names) for each in _members(row)]
            yield cls.of(row, members=_left(members))

    def edits(self, before: GroupSpec) -> Edits:
        return super(GroupSpec, self._filled(before)).edits(before)

    def make(self, run: Run) -> None:
        groups.make(self.tenant, self.name, **run.origin)
        self.bring_in_line(run)

    def change(self, before: GroupSpec, edits: Edits, run: Run) -> None:
        """Raises ``Refused, InvalidRequest, NotPossible``."""
        group, names = self.row(), usernames()
        wanted = self._filled(before).members
        for row in _members(group):
            if _as_member(row, names) not in wanted:
                groups.remove(row, **run.origin)
        for each in wanted:
            if each not in before.members:
                other = each.in_place_of
                groups.add(
                    group,
                    principal_of(person_named(self.tenant, each.person)),
                    starts_at=each.starts_at or timezone.now(),
                    ends_at=each.ends_at,
                    in_place_of=principal_of(person_named(self.tenant, other)) if other else None,
                    **run.origin,
                )

    def remove(self, run: Run) -> None:
        self.model_copy(update={"members": []}).change(self, {}, run)

    def is_removable(self) -> bool:
        return bool(self.members)

    def _filled(self, before: GroupSpec) -> GroupSpec:
        """With since when those are in it of whom the document does not say it."""
        since = {each.person: each.starts_at for each in before.members}
        members = [
            each.model_copy(update={"starts_at": each.starts_at or since.get(each.person)})
            for each in self.members
        ]
        return self.model_copy(update={"members": members})


def _members(group: Group) -> Any:
    """Without those whom sign-in with the company keeps by itself."""
    rows = GroupMember.objects.select_related("group").filter(group=group, removed_at=None)
    return rows.exclude(added_by=str(company_sign_in.COMPANY)).order_by("person_name", "pk")


def _as_member(row: GroupMember, names: dict[str, str]) -> MemberSpec:
    stands_in = row.in_place_of
    return MemberSpec.model_construct(
        person=names.get(row.person, row.person),
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        in_place_of=names.get(stands_in, stands_in) or None,
    )
