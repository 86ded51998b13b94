"""The kinds in the order in which they are carried out: each needs only those before it."""

from __future__ import annotations

from typing import Any

from approvals.declared.kinds import Kind

OPTIONAL = {"git_bus": "a2a.doors.git_bus", "slack_route": "approvals.slack"}


def kinds() -> dict[str, Kind[Any]]:
    """By name, without those of apps that are left out."""
    from approvals.declared import agents, people, tenants

    every: list[Kind[Any]] = [
        tenants.Tenants(),
        people.People(),
        agents.Agents(),
        agents.Tokens(),
    ]
    return {kind.name: kind for kind in every}
