"""Agents at their limits, and what was refused lately, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Max, Sum
from django.db.models.functions import Now

from ledger import limits
from ledger.limits import MEANINGS, Limit, Of
from ledger.limits.stocks import every
from ledger.models import Agent, LimitRefusal

NEAR = 0.8  # of a limit
RECENTLY = timedelta(hours=1)
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Fill:
    """The amount that an agent has of what its limit counts."""

    name: str
    tenant: str
    unit: str
    number: int
    most: int

    @property
    def is_full(self) -> bool:
        return self.number >= self.most


def agents_near_a_limit(tenants: frozenset[str]) -> list[Fill]:
    """The agents that have at least four fifths of what they may have open, fullest first."""
    names = {str(agent.principal): agent for agent in Agent.objects.filter(tenant__in=tenants)}
    fills = []
    for limit, stock in every.items():
        for tenant, principal, number in stock.held_by_agents(tenants):
            agent = names.get(principal)
            own = agent.limits.get(limit) if agent is not None else None
            most = own or limits.default(limit, Of.AGENT)
            if number >= NEAR * most:
                name = agent.name if agent is not None else principal
                fills.append(Fill(name, tenant, MEANINGS[limit].unit, number, most))
    return sorted(fills, key=lambda fill: -fill.number / fill.most)[:SHOWN]


def recent_refusals(tenants: frozenset[str]) -> list[dict[str, Any]]:
    """Refusals of the last hour, by limit and agent; of addresses, in all tenants."""
    rows = LimitRefusal.objects.filter(minute__gte=Now() - RECENTLY, tenant__in=[*tenants, ""])
    counted = rows.values("limit", "of", "tenant", "agent").annotate(
        number=Sum("number"), last=Max("minute")
    )
    return [
        {**row, "unit": MEANINGS[Limit(row["limit"])].unit, "of": Of(row["of"]).label}
        for row in counted.order_by("-number")[:SHOWN]
        if row["limit"] in set(Limit)
    ]
