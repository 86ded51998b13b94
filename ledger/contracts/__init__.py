"""What a tool promises (its contract), its arguments and results, and the registry of tools.

Tool authors import from this package: ``from ledger.contracts import transactional``.
"""

from __future__ import annotations

from ledger.contracts.contract import (
    ConsequenceLevel,
    Context,
    Contract,
    NothingHappened,
    Plan,
    ReadonlyTool,
    RequiredApprover,
    Retry,
    RiskLevel,
    Tool,
    declared_twice,
    key_fields,
    readonly,
    readonly_tools,
    tool_named,
    tools,
    transactional,
)

__all__ = [
    "ConsequenceLevel",
    "Context",
    "Contract",
    "NothingHappened",
    "Plan",
    "ReadonlyTool",
    "RequiredApprover",
    "Retry",
    "RiskLevel",
    "Tool",
    "declared_twice",
    "key_fields",
    "readonly",
    "readonly_tools",
    "tool_named",
    "tools",
    "transactional",
]
