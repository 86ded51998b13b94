"""People, Slack, and operators' actions on transactions and tasks in Django's admin."""

from __future__ import annotations

from approvals.admin import (
    bindings,
    bus_requests,
    buses,
    credentials,
    people,
    slack,
    tasks,
    tools,
    transactions,
    upstream_tools,
)

__all__ = [
    "bindings",
    "bus_requests",
    "buses",
    "credentials",
    "people",
    "slack",
    "tasks",
    "tools",
    "transactions",
    "upstream_tools",
]
