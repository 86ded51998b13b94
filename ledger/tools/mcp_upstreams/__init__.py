"""MCP servers that operators registered: their lists are read, compared, and held to.

``reading`` reads a list again and holds what has changed; ``releases`` is what operators do.
"""

from __future__ import annotations

from ledger.tools.mcp_upstreams.reading import (
    hold_what_differs,
    note_stderr,
    register,
    revision_of,
)
from ledger.tools.mcp_upstreams.releases import (
    UpstreamRefused,
    accept,
    add,
    check,
    draft,
    hold,
    new_and_read_only,
    released_sha256,
    remove,
    upstream_named,
)

__all__ = [
    "UpstreamRefused",
    "accept",
    "add",
    "check",
    "draft",
    "hold",
    "hold_what_differs",
    "new_and_read_only",
    "note_stderr",
    "register",
    "released_sha256",
    "remove",
    "revision_of",
    "upstream_named",
]
