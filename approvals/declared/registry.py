"""The kinds in the order in which they are carried out: each needs only those before it."""

from __future__ import annotations

from django.apps import apps

from approvals.declared import agents, people, skills, tenants, told, tools
from approvals.declared.kinds import Spec

OPTIONAL = {"git_bus": "a2a.doors.git_bus", "slack_route": "approvals.slack"}


def kinds() -> dict[str, type[Spec]]:
    """By name, without those of apps that are left out."""
    every: list[type[Spec]] = [
        tenants.TenantSpec,
        people.PersonSpec,
        agents.AgentSpec,
        agents.TokenSpec,
        tools.CredentialSpec,
        tools.ServerSpec,
        tools.ToolSpec,
        told.OwnerSpec,
        skills.RemoteSpec,
        skills.SkillSpec,
        *_of_git_bus(),
        told.RouteSpec,
        people.GroupSpec,
        tools.RulesSpec,
    ]
    left_out = {name for name, app in OPTIONAL.items() if not apps.is_installed(app)}
    return {each.kind: each for each in every if each.kind not in left_out}


def _of_git_bus() -> list[type[Spec]]:
    """Its tables are there only where the app is."""
    if not apps.is_installed(OPTIONAL["git_bus"]):
        return []
    from approvals.declared import buses

    return [buses.BusSpec]
