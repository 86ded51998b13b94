"""Transactions that somebody is about to decide on: the locked row, its history, its keepers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import Now

from ledger.agents import Citation, agents_of, keepers_of_each, sealed_citation
from ledger.contracts import ConsequenceLevel
from ledger.errors import EvidenceChanged, NotAllowed, Sentence
from ledger.events.brakes import refuse_stopped
from ledger.models import Agent, Tenant, Transaction, contents_of, not_stopped
from ledger.principals import Principal
from ledger.seals import Link
from ledger.sign_off import groups
from ledger.sign_off.rules import set_of
from ledger.states import State
from ledger.tools import acts_itself, is_for_agent
from ledger.transactions import sign_offs, votes
from ledger.transactions.deadlines import is_put_off


@dataclass(frozen=True, slots=True)
class Case:
    """``agent`` is who decides, if that is an agent; ``keepers`` are those of the proposer."""

    row: Transaction
    links: list[Link]
    agent: Agent | None
    keepers: frozenset[str]
    # Groups of the decider, each with whom they stand in for; read where there are rules.
    groups: Mapping[str, str]
    has_active_rules: bool
    at: datetime  # by the database's clock

    def seals_of_agent(self, by: Principal, policy: Citation | None) -> dict[str, Any]:
        """Members that the event and the row have of an agent's decision: keeper and policy."""
        if not by.is_agent:
            return {}
        members: dict[str, Any] = {"kept_by": "" if self.agent is None else self.agent.kept_by}
        if policy is not None:
            members["policy"] = sealed_citation(self.row.tenant, policy)
        return members

    def seals_of_approval(self, *, typed: bool) -> dict[str, Any]:
        """The groups of the voter, whom they stand in for there, and that it was typed."""
        stands_in = {group: other for group, other in self.groups.items() if other}
        return {
            **({"groups": sorted(self.groups)} if self.groups else {}),
            **({"in_place_of": stands_in} if stands_in else {}),
            **({"typed": True} if typed else {}),
        }

    def undo_seconds(self, wanted: int) -> int:
        """For how long an approval can be withdrawn; 0 unless a worker carries it out, and what
        that does is not irreversible."""
        is_final = self.row.consequence_level == ConsequenceLevel.IRREVERSIBLE
        if is_final or is_for_agent(self.row) or acts_itself(self.row):
            return 0
        return min(wanted, votes.MOST_UNDO_S)


def look_at(deciders: Mapping[UUID, Principal], *, skip_locked: bool = False) -> dict[UUID, Case]:
    """The transactions that may be decided on now, each with who is about to; all are locked.

    Locked in the order of their ids, so that no two of us wait for each other. With
    ``skip_locked`` those are left out that somebody else has locked.
    """
    rows = list(
        Transaction.objects.select_for_update(skip_locked=skip_locked)
        .filter(pk__in=list(deciders), state=State.PREPARED, expires_at__gt=Now())
        .annotate(active_rules=_active_rules(), is_stopped=~Q(not_stopped()), at=Now())
        .order_by("pk")
    )
    if not rows:
        return {}
    links = sign_offs.links_of_each([row.pk for row in rows])
    names = {str(deciders[row.pk]) for row in rows} | {row.proposed_by for row in rows}
    agents = agents_of(names)
    by_rules = {(row.tenant, str(deciders[row.pk])) for row in rows if row.terms is not None}
    in_groups = {pair: groups.groups_of(*pair) for pair in by_rules}
    keepers = keepers_of_each([(row.proposed_by, row.created_at) for row in rows], agents)
    return {
        row.pk: Case(
            row,
            links[row.pk],
            agents.get(str(deciders[row.pk])),
            kept_by,
            in_groups.get((row.tenant, str(deciders[row.pk])), {}),
            set_of(row.terms) == (getattr(row, "active_rules", None) or 0),
            vars(row)["at"],
        )
        for row, kept_by in zip(rows, keepers, strict=True)
    }


def _active_rules() -> Subquery:
    return Subquery(Tenant.objects.filter(slug=OuterRef("tenant")).values("rule_set"))


def look_at_one(transaction_id: UUID, by: Principal) -> Case | None:
    """The same of one; its deadline is moved first, where a brake stopped it and time counts: it
    has passed, or others may sign once so much has."""
    case = look_at({transaction_id: by}).get(transaction_id)
    time_counts = case is None or bool((case.row.terms or {}).get("widen"))
    if time_counts and is_put_off(transaction_id):
        return look_at({transaction_id: by}).get(transaction_id)
    return case


def check_evidence(row: Transaction, by: Principal) -> None:
    """Raises ``EvidenceChanged`` where what is stored is not what was sealed, and ``NotAllowed``
    for an agent: it is shown none of it, and so approves none of it."""
    if by.is_agent:
        raise NotAllowed(
            Sentence("It has evidence that only people are shown."),
            hint=Sentence("Nothing was decided. Reject it, or pass it on to people."),
        )
    for sealed, content in zip(row.evidence or [], contents_of(row), strict=True):
        if content is None:
            text = Sentence("The evidence “{name}” was changed.", name=sealed["name"])
            raise EvidenceChanged(text, snapshot=row)


def check_is_not_stopped(row: Transaction) -> None:
    """Raises ``Paused``."""
    if getattr(row, "is_stopped", True):  # as ``look_at`` has read it
        refuse_stopped(row.tenant, row.proposed_by, row.tool, row)
