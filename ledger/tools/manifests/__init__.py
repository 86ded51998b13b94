"""Tools that are not Python: a manifest says what such a tool takes, promises, and where it runs.

A kind of tool is a subclass of ``Manifest`` here, a subclass of ``ManifestTool`` where it is
carried out, and a case in ``ledger.tools.catalogue``. Nothing here reads the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger.tools.manifests import texts
from ledger.tools.manifests.agent import AgentManifest
from ledger.tools.manifests.arguments import model_of
from ledger.tools.manifests.base import (
    LONGEST_TIMEOUT_S,
    RECEIPT,
    ContractTerms,
    Manifest,
    ManifestRefused,
)
from ledger.tools.manifests.http import HttpManifest
from ledger.tools.manifests.mcp import McpManifest, UpstreamCall, check_upstream_address, filled_in
from ledger.tools.manifests.tool import ManifestTool

# The first is the kind of a manifest that names none.
KINDS: dict[str, type[Manifest]] = {
    "http": HttpManifest,
    "mcp": McpManifest,
    "agent": AgentManifest,
}


def read(value: Any) -> Manifest:
    """The manifest in this JSON object. Raises ``ManifestRefused``."""
    if not isinstance(value, Mapping):
        raise ManifestRefused("a manifest is an object")
    kind = value.get("kind", next(iter(KINDS)))
    if not isinstance(kind, str) or kind not in KINDS:
        raise ManifestRefused(f"kind: {kind!r:.80} is none of {', '.join(KINDS)}")
    return KINDS[kind].read(value)


__all__ = [
    "KINDS",
    "LONGEST_TIMEOUT_S",
    "RECEIPT",
    "AgentManifest",
    "ContractTerms",
    "HttpManifest",
    "Manifest",
    "ManifestRefused",
    "ManifestTool",
    "McpManifest",
    "UpstreamCall",
    "check_upstream_address",
    "filled_in",
    "model_of",
    "read",
    "texts",
]
