"""Principals of people: from a user or a user name, and back to a name."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import User
from django.utils.translation import gettext as _, gettext_noop

from approvals.models import Membership, Role, UserName
from ledger import principals
from ledger.models import Agent
from ledger.principals import Principal, PrincipalKind


def principal_of(user: User) -> Principal:
    return principals.user(user.pk, name_of(user))


def user_of(principal: str) -> User:
    """The account of a person. Raises ``User.DoesNotExist``."""
    return User.objects.get(pk=Principal.parse(principal).id)


def name_of(user: User) -> str:
    return user.get_full_name() or user.get_username()


def approver_or_operator_named(tenant: str, user_name: str) -> str | None:
    """The principal of an approver or operator with this user name, now or formerly."""
    owner = UserName.objects.filter(name=user_name.lower()).values("user_id")
    roles = Membership.objects.filter(
        user__in=owner, user__is_active=True, tenant=tenant, role__in=[Role.APPROVER, Role.OPERATOR]
    )
    membership = roles.select_related("user").first()
    return str(principal_of(membership.user)) if membership else None


def names_of(written: Iterable[str]) -> list[str]:
    """The display names of these principals, in the same order."""
    parsed = [Principal.parse(text) for text in written]
    keys = [principal.user_key for principal in parsed if principal.user_key is not None]
    people = {str(person.pk): name_of(person) for person in User.objects.filter(pk__in=keys)}
    slugs = [principal.slug for principal in parsed if principal.is_agent]
    agents = {agent.principal.id: agent.name for agent in Agent.objects.filter(slug__in=slugs)}
    names: dict[str, dict[str, str]] = {PrincipalKind.USER: people, PrincipalKind.AGENT: agents}
    return [
        names.get(principal.kind, {}).get(principal.id, _("somebody who is gone"))
        for principal in parsed
    ]


ROLES = {
    Role.VIEWER: gettext_noop("viewer"),
    Role.APPROVER: gettext_noop("manager"),
    Role.OPERATOR: gettext_noop("operator"),
}


def role_in_words(role: str) -> str:
    """The role as people read it; an unknown one as it is."""
    return _(ROLES[Role(role)]) if role in Role.values else role
