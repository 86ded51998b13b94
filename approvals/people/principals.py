"""Principals of people: from a request, a Slack click or a user name, and back to a name."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import User

from approvals.models import Membership, Role, UserName
from ledger import principals
from ledger.models import Agent
from ledger.principals import Principal


def principal_of(user: User) -> Principal:
    return principals.user(user.pk, name_of(user))


def name_of(user: User) -> str:
    return user.get_full_name() or user.get_username()


def who_may_act(tenant: str, user_name: str) -> str | None:
    """The principal of an approver or operator by one of the names that were ever theirs."""
    owner = UserName.objects.filter(name=user_name.lower()).values("user_id")
    roles = Membership.objects.filter(
        user__in=owner, user__is_active=True, tenant=tenant, role__in=[Role.APPROVER, Role.OPERATOR]
    )
    membership = roles.select_related("user").first()
    return str(principal_of(membership.user)) if membership else None


def names_of(written: Iterable[str]) -> list[str]:
    """What people call these principals, in their order."""
    ids = [one.partition(":") for one in written]
    keys = [int(key) for kind, _, key in ids if kind == "user" and key.isdecimal()]
    people = {str(person.pk): name_of(person) for person in User.objects.filter(pk__in=keys)}
    slugs = [key.partition("/")[2] for kind, _, key in ids if kind == "agent"]
    agents = {one.principal.id: one.name for one in Agent.objects.filter(slug__in=slugs)}
    names = {"user": people, "agent": agents}
    return [names.get(kind, {}).get(key, "somebody who is gone") for kind, _, key in ids]
