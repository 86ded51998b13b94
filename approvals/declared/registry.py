"""The kinds in the order in which they are carried out: each needs only those before it."""

from __future__ import annotations

from typing import Any

from django.apps import apps

from approvals.declared import agents, people, skills, tenants, told, tools
from approvals.declared.kinds import Kind

OPTIONAL = {"git_bus": "a2a.doors.git_bus", "slack_route": "approvals.slack"}


def kinds() -> dict[str, Kind[Any]]:
    """By name, without those of apps that are left out."""
    every: list[Kind[Any]] = [
        tenants.Tenants(),
        people.People(),
        agents.Agents(),
        agents.Tokens(),
        tools.Credentials(),
        tools.Servers(),
        tools.Tools(),
        told.Owners(),
        skills.RemoteAgents(),
        skills.Skills(),
        *_of_git_bus(),
        told.Routes(),
        people.Groups(),
        tools.RuleSets(),
    ]
    left_out = {name for name, app in OPTIONAL.items() if not apps.is_installed(app)}
    return {kind.name: kind for kind in every if kind.name not in left_out}


def _of_git_bus() -> list[Kind[Any]]:
    """Its tables are there only where the app is."""
    if not apps.is_installed(OPTIONAL["git_bus"]):
        return []
    from approvals.declared import buses

    return [buses.Buses()]
