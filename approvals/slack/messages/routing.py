"""Routing of a message to a destination: the most specific of the routes that match."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Q

from a2a.models import Question
from a2a.models.answerers import CLIENT
from approvals.models import (
    RISKS,
    Concern,
    Membership,
    Role,
    SlackIdentity,
    SlackRoute,
    SlackWorkspace,
)
from ledger.contracts import RequiredApprover
from ledger.models import Transaction


@dataclass(frozen=True, slots=True)
class Destination:
    """One channel, or one person's direct messages, of one workspace."""

    workspace: SlackWorkspace
    target: str
    escalate_to: str = ""
    escalate_after: timedelta | None = None


def destinations_for(row: Transaction) -> list[Destination]:
    """Destinations of a transaction; none if policy approves it without a person."""
    if row.required_approver == RequiredApprover.NONE:
        return []
    routes = _routes(row.tenant, Concern.TRANSACTIONS, row.tool, row.owner_service)
    return _destinations([route for route in routes if _reaches_min_risk(route, row.risk_level)])


def destinations_for_question(question: Question) -> list[Destination]:
    """Destinations of a question; none if only the agent that submitted the task may answer."""
    if set(question.may_answer) <= {CLIENT}:
        return []
    routes = _routes(question.tenant, Concern.QUESTIONS, question.task.skill_slug)
    return _destinations([route for route in routes if not route.min_risk])


def _routes(tenant: str, concern: Concern, tool: str, owner: str = "") -> list[SlackRoute]:
    routes = SlackRoute.objects.filter(
        Q(tool="") | Q(tool=tool),
        Q(owner="") | Q(owner=owner),
        tenant=tenant,
        workspace__tenants=tenant,
        concerns__in=[concern, Concern.EVERYTHING],
    )
    return list(routes.select_related("workspace").order_by("pk"))


def _reaches_min_risk(route: SlackRoute, risk: str) -> bool:
    return not route.min_risk or RISKS.index(risk) >= RISKS.index(route.min_risk)


def _destinations(routes: list[SlackRoute]) -> list[Destination]:
    """The destinations of the most specific routes, each once.

    A route to a person who cannot get direct messages is ignored.
    """
    reachable = [
        (route, destination)
        for route in routes
        if (destination := destination_of(route)) is not None
    ]
    best = max((_specificity(route) for route, _ in reachable), default=None)
    destinations: dict[tuple[int, str], Destination] = {}
    for route, destination in reachable:
        if _specificity(route) == best:
            destinations.setdefault((destination.workspace.pk, destination.target), destination)
    return list(destinations.values())


def _specificity(route: SlackRoute) -> tuple[bool, bool, int]:
    """A route that names the tool comes first, then one that names the owning service, then the
    one with the highest minimum risk."""
    risk = RISKS.index(route.min_risk) if route.min_risk else -1
    return bool(route.tool), bool(route.owner), risk


def destination_of(route: SlackRoute) -> Destination | None:
    """``None`` for a person who cannot get direct messages."""
    target = route.channel or _direct_messages_of(route)
    if not target:
        return None
    return Destination(route.workspace, target, route.escalate_to, route.escalate_after)


def _direct_messages_of(route: SlackRoute) -> str:
    """The Slack user of the route's approver; empty unless linked and still with a role."""
    memberships = Membership.objects.filter(
        tenant=route.tenant_id, role__in=[Role.APPROVER, Role.OPERATOR]
    )
    identity = SlackIdentity.objects.filter(
        workspace=route.workspace,
        user=route.approver_id,
        user__is_active=True,
        user__memberships__in=memberships,
    ).first()
    return identity.slack_user_id if identity else ""
