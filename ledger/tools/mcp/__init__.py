"""Tools of MCP servers: the wire of both eras, what answers prove, and the tools themselves.

Our own small client and not the SDK's: docs/decisions/mcp-gateway.md. Nothing here reads the
database.
"""

from __future__ import annotations

from ledger.tools.mcp.talks import Talk
from ledger.tools.mcp.tool import ALL_ARGUMENTS, Listed, McpReadonlyTool, McpTool, Upstream
from ledger.tools.mcp.wire import Json, NothingSent, NotProved

__all__ = [
    "ALL_ARGUMENTS",
    "Json",
    "Listed",
    "McpReadonlyTool",
    "McpTool",
    "NotProved",
    "NothingSent",
    "Talk",
    "Upstream",
]
