"""Transactions that somebody is about to decide on: the locked row, its history, its keepers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db.models.functions import Now

from ledger.models import Agent, Transaction
from ledger.principals import Principal
from ledger.seals import Link
from ledger.states import State
from ledger.transactions import sign_offs
from ledger.transactions.keepers import agents_of, keepers_of_each


@dataclass(frozen=True, slots=True)
class Case:
    """``agent`` is who decides, if that is an agent; ``keepers`` are those of the proposer."""

    row: Transaction
    links: list[Link]
    agent: Agent | None
    keepers: frozenset[str]


def look_at(deciders: Mapping[UUID, Principal], *, skip_locked: bool = False) -> dict[UUID, Case]:
    """The transactions that may be decided on now, each with who is about to; all are locked.

    Locked in the order of their ids, so that no two of us wait for each other. With
    ``skip_locked`` those are left out that somebody else has locked.
    """
    rows = list(
        Transaction.objects.select_for_update(skip_locked=skip_locked)
        .filter(pk__in=list(deciders), state=State.PREPARED, expires_at__gt=Now())
        .order_by("pk")
    )
    if not rows:
        return {}
    links = sign_offs.links_of_each([row.pk for row in rows])
    names = {str(deciders[row.pk]) for row in rows} | {row.proposed_by for row in rows}
    agents = agents_of(names)
    keepers = keepers_of_each([(row.proposed_by, row.created_at) for row in rows], agents)
    return {
        row.pk: Case(row, links[row.pk], agents.get(str(deciders[row.pk])), kept_by)
        for row, kept_by in zip(rows, keepers, strict=True)
    }
