"""The page about what the owner of a tool publishes: what is pinned, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from approvals.web.settings.tools.versions import contract_differences
from ledger.admin.base import pretty
from ledger.models import RegisteredTool
from ledger.principals import Principal, Surface
from ledger.tools import (
    NotPinned,
    accept_contract,
    pin_contract,
    read_contract,
    registrations,
    unpin_contract,
)
from ledger.tools.http import published
from ledger.tools.http.published import Unusable
from ledger.tools.manifests import HttpManifest


def act(
    row: RegisteredTool, posted: Mapping[str, str], *, by: Principal, via: Surface
) -> dict[str, Any] | None:
    """Do what a button of the page asks for; returns a contract that was read to be shown.

    Raises ``NotPinned``.
    """
    sha256 = posted.get("sha256", "")
    match posted.get("act"):
        case "read":
            return read_contract(row)
        case "pin":
            contract = read_contract(row)
            if published.digest_of(contract) != sha256:
                raise NotPinned("It publishes something else by now: look at it again.")
            pin_contract(row, contract, by=by, via=via)
        case "accept":
            accept_contract(row, sha256=sha256, by=by, via=via)
        case "unpin":
            unpin_contract(row, by=by, via=via)
    return None


def shown(row: RegisteredTool, offered: dict[str, Any] | None) -> dict[str, Any]:
    """``offered`` was read just now; else it is what holds the tool, if it is held."""
    document = row.watched
    seen = document.seen if document is not None and row.is_held else None
    pinned = document.pinned if document is not None else None
    other = offered if offered is not None else seen
    return {
        "other": pretty(other) if other is not None else "",
        "sha256": published.digest_of(other) if other is not None else "",
        "differences": contract_differences(pinned, other) if other else [],
        "pinned": pretty(pinned),
        **(_misfits(row, other) if other is not None else {}),
    }


def _misfits(row: RegisteredTool, contract: dict[str, Any]) -> dict[str, list[str]]:
    """Points in which the manifest relies on more than is published, or on other arguments."""
    version = registrations.current(row.tenant, row.name)
    try:
        published.check(contract, row.name)
    except Unusable:
        return {}
    if not isinstance(version, HttpManifest):
        return {}
    return {
        "not_promised": published.not_promised(version, contract),
        "other_arguments": published.other_arguments(version, contract),
    }
