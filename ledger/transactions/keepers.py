"""The people who answer for an agent: none of them signs off or settles what it proposed."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from ledger import seals
from ledger.errors import NotAllowed
from ledger.events import ChangeKind, chain_of
from ledger.models import Agent, Event, Transaction
from ledger.principals import Principal

# An event has the time at which its database transaction began.
TOLERANCE = timedelta(minutes=1)


def agent_of(by: Principal) -> Agent | None:
    if not by.is_agent:
        return None
    return Agent.objects.filter(tenant=by.tenant, slug=by.slug).first()


def keepers_of(principal: str, since: datetime) -> frozenset[str]:
    """Everybody who has kept the agent since then; empty for nobody, and for who is no agent."""
    agent = agent_of(Principal.parse(principal))
    if agent is None:
        return frozenset()
    changes = Event.objects.filter(
        subject=chain_of(principal), kind=ChangeKind.AGENT_CHANGED, at__gte=since - TOLERANCE
    )
    edits = [json.loads(details)["edits"] for details in changes.values_list("details", flat=True)]
    earlier = {edit["kept_by"][0] for edit in edits if "kept_by" in edit}
    return frozenset({agent.kept_by, *earlier} - {""})


def sealed_keepers(row: Transaction, by: Principal) -> dict[str, Any]:
    """Members of the event of an operator's order. Raises ``NotAllowed`` for a keeper's."""
    keepers = keepers_of(row.proposed_by, row.created_at)
    if str(by) in keepers and not row.keeper_may_sign:
        raise NotAllowed("You keep the agent that proposed it; somebody else has to do that.")
    return {seals.PROPOSER_KEPT_BY: sorted(keepers)} if keepers else {}
