"""The people who answer for an agent: none of them signs off or settles what it proposed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ledger import seals
from ledger.errors import NotAllowed
from ledger.events import ChangeKind, chain_of
from ledger.models import Agent, Event, Transaction
from ledger.principals import Principal

# An event has the time at which its database transaction began.
TOLERANCE = timedelta(minutes=1)


def agents_of(principals: Iterable[str]) -> dict[str, Agent]:
    """Those of them that are agents we know, by principal."""
    wanted = {name: by for name in principals if (by := Principal.parse(name)).is_agent}
    if not wanted:
        return {}
    rows = Agent.objects.filter(
        tenant__in={by.tenant for by in wanted.values()},
        slug__in={by.slug for by in wanted.values()},
    )
    known = {str(row.principal): row for row in rows}
    return {name: known[name] for name in wanted if name in known}


def keepers_of(principal: str, since: datetime) -> frozenset[str]:
    """Everybody who has kept the agent since then; empty for nobody, and for who is no agent."""
    [keepers] = keepers_of_each([(principal, since)], agents_of([principal]))
    return keepers


def keepers_of_each(
    wanted: Sequence[tuple[str, datetime]], agents: Mapping[str, Agent]
) -> list[frozenset[str]]:
    """The same of many, whose agents have been read."""
    edits = _edits_of([(name, since) for name, since in wanted if name in agents])
    keepers = []
    for name, since in wanted:
        earlier = {edit for at, edit in edits.get(name, ()) if at >= since - TOLERANCE}
        present = agents[name].kept_by if name in agents else ""
        keepers.append(frozenset({present, *earlier} - {""}))
    return keepers


def _edits_of(wanted: Sequence[tuple[str, datetime]]) -> dict[str, list[tuple[datetime, str]]]:
    """By agent, when its keeper was replaced, and who that was."""
    if not wanted:
        return {}
    names = {chain_of(name): name for name, _ in wanted}
    changes = Event.objects.filter(
        subject__in=list(names),
        kind=ChangeKind.AGENT_CHANGED,
        at__gte=min(since for _, since in wanted) - TOLERANCE,
    )
    edits: dict[str, list[tuple[datetime, str]]] = {}
    for subject, at, details in changes.values_list("subject", "at", "details"):
        edit = json.loads(details)["edits"]
        if "kept_by" in edit:
            edits.setdefault(names[subject], []).append((at, edit["kept_by"][0]))
    return edits


def sealed_keepers(row: Transaction, by: Principal) -> dict[str, Any]:
    """Members of the event of an operator's order. Raises ``NotAllowed`` for a keeper's."""
    keepers = keepers_of(row.proposed_by, row.created_at)
    if str(by) in keepers and not row.keeper_may_sign:
        raise NotAllowed("You keep the agent that proposed it; somebody else has to do that.")
    return {seals.PROPOSER_KEPT_BY: sorted(keepers)} if keepers else {}
