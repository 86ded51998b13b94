"""Which tools an agent may use: limited by its tenant, by the agent and by its token's scopes.

A tool that is not allowed is refused like one that does not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from django.db import connection

from ledger import contracts
from ledger.contracts import Tool
from ledger.database import use_prepared_statements
from ledger.errors import UnknownTool
from ledger.models.agents import ALL_TOOLS, Scope
from ledger.principals import Principal

# Prefix of scopes for proposing with one tool: propose:<tool>.
ONE_TOOL = f"{Scope.PROPOSE.value}:"

_ALLOWED = """
    SELECT tenant.tools, agent.tools
    FROM ledger_tenant tenant
    LEFT JOIN ledger_agent agent ON agent.tenant_id = tenant.slug AND agent.slug = %s
    WHERE tenant.slug = %s
"""


def allowed_tools(by: Principal, tenant: str) -> frozenset[str]:
    """Names of the tools, of both kinds, that an agent may use. A new tenant has none."""
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(_ALLOWED, [by.slug if by.tenant == tenant else "", tenant])
        row = cursor.fetchone()
    # Principals that are not agents of this tenant have no row: the tenant's list applies alone.
    return tools_in_all(row or [[]])


def tools_in_all(lists: Iterable[list[str] | None]) -> frozenset[str]:
    """Names of the tools, of both kinds, that every list allows. ``None`` stands for no list."""
    names = frozenset(contracts.tools) | frozenset(contracts.readonly_tools)
    for allowed in lists:
        if allowed is not None and ALL_TOOLS not in allowed:
            names &= frozenset(allowed)
    return names


def covers(scopes: Collection[str], wanted: str) -> bool:
    """Whether the scopes include ``wanted``; ``propose:<tool>`` counts as ``propose``."""
    if wanted in scopes:
        return True
    return wanted == Scope.PROPOSE and any(name.startswith(ONE_TOOL) for name in scopes)


def may_propose(scopes: Collection[str], tool: str) -> bool:
    return Scope.PROPOSE in scopes or f"{ONE_TOOL}{tool}" in scopes


def narrowed(scopes: frozenset[str], requested: Collection[str]) -> frozenset[str]:
    """The scopes that both sides contain; of ``propose`` and ``propose:<tool>`` the narrower."""
    requested = frozenset(requested)
    shared = scopes & requested
    for wide, narrow in ((scopes, requested), (requested, scopes)):
        if Scope.PROPOSE in wide:
            shared |= {name for name in narrow if name.startswith(ONE_TOOL)}
    return shared


def unknown(name: str) -> UnknownTool:
    return UnknownTool(f"There is no tool named {name!r:.80} that this agent may use.")


def tool_for(
    by: Principal, tenant: str, name: str, allowed: frozenset[str] | None = None
) -> Tool[Any, Any]:
    """The tool, if the agent may use it. Raises ``UnknownTool`` if not, or if there is none.

    ``allowed`` is ``allowed_tools(by, tenant)``, where that is known.
    """
    tool = contracts.tools.get(name)
    if tool is None or name not in (allowed_tools(by, tenant) if allowed is None else allowed):
        raise unknown(name)
    return tool
