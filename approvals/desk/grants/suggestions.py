"""Suggestions: what a person keeps approving, and could sign in advance. Never applied by itself.

Only where no money moves, it can be undone and nobody rejected any of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db.models import Count, Max, Q
from django.db.models.functions import Now

from ledger.contracts import ConsequenceLevel, RiskLevel
from ledger.models import Grant, Transaction, TransactionQuerySet, Verdict
from ledger.principals import Surface
from ledger.sign_off import grants

LAST, WEEK = timedelta(days=30), timedelta(days=7)
TAME = [RiskLevel.LOW.value, RiskLevel.MEDIUM.value]
LEAST = 10  # approvals
MOST = 3  # suggestions at once


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Approvals of one person that were so many; ``latest`` is the newest of them."""

    tenant: str
    agent: str
    agent_name: str
    tool: str
    approved: int
    latest: UUID

    @property
    def last_week(self) -> int:
        """The proposals of the last 7 days that a grant would have signed, whatever they are."""
        wanted = grants.Wanted(
            self.tenant,
            self.agent,
            self.tool,
            when={"risk": {"is": TAME}},
            budgets=[{"most": "1000000", "per": "total"}],
            lasts=grants.LONGEST,
        )
        return len(grants.past_of(wanted, WEEK).covered)


def suggestions_for(principal: str, tenants: Iterable[str]) -> list[Suggestion]:
    """For this person, what was approved most first."""
    tame = Q(amount=None, risk_level__in=TAME, evidence__isnull=True)
    by_hand = Q(decisions__principal=principal, decisions__verdict=Verdict.APPROVE) & ~Q(
        decisions__via=Surface.GRANT
    )
    recent = Transaction.objects.filter(tenant__in=[*tenants], decided_at__gt=Now() - LAST)
    own = recent.filter(by_hand, tame, content_erased_at=None)
    own = own.exclude(consequence_level=ConsequenceLevel.IRREVERSIBLE)
    often = (
        own.values("tenant", "proposed_by", "tool")
        .annotate(approved=Count("pk"), name=Max("proposed_by_name"))
        .filter(approved__gte=LEAST)
        .order_by("-approved")
    )
    return [
        Suggestion(
            each["tenant"],
            each["proposed_by"],
            each["name"],
            each["tool"],
            each["approved"],
            _newest(own, each["tenant"], each["proposed_by"], each["tool"]),
        )
        for each in often[: 5 * MOST]
        if not _is_doubted(recent, each["tenant"], each["proposed_by"], each["tool"])
    ][:MOST]


def _newest(own: TransactionQuerySet, tenant: str, agent: str, tool: str) -> UUID:
    same = own.filter(tenant=tenant, proposed_by=agent, tool=tool).order_by("-pk")
    newest: UUID = same.values_list("pk", flat=True)[0]
    return newest


def _is_doubted(recent: TransactionQuerySet, tenant: str, agent: str, tool: str) -> bool:
    """True if somebody rejected some of it, some moved money, or it is signed in advance by now."""
    same = recent.filter(tenant=tenant, proposed_by=agent, tool=tool)
    doubted = same.filter(Q(decisions__verdict=Verdict.REJECT) | ~Q(amount=None))
    return doubted.exists() or Grant.objects.live().about(tenant, agent, tool).exists()
