"""Where a message goes: of the routes that match, the most specific ones."""

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
    """Nowhere for what passes by policy."""
    if row.required_approver == RequiredApprover.NONE:
        return []
    routes = _routes(row.tenant, Concern.TRANSACTIONS, row.tool, row.owner_service)
    return _places([route for route in routes if _is_grave_enough(route, row.risk_level)])


def places_for_question(question: Question) -> list[Place]:
    """Nowhere for what only the agent that submitted the task may answer."""
    if set(question.may_answer) <= {CLIENT}:
        return []
    routes = _routes(question.tenant, Concern.QUESTIONS, question.task.skill_slug)
    return _places([route for route in routes if not route.min_risk])


def _routes(tenant: str, concern: Concern, tool: str, owner: str = "") -> list[SlackRoute]:
    found = SlackRoute.objects.filter(
        Q(tool="") | Q(tool=tool),
        Q(owner="") | Q(owner=owner),
        tenant=tenant,
        workspace__tenants=tenant,
        concerns__in=[concern, Concern.EVERYTHING],
    )
    return list(found.select_related("workspace").order_by("pk"))


def _is_grave_enough(route: SlackRoute, risk: str) -> bool:
    return not route.min_risk or RISKS.index(risk) >= RISKS.index(route.min_risk)


def _places(routes: list[SlackRoute]) -> list[Place]:
    """A route that names the tool beats one that does not, then one that names the service that
    owns it; then the higher risk counts.

    A route to a person who cannot be written to counts as if it were not there.
    """
    reachable = [(route, place) for route in routes if (place := _place(route)) is not None]
    best = max((_specificity(route) for route, _ in reachable), default=None)
    found: dict[tuple[int, str], Place] = {}
    for route, place in reachable:
        if _specificity(route) == best:
            found.setdefault((place.workspace.pk, place.target), place)
    return list(found.values())


def _specificity(route: SlackRoute) -> tuple[bool, bool, int]:
    risk = RISKS.index(route.min_risk) if route.min_risk else -1
    return bool(route.tool), bool(route.owner), risk


def _place(route: SlackRoute) -> Place | None:
    target = route.channel or _direct_messages_of(route)
    if not target:
        return None
    return Place(route.workspace, target, route.escalate_to, route.escalate_after)


def _direct_messages_of(route: SlackRoute) -> str:
    """Of an approver who is linked, and who still has a say in the tenant."""
    has_a_say = Membership.objects.filter(
        tenant=route.tenant_id, role__in=[Role.APPROVER, Role.OPERATOR]
    )
    identity = SlackIdentity.objects.filter(
        workspace=route.workspace,
        user=route.approver_id,
        user__is_active=True,
        user__memberships__in=has_a_say,
    ).first()
    return identity.slack_user_id if identity else ""
