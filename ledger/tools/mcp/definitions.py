"""Definitions an MCP server gives of its tools: read without trust, hashed, and named here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ledger import seals
from ledger.errors import InvalidRequest
from ledger.foundation.characters import plain_name
from ledger.tools.mcp.wire import Json, NotProved

MOST_TOOLS = 500
PINNED = ("name", "description", "inputSchema", "annotations")
# Of the protocol's own advice. Letters of other scripts and other cases could imitate a name.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,127}")
OUR_NAME_MOST = 100


def definitions_in(tools: Iterable[Any]) -> dict[str, Json]:
    """Pinned members of each tool, by its name there. Raises ``NotProved`` for an improper list."""
    definitions: dict[str, Json] = {}
    for tool in tools:
        if not isinstance(tool, Mapping) or not isinstance(name := tool.get("name"), str):
            raise NotProved("Its list of tools has an entry without a name.")
        if name in definitions:
            raise NotProved(f"Its list of tools has {name!r:.80} twice.")
        if len(definitions) == MOST_TOOLS:
            raise NotProved(f"It has more than {MOST_TOOLS} tools.")
        definitions[name] = {member: tool.get(member) for member in PINNED}
    return definitions


def digest_of(definition: Json) -> str:
    """SHA-256 over the canonical JSON. Raises ``NotProved`` where there is none."""
    try:
        return seals.digest_of(definition)
    except InvalidRequest as refusal:
        raise NotProved(f"A definition cannot be hashed: {refusal.detail}") from refusal


def our_name(upstream: str, name: str) -> str:
    """Name by which agents call the tool here. If two names become one, neither is offered."""
    return f"{upstream}_{plain_name(name)}"


def why_no_name(upstream: str, name: str) -> str:
    """Why a tool of this name cannot be offered; empty if it can."""
    if not NAME.fullmatch(name):
        return "Its name has characters other than letters and digits of ASCII, and _ . / -"
    if len(our_name(upstream, name)) > OUR_NAME_MOST:
        return f"Its name here would have more than {OUR_NAME_MOST} characters."
    return ""
