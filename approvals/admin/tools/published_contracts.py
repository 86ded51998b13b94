"""The page about what the owner of a tool publishes: what is pinned, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from approvals.admin.tool_pages import VIA, contract_differences
from approvals.people import principal_of
from ledger import pins, registrations
from ledger.admin.base import pretty
from ledger.http_tools import published
from ledger.http_tools.published import Unusable
from ledger.manifests import HttpManifest
from ledger.models import RegisteredTool
from ledger.pins import NotPinned


def act(row: RegisteredTool, posted: Mapping[str, str], person: User) -> dict[str, Any] | None:
    """Do what a button of the page asks for; returns a contract that was read to be shown.

    Raises ``NotPinned``.
    """
    by, sha256 = principal_of(person), posted.get("sha256", "")
    match posted.get("act"):
        case "read":
            return pins.read_now(row)
        case "pin":
            contract = pins.read_now(row)
            if published.digest_of(contract) != sha256:
                raise NotPinned("It publishes something else by now: look at it again.")
            pins.pin(row, contract, by=by, via=VIA)
        case "accept":
            pins.accept(row, sha256=sha256, by=by, via=VIA)
        case "unpin":
            pins.unpin(row, by=by, via=VIA)
    return None


def shown(row: RegisteredTool, offered: dict[str, Any] | None) -> dict[str, Any]:
    """``offered`` was read just now; else it is what holds the tool, if it is held."""
    other = offered if offered is not None else row.seen_contract if row.held else None
    return {
        "other": pretty(other) if other is not None else "",
        "sha256": published.digest_of(other) if other is not None else "",
        "differences": contract_differences(row.pinned_contract, other) if other else [],
        "pinned": pretty(row.pinned_contract) if row.pinned else "",
        **(_misfits(row, other) if other is not None else {}),
    }


def _misfits(row: RegisteredTool, contract: dict[str, Any]) -> dict[str, list[str]]:
    """Where the manifest relies on more, or on other arguments, than what is published."""
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
