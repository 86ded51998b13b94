"""The kinds in the order in which they are carried out: each needs only those before it."""

from __future__ import annotations

from django.apps import apps

from approvals.declared import agents, people, skills, tenants, tools
from approvals.declared.kinds import Spec

OPTIONAL = {"git_bus": "a2a.doors.git_bus", "slack_route": "approvals.slack"}


def kinds() -> dict[str, type[Spec]]:
    """By name, without those of apps that are left out, whose tables are not there."""
    every: list[type[Spec]] = [
        tenants.TenantSpec,
        people.PersonSpec,
        agents.AgentSpec,
        agents.TokenSpec,
        tools.CredentialSpec,
        tools.ServerSpec,
        tools.ToolSpec,
        agents.OwnerSpec,
        skills.RemoteSpec,
        skills.SkillSpec,
        people.GroupSpec,
        tools.RulesSpec,
    ]
    if apps.is_installed(OPTIONAL["git_bus"]):
        from approvals.declared.buses import BusSpec

        every.append(BusSpec)
    if apps.is_installed(OPTIONAL["slack_route"]):
        from approvals.declared.routes import RouteSpec

        every.append(RouteSpec)
    return {each.kind: each for each in every}
