"""Proposals of an agent, and the checks that need no transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from ledger import seals
from ledger.agents import Lists, allow, lists_of, unknown
from ledger.contracts import Tool
from ledger.errors import IdempotencyKeyMissing, InvalidRequest
from ledger.models import Ending, IdempotencyKey, Transaction, TransactionRow
from ledger.principals import Principal, Surface
from ledger.tools import tool_named

PREPARE_ROUTE = "prepare"
KEY_MAX = 255  # characters
OPERATION_KEY_MAX = 500  # characters
TOUCH_MAX = 500  # characters, of each
MOST_CHARACTERS = {"reason": 10_000, "run_id": 200, "step_id": 200, "traceparent": 55}


@dataclass(frozen=True, slots=True)
class Proposal:
    """Proposal of an agent. ``ttl`` is how long it may wait for sign-off."""

    tool: str
    arguments: dict[str, Any]
    reason: str = ""
    run_id: str = ""
    step_id: str = ""
    traceparent: str = ""
    ttl: timedelta | None = None
    replaces: UUID | None = None  # what was sent back, and is proposed anew

    @property
    def trace_id(self) -> str:
        """The trace of a W3C traceparent, ``00-<32 hex>-<16 hex>-<2 hex>``."""
        return self.traceparent[3:35]

    def check_text(self, key: str) -> None:
        """Check everything that will be stored, before anything is planned or held.

        Raises ``InvalidRequest`` for text that is too long or unsafe to show.
        """
        for name in ("arguments", "reason", "run_id", "step_id", "traceparent"):
            seals.refuse_unsafe_text(getattr(self, name), name)
        seals.refuse_unsafe_text(key, "Idempotency-Key")
        for name, most in MOST_CHARACTERS.items():
            if len(getattr(self, name)) > most:
                raise InvalidRequest(f"{name} is longer than {most} characters.")

    def normalised(self) -> Proposal:
        """The same proposal with its texts in Unicode's composed form (NFC)."""
        return replace(
            self,
            arguments=seals.normalised(self.arguments),
            reason=seals.normalised(self.reason),
        )

    def fingerprint(self) -> str:
        """SHA-256 of what must be equal for a repeated request to count as the same."""
        fields = (
            *(self.tool, self.arguments, self.reason, self.run_id, self.step_id, str(self.ttl)),
            *([] if self.replaces is None else [str(self.replaces)]),
        )
        try:
            text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, RecursionError) as refusal:
            raise InvalidRequest(f"The arguments cannot be written as JSON: {refusal}") from refusal
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# Renders a transaction as the Token of Intent, given the id of the one it duplicates, if any.
Render = Callable[[Transaction | TransactionRow, UUID | None], str]


@dataclass(frozen=True, slots=True)
class Request:
    """A proposal that passed every check, with what follows from it and its tool."""

    proposal: Proposal
    by: Principal
    tenant: str
    key: str
    via: Surface
    render: Render
    fingerprint: str
    tool: Tool[Any, Any]
    arguments: BaseModel
    ttl: timedelta
    meaning: Any  # the arguments that identify the operation, case folded
    operation_key: str
    input_hash: str
    rule_set: int = 0  # number of the tenant's active rules, where that was read with the token

    def idempotency_key(self, transaction_id: UUID, *, status: int, answer: str) -> IdempotencyKey:
        """The record that replays this answer when the request is repeated."""
        return IdempotencyKey(
            agent=str(self.by),
            route=PREPARE_ROUTE,
            key=self.key,
            payload_hash=self.fingerprint,
            transaction_id=transaction_id,
            status=status,
            answer=answer,
        )


def checked(
    proposal: Proposal,
    *,
    by: Principal,
    tenant: str,
    key: str,
    via: Surface,
    render: Render,
    lists: Lists | None = None,
    tool: Tool[Any, Any] | None = None,
    rule_set: int = 0,
) -> Request:
    """Check a proposal and look up its tool. Reads no transaction.

    ``lists`` are what limits the tools of the agent, where they are known; else they are read.
    ``rule_set`` is the number of its active rules, for ``prepare_all``.
    ``tool`` is one that no name leads to; the caller knows that the agent may use it.
    Raises ``IdempotencyKeyMissing, UnknownTool, InvalidRequest``.
    """
    if not key or len(key) > KEY_MAX:
        raise IdempotencyKeyMissing(f"An Idempotency-Key has 1 to {KEY_MAX} characters.")
    proposal.check_text(key)
    proposal = proposal.normalised()
    fingerprint = proposal.fingerprint()
    tool = tool or _tool_for(by, tenant, proposal.tool, lists)
    if proposal.replaces is not None:
        _check_was_sent_back(proposal.replaces, proposal.tool, by, tenant)
    arguments = tool.validate(proposal.arguments)
    ttl = _allowed_ttl(proposal.ttl, tool)
    meaning = tool.meaning_of(arguments)
    folded = seals.folded(meaning)
    operation_key = tool.operation_key_for(tenant, folded)
    if len(operation_key) > OPERATION_KEY_MAX:
        raise InvalidRequest(f"The operation key is longer than {OPERATION_KEY_MAX} characters.")
    check_touches(tool, tenant, folded)
    return Request(
        proposal=proposal,
        by=by,
        tenant=tenant,
        key=key,
        via=via,
        render=render,
        fingerprint=fingerprint,
        tool=tool,
        arguments=arguments,
        ttl=ttl,
        meaning=folded,
        operation_key=operation_key,
        input_hash=seals.digest_of({"tool": tool.name, "arguments": meaning}),
        rule_set=rule_set,
    )


def check_touches(tool: Tool[Any, Any], tenant: str, meaning: Mapping[str, Any]) -> None:
    """Raises ``InvalidRequest`` for a name of what it touches that no row can have."""
    if any(len(each) > TOUCH_MAX for each in tool.contract.touched_by(tenant, meaning)):
        raise InvalidRequest(f"What it touches has a name of more than {TOUCH_MAX} characters.")


def _check_was_sent_back(replaces: UUID, tool: str, by: Principal, tenant: str) -> None:
    """Raises ``InvalidRequest`` unless it replaces what was sent back to this agent."""
    rows = Transaction.objects.filter(tenant=tenant, proposed_by=str(by), tool=tool)
    if not rows.filter(pk=replaces, ending=Ending.SENT_BACK).exists():
        raise InvalidRequest(
            "replaces is not the id of a transaction of yours with this tool that was sent back."
        )


def _allowed_ttl(ttl: timedelta | None, tool: Tool[Any, Any]) -> timedelta:
    contract = tool.contract
    if ttl is None:
        return contract.ttl
    if not contract.min_ttl <= ttl <= contract.max_ttl:
        raise InvalidRequest(
            f"ttl_s must lie between {contract.min_ttl.total_seconds():.0f} and "
            f"{contract.max_ttl.total_seconds():.0f} seconds for {tool.name}."
        )
    return ttl


def _tool_for(by: Principal, tenant: str, name: str, lists: Lists | None) -> Tool[Any, Any]:
    """The tool, if the agent may use it. Raises ``UnknownTool`` if not, or if there is none.

    ``lists`` is ``lists_of(by, tenant)``, where that is known.
    """
    if allow(lists_of(by, tenant) if lists is None else lists, name):
        tool = tool_named(tenant, name)
        if tool is not None:
            return tool
    raise unknown(name)
