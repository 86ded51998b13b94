"""Tools: what one is, how it is called, and what is watched of those elsewhere.

``credentials`` and ``watched`` are used as modules; so are the packages below, each of which has a
docstring of its own.
"""

from __future__ import annotations

from ledger.tools.catalogue import (
    acts_itself,
    contracts_of,
    deployed_tool_of,
    last_named,
    permit_tool_of,
    readonly_named,
    readonly_tools_of,
    registered_names,
    tool_from,
    tool_named,
    tool_of,
    tool_version,
    tools_of,
)
from ledger.tools.handed_over_calls import (
    HandedOverTool,
    Namespace,
    function_in,
    is_for_agent,
    is_handed_over,
    register_namespace,
)
from ledger.tools.pinned_contracts import (
    NotPinned,
    accept_contract,
    pin_contract,
    read_contract,
    unpin_contract,
)

__all__ = [
    "HandedOverTool",
    "Namespace",
    "NotPinned",
    "accept_contract",
    "acts_itself",
    "contracts_of",
    "deployed_tool_of",
    "function_in",
    "is_for_agent",
    "is_handed_over",
    "last_named",
    "permit_tool_of",
    "pin_contract",
    "read_contract",
    "readonly_named",
    "readonly_tools_of",
    "register_namespace",
    "registered_names",
    "tool_from",
    "tool_named",
    "tool_of",
    "tool_version",
    "tools_of",
    "unpin_contract",
]
