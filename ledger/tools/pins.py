"""What owners publish about their tools is pinned, and read again; what differs holds the tool.

A tool that is held cannot be proposed, and what waits for sign-off cannot be approved, until an
operator has seen what differs and has accepted it. It can be rejected.
"""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import Any

from django.db.models import F
from django.db.models.functions import Coalesce, Now
from django.db.transaction import atomic

from ledger import catalogue, intents, registrations
from ledger.contracts import Tool
from ledger.errors import InvalidRequest
from ledger.events.account_changes import ChangeKind
from ledger.http_tools import HttpTool, published
from ledger.http_tools.published import Unreadable, Unusable
from ledger.models import RegisteredTool
from ledger.principals import Principal, Surface, system
from ledger.sentences import Sentence

READ_EVERY = timedelta(minutes=5)
READER = system("pins", "the check of what owners publish")
HELD = Sentence("What its owner publishes has changed.")


class NotPinned(Exception):
    """Nothing was pinned; the text says why."""


def read_now(row: RegisteredTool) -> dict[str, Any]:
    """What the owner publishes now, if it is a contract of this tool. Raises ``NotPinned``."""
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
    """Also while it is held."""
    named = (row.tenant_id, row.name)
    return catalogue.tool_named(*named) or catalogue.held_named(*named)


def pin(row: RegisteredTool, contract: dict[str, Any], *, by: Principal, via: Surface) -> None:
    """Hold the owner to this contract, which the operator has seen; raises ``NotPinned``.

    A tool that was held is released by it.
    """
    try:
        published.check(contract, row.name)
    except Unusable as refusal:
        raise NotPinned(str(refusal)) from None
    sha256 = published.digest_of(contract)
    with atomic():
        held = RegisteredTool.objects.select_for_update().get(pk=row.pk).held
        RegisteredTool.objects.filter(pk=row.pk).update(
            pinned=sha256,
            pinned_contract=contract,
            seen_contract=None,
            held="",
            read_error="",
            failing_since=None,
            read_at=Now(),
            read_again_at=Now() + READ_EVERY,
        )
        kind = ChangeKind.TOOL_RELEASED if held else ChangeKind.TOOL_PINNED
        registrations.record(row.tenant, row.name, kind, by, via, contract=sha256)


def accept(row: RegisteredTool, *, sha256: str, by: Principal, via: Surface) -> None:
    """Accept what was last read, if it is what the operator saw. Raises ``NotPinned``."""
    with atomic():
        now = RegisteredTool.objects.select_for_update().get(pk=row.pk)
        if not now.held or now.seen_contract is None:
            raise NotPinned("The tool is not held any more.")
        if published.digest_of(now.seen_contract) != sha256:
            raise NotPinned("What its owner publishes has changed again: look at it as it is now.")
        pin(now, now.seen_contract, by=by, via=via)


def unpin(row: RegisteredTool, *, by: Principal, via: Surface) -> None:
    """Read it no more. Raises ``NotPinned`` while the tool is held: accept what differs first."""
    with atomic():
        kept = RegisteredTool.objects.filter(pk=row.pk, held="").exclude(pinned="")
        if not kept.update(pinned="", pinned_contract=None, read_again_at=None, read_error=""):
            raise NotPinned("Nothing is pinned, or the tool is held.")
        registrations.record(row.tenant, row.name, ChangeKind.TOOL_UNPINNED, by, via)


# --- reading it again -------------------------------------------------------------------------


def due() -> list[int]:
    """Ids of the tools whose contract is to be read again."""
    rows = RegisteredTool.objects.filter(read_again_at__lte=Now(), is_withdrawn=False)
    return list(rows.exclude(pinned="").values_list("pk", flat=True))


def read_again(tool_id: int) -> None:
    """Read the contract, if that is due, and hold the tool if it is not the pinned one."""
    later = Now() + READ_EVERY + timedelta(seconds=random.uniform(0, 60))
    rows = RegisteredTool.objects.filter(pk=tool_id, read_again_at__lte=Now())
    if not rows.update(read_again_at=later):
        return
    row = RegisteredTool.objects.select_related("tenant").get(pk=tool_id)
    tool = _tool_of(row)
    if not isinstance(tool, HttpTool) or not row.pinned:
        return
    try:
        contract = published.read(tool.service, tool=row.name, tenant=row.tenant_id)
    except Unreadable as failure:
        _note_failure(row, str(failure))
        return
    with atomic():
        now = RegisteredTool.objects.select_for_update().get(pk=tool_id)
        if now.pinned == row.pinned:  # else another one was pinned meanwhile
            _compare(now, contract)


def _note_failure(row: RegisteredTool, why: str) -> None:
    since = Coalesce(F("failing_since"), Now())
    RegisteredTool.objects.filter(pk=row.pk).update(read_error=why[:2000], failing_since=since)


def _compare(row: RegisteredTool, contract: dict[str, Any]) -> None:
    """Once held, it stays held: an owner cannot change it back and forth unnoticed."""
    rows = RegisteredTool.objects.filter(pk=row.pk)
    rows.update(read_at=Now(), read_error="", failing_since=None)
    sha256 = published.digest_of(contract)
    if sha256 == row.pinned and not row.held:
        return
    rows.update(held=str(HELD), seen_contract=_storable(contract))
    if not row.held:
        kind = ChangeKind.TOOL_HELD
        sealed = {"contract": sha256, "pinned": row.pinned}
        registrations.record(row.tenant, row.name, kind, READER, Surface.SYSTEM, **sealed)


def _storable(contract: dict[str, Any]) -> dict[str, Any] | None:
    """As it is, if the database can keep it and people can be shown it; else as escaped text."""
    try:
        intents.refuse_unsafe_text(contract, "what it publishes")
        intents.canonical(contract)
    except InvalidRequest:
        return {"unreadable": json.dumps(contract, ensure_ascii=True)[:10_000]}
    return contract
