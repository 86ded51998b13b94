"""Votes on a transaction so far, and whose is next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Prefetch

from approvals.desk import policies
from approvals.models import Membership, Role
from approvals.people import principal_of
from ledger.models import Transaction
from ledger.states import State

# The people who may vote, as principals with their names, by tenant.
Voters = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Votes:
    """The votes on one transaction that takes several people."""

    given: int
    needed: int
    next: tuple[str, ...] = ()  # names of those who may give the next one

    @property
    def dots(self) -> list[bool]:
        return [number < self.given for number in range(self.needed)]

    @property
    def next_name(self) -> str:
        """The name of the next voter, if only one person can vote."""
        return self.next[0] if len(self.next) == 1 else ""


def voters_of(rows: Iterable[Transaction]) -> Voters:
    """The people who may vote on the rows that take several people, in two queries at most."""
    tenants = {row.tenant for row in rows if row.quorum > 1 and row.state == State.PREPARED}
    names: dict[str, dict[str, str]] = defaultdict(dict)
    if tenants:
        memberships = Membership.objects.filter(
            tenant__in=tenants, role=Role.APPROVER, user__is_active=True
        ).prefetch_related(Prefetch("user", User.objects.order_by("first_name")))
        for membership in memberships:
            person = principal_of(membership.user)
            names[membership.tenant_id][str(person)] = person.name
    return names


def votes_of(row: Transaction, voters: Voters) -> Votes | None:
    """The votes on a row that waits for several people; ``None`` for any other."""
    if row.quorum < 2 or row.state != State.PREPARED:
        return None
    given = row.quorum - policies.missing_approvals(row)
    voted = {decision.principal for decision in row.decisions.all()}
    voted |= {row.proposed_by, *policies.barred_keepers_of(row)}
    left = [
        name for principal, name in voters.get(row.tenant, {}).items() if principal not in voted
    ]
    # Who is in which group would take a query for each row; the item says it.
    groups = [name for name in row.open_seats or () if name]
    return Votes(given, row.quorum, tuple(groups or left))
