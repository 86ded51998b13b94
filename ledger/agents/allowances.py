"""Tools an agent may use: limited by its tenant, by the agent and by its token's scopes.

A tool that is not allowed is refused like one that does not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db import connection

from ledger.errors import UnknownTool
from ledger.foundation import characters
from ledger.foundation.postgres import use_prepared_statements
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


# The lists of a tenant and of an agent, each of names or ``*``; ``None`` stands for no list.
Lists = Sequence[list[str] | None]


def lists_of(by: Principal, tenant: str) -> Lists:
    """Lists that limit the tools, of both kinds, that an agent may use. A new tenant has none."""
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(_ALLOWED, [by.slug if by.tenant == tenant else "", tenant])
        row = cursor.fetchone()
    # Principals that are not agents of this tenant have no row: the tenant's list applies alone.
    return row or [[]]


def allow(lists: Lists, name: str) -> bool:
    """True if every list allows a tool of this name."""
    # ``humanlayer.*`` allows every function of that namespace.
    enough = {ALL_TOOLS, name, f"{name.partition('.')[0]}.{ALL_TOOLS}"}
    return all(allowed is None or not enough.isdisjoint(allowed) for allowed in lists)


def covers(scopes: Collection[str], wanted: str) -> bool:
    """True if the scopes include ``wanted``; ``propose:<tool>`` counts as ``propose``."""
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
    """The refusal, with the spelling here for who uses a name as an MCP server has it."""
    text = f"There is no tool named {name!r:.80} that this agent may use."
    if "-" in name:
        text += f" Names of tools have no dash: {characters.plain_name(name)!r:.80}?"
    return UnknownTool(text)
