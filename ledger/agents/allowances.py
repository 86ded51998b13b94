"""Which tools an agent may use: those of its tenant, its own, and of a token its scopes.

What is not allowed is answered like what does not exist.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db import connection

from ledger import contracts
from ledger.contracts import Tool
from ledger.database import prepared_statements
from ledger.errors import UnknownTool
from ledger.models.agents import ALL_TOOLS, Scope
from ledger.principals import Principal

# What a scope begins with that is for proposing with one tool.
ONE_TOOL = f"{Scope.PROPOSE.value}:"

_ALLOWED = """
    SELECT tenant.tools, agent.tools
    FROM ledger_tenant tenant
    LEFT JOIN ledger_agent agent ON agent.tenant_id = tenant.slug AND agent.slug = %s
    WHERE tenant.slug = %s
"""


def allowed_tools(by: Principal, tenant: str) -> frozenset[str]:
    """The names of tools, both kinds, that an agent may use at all. A new tenant has none."""
    with prepared_statements.kept(), connection.cursor() as cursor:
        cursor.execute(_ALLOWED, [by.slug if by.tenant == tenant else "", tenant])
        row = cursor.fetchone()
    names = frozenset(contracts.tools) | frozenset(contracts.readonly_tools)
    # Agents are never deleted; where there is no row, its tenant's list stands alone.
    for allowed in row or [[]]:
        if allowed is not None and ALL_TOOLS not in allowed:
            names &= frozenset(allowed)
    return names


def covers(scopes: Collection[str], wanted: str) -> bool:
    """Whether the scopes have the one that is wanted; ``propose:<tool>`` is ``propose`` for one."""
    if wanted in scopes:
        return True
    return wanted == Scope.PROPOSE and any(name.startswith(ONE_TOOL) for name in scopes)


def may_propose(scopes: Collection[str], tool: str) -> bool:
    return Scope.PROPOSE in scopes or f"{ONE_TOOL}{tool}" in scopes


def narrowed(scopes: frozenset[str], asked: Collection[str]) -> frozenset[str]:
    """Those of the scopes that are asked for, never more: of two of one kind the narrower."""
    asked = frozenset(asked)
    both = scopes & asked
    for some, others in ((scopes, asked), (asked, scopes)):
        if Scope.PROPOSE in some:
            both |= {name for name in others if name.startswith(ONE_TOOL)}
    return both


def unknown(name: str) -> UnknownTool:
    return UnknownTool(f"There is no tool named {name!r:.80} that this agent may use.")


def tool_for(by: Principal, tenant: str, name: str) -> Tool[Any, Any]:
    """Raises ``UnknownTool``, whether it does not exist or may not be used."""
    tool = contracts.tools.get(name)
    if tool is None or name not in allowed_tools(by, tenant):
        raise unknown(name)
    return tool
