"""Routing of a message to a place: the most specific of the routes that match."""

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
class Place:
    """One channel, or one person's direct messages, of one workspace."""

    workspace: SlackWorkspace
    target: str
    escalate_to: str = ""
    escalate_after: timedelta | None = None


def places_for(row: Transaction) -> list[Place]:
    """Places to post a transaction to; none if policy approves it without a person."""
    if row.required_approver == RequiredApprover.NONE:
        return []
    routes = _routes(row.tenant, Concern.TRANSACTIONS, row.tool, row.owner_service)
    return _places([route for route in routes if _reaches_min_risk(route, row.risk_level)])


def places_for_question(question: Question) -> list[Place]:
    """Places to post a question to; none if only the agent that submitted the task may answer."""
    if set(question.may_answer) <= {CLIENT}:
        return []
    routes = _routes(question.tenant, Concern.QUESTIONS, question.task.skill_slug)
    return _places([route for route in routes if not route.min_risk])


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


def _places(routes: list[SlackRoute]) -> list[Place]:
    """The places of the most specific routes, each place once.

    A route to a person who cannot get direct messages is ignored.
    """
    reachable = [(route, place) for route in routes if (place := _place(route)) is not None]
    best = max((_specificity(route) for route, _ in reachable), default=None)
    places: dict[tuple[int, str], Place] = {}
    for route, place in reachable:
        if _specificity(route) == best:
            places.setdefault((place.workspace.pk, place.target), place)
    return list(places.values())


def _specificity(route: SlackRoute) -> tuple[bool, bool, int]:
    """A route that names the tool comes first, then one that names the owning service, then the
    one with the highest minimum risk."""
    risk = RISKS.index(route.min_risk) if route.min_risk else -1
    return bool(route.tool), bool(route.owner), risk


def _place(route: SlackRoute) -> Place | None:
    target = route.channel or _direct_messages_of(route)
    if not target:
        return None
    return Place(route.workspace, target, route.escalate_to, route.escalate_after)


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
