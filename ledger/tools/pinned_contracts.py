"""Pins what owners publish about their tools, and reads it again; what differs holds the tool.

A tool that is held cannot be proposed, and what waits for sign-off cannot be approved, until an
operator has seen what differs and has accepted it. It can be rejected.
"""

from __future__ import annotations

import json
from typing import Any

from django.db.transaction import atomic

from ledger import seals
from ledger.contracts import Tool
from ledger.errors import InvalidRequest, Sentence
from ledger.events import ChangeKind, brakes
from ledger.models import RegisteredTool, Tenant, Watched
from ledger.principals import Principal, Surface, system
from ledger.tools import catalogue, registrations, watched
from ledger.tools.http import HttpTool, published
from ledger.tools.http.published import Unreadable, Unusable

KIND = "contract"
READER = system("pins", "the check of what owners publish")
HELD = Sentence("What its owner publishes has changed.")


class NotPinned(Exception):
    """Nothing was pinned; the text says why."""


def read_contract(row: RegisteredTool) -> dict[str, Any]:
    """The contract the owner publishes now, if it is of this tool. Raises ``NotPinned``."""
    tool = _tool_of(row)
    if not isinstance(tool, HttpTool):
        raise NotPinned("Only a tool over HTTP, which is not withdrawn, publishes a contract.")
    try:
        contract = published.read(tool.service, tool=row.name, tenant=row.tenant_id)
        published.check(contract, row.name)
    except (Unreadable, Unusable) as refusal:
        raise NotPinned(str(refusal)) from None
    return contract


def _tool_of(row: RegisteredTool) -> Tool[Any, Any] | None:
    return catalogue.tool_named(row.tenant_id, row.name)


def pin_contract(
    row: RegisteredTool, contract: dict[str, Any], *, by: Principal, via: Surface
) -> None:
    """Hold the owner to this contract, which the operator has seen; raises ``NotPinned``.

    A tool that was held is released by it.
    """
    try:
        published.check(contract, row.name)
    except Unusable as refusal:
        raise NotPinned(str(refusal)) from None
    with atomic():
        tool = _locked(row)
        document = watched.accept(tool.watched_id, KIND, contract)
        RegisteredTool.objects.filter(pk=row.pk).update(watched=document)
        sha256 = published.digest_of(contract)
        kind = ChangeKind.TOOL_PINNED
        registrations.record(row.tenant, row.name, kind, by, via, contract=sha256)
        brakes.end_hold(row.tenant_id, row.name, by=by, via=via)


def _locked(row: RegisteredTool) -> RegisteredTool:
    """The tool as it is; nobody registers, pins or accepts anything of it until commit."""
    Tenant.objects.select_for_update(no_key=True).get(pk=row.tenant_id)
    Watched.objects.select_for_update().filter(tool=row).first()  # nor is it compared
    return RegisteredTool.objects.select_related("tenant", "watched").get(pk=row.pk)


def accept_contract(row: RegisteredTool, *, sha256: str, by: Principal, via: Surface) -> None:
    """Accept what was last read, if it is what the operator saw. Raises ``NotPinned``."""
    with atomic():
        tool = _locked(row)
        if not tool.is_held or tool.watched is None:
            raise NotPinned("The tool is not held any more.")
        if published.digest_of(tool.watched.seen) != sha256:
            raise NotPinned("What its owner publishes has changed again: look at it as it is now.")
        pin_contract(tool, tool.watched.seen, by=by, via=via)


def unpin_contract(row: RegisteredTool, *, by: Principal, via: Surface) -> None:
    """Read it no more. Raises ``NotPinned`` while the tool is held: accept what differs first."""
    with atomic():
        tool = _locked(row)
        if tool.is_held or tool.watched is None:
            raise NotPinned("Nothing is pinned, or the tool is held.")
        tool.watched.delete()
        registrations.record(row.tenant, row.name, ChangeKind.TOOL_UNPINNED, by, via)


# --- as it is watched -------------------------------------------------------------------------


def _read(document: Watched) -> dict[str, Any] | None:
    """``None`` of a tool that is withdrawn by now. Raises ``Unreadable``."""
    row = RegisteredTool.objects.get(watched=document)
    tool = _tool_of(row)
    if not isinstance(tool, HttpTool):
        return None
    return published.read(tool.service, tool=row.name, tenant=row.tenant_id)


def _compare(document: Watched, contract: dict[str, Any]) -> None:
    """Once held, it stays held: an owner cannot change it back and forth unnoticed."""
    sha256, pinned = published.digest_of(contract), published.digest_of(document.pinned)
    document.seen = _storable(contract)
    if sha256 != pinned:
        row = RegisteredTool.objects.get(watched=document)
        document.held_why = str(HELD)
        sealed = {"contract": sha256, "pinned": pinned}
        brakes.hold(row.tenant_id, row.name, HELD, by=READER, via=Surface.SYSTEM, **sealed)


def _storable(contract: dict[str, Any]) -> dict[str, Any]:
    """As it is, if the database can keep it and people can be shown it; else as escaped text."""
    try:
        seals.refuse_unsafe_text(contract, "what it publishes")
        seals.canonical(contract)
    except InvalidRequest:
        return {"unreadable": json.dumps(contract, ensure_ascii=True)[:10_000]}
    return contract


def register() -> None:
    watched.register(KIND, watched.Kind(_read, _compare, (Unreadable,)))
