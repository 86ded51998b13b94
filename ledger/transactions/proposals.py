"""Prepare: from a request to a transaction that waits for sign-off. The hot path."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import DatabaseError, IntegrityError, InterfaceError
from pydantic import BaseModel

from ledger import characters, intents, states
from ledger.agents.allowances import tool_for
from ledger.contracts import Context, Plan, RequiredApprover, Tool
from ledger.contracts.results import storable
from ledger.errors import (
    CanceledBefore,
    IdempotencyKeyMissing,
    IdempotencyKeyReused,
    InProgress,
    InvalidRequest,
    LedgerError,
    OperationHeld,
    OperationKeyConflict,
    OperationTaken,
    PlanFailed,
    PlanRefused,
)
from ledger.models import HOLDS_ITS_KEY, Ending, IdempotencyKey, Transaction, new_id
from ledger.principals import Principal, Surface
from ledger.states import State
from ledger.transactions import entries
from ledger.transactions.abandoned import OPERATION_KEY_MAX, abandon
from ledger.transactions.decisions import approve_by_policy

PREPARE_ROUTE = "prepare"
KEY_MAX = 255  # characters
MOST_CHARACTERS = {"reason": 10_000, "run_id": 200, "step_id": 200, "traceparent": 55}
WARNINGS_MOST, WARNING_MAX = 50, 3000  # characters


@dataclass(frozen=True, slots=True)
class Proposal:
    """What an agent asks for. ``ttl`` is how long it may wait for sign-off."""

    tool: str
    arguments: dict[str, Any]
    reason: str = ""
    run_id: str = ""
    step_id: str = ""
    traceparent: str = ""
    ttl: timedelta | None = None

    @property
    def trace_id(self) -> str:
        """The trace of a W3C traceparent, ``00-<32 hex>-<16 hex>-<2 hex>``."""
        return self.traceparent[3:35]

    def check_text(self, key: str) -> None:
        """Everything that is to be stored is looked at before anything is planned or held."""
        named = {
            "arguments": self.arguments, "reason": self.reason, "run_id": self.run_id,
            "step_id": self.step_id, "traceparent": self.traceparent, "Idempotency-Key": key,
        }  # fmt: skip
        for name, value in named.items():
            intents.refuse_unsafe_text(value, name)
        for name, most in MOST_CHARACTERS.items():
            if len(getattr(self, name)) > most:
                raise InvalidRequest(f"{name} is longer than {most} characters.")

    def fingerprint(self) -> str:
        """What must be the same for a repeated request to count as the same."""
        said = (self.tool, self.arguments, self.reason, self.run_id, self.step_id, str(self.ttl))
        try:
            text = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, RecursionError) as refusal:
            raise InvalidRequest(f"The arguments cannot be written as JSON: {refusal}") from refusal
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the caller of prepare is told: an HTTP status and a JSON text, kept word for word."""

    status: int
    text: str
    transaction_id: UUID | None
    is_replay: bool = False


# Renders a transaction as the Token of Intent, given the id of the one it duplicates, if any.
Render = Callable[[Transaction, UUID | None], str]


def prepare(
    proposal: Proposal, *, by: Principal, tenant: str, key: str, via: Surface, render: Render
) -> Answer:
    """Plan what is proposed, hold what it needs and put it before an approver.

    Repeating a request with the same key gives the first answer again. A live operation with the
    same input answers with the transaction that has it. Nothing is written when this raises,
    except for a refused plan, which is kept as REFUSED.

    Raises ``IdempotencyKeyMissing, IdempotencyKeyReused, InProgress, CanceledBefore, UnknownTool,
    InvalidRequest`` and its kin, ``OperationKeyConflict, PlanFailed``.
    """
    if not key or len(key) > KEY_MAX:
        raise IdempotencyKeyMissing(f"An Idempotency-Key has 1 to {KEY_MAX} characters.")
    proposal.check_text(key)
    proposal = replace(
        proposal,
        arguments=intents.normalised(proposal.arguments),
        reason=intents.normalised(proposal.reason),
    )
    fingerprint = proposal.fingerprint()
    tool = tool_for(by, tenant, proposal.tool)
    arguments = tool.validate(proposal.arguments)
    ttl = _allowed_ttl(proposal.ttl, tool)
    meaning = tool.meaning_of(arguments)
    operation_key = tool.operation_key_for(tenant, intents.folded(meaning))
    if len(operation_key) > OPERATION_KEY_MAX:
        raise InvalidRequest(f"The operation key is longer than {OPERATION_KEY_MAX} characters.")
    input_hash = intents.digest_of({"tool": tool.name, "arguments": meaning})
    note = IdempotencyKey(
        agent=str(by), route=PREPARE_ROUTE, key=key, payload_hash=fingerprint, status=201
    )

    with entries.admitted(
        by, tenant, route=PREPARE_ROUTE, key=key, operation_key=operation_key
    ) as known:
        if known.key_status is not None:
            return _replay(known, fingerprint, render)
        holder_id = known.holder_id or _holder_by_alias(tool, tenant, intents.folded(meaning))
        if holder_id is not None:
            return _answer_with_holder(holder_id, input_hash, note, render)
        if known.late_id is not None:
            raise OperationHeld(
                f"A receipt came late for transaction {known.late_id} of the same operation, and "
                "nobody has looked at it yet.",
                operation_key=operation_key,
            )
        began = time.monotonic()
        row = Transaction(
            id=new_id(),
            tenant=tenant,
            proposed_by=str(by),
            proposed_by_name=by.display_name,
            stated_reason=proposal.reason,
            run_id=proposal.run_id,
            step_id=proposal.step_id,
            trace_id=proposal.trace_id,
            traceparent=proposal.traceparent,
            payload=proposal.arguments,
            input_hash=input_hash,
            operation_key=operation_key,
            warnings=[],
            held={},
        )
        _copy_contract(row, tool)
        row.created_at = known.now
        row.expires_at, row.retain_until = known.now + ttl, known.now + tool.contract.retention
        try:
            refusal = _plan(row, tool, arguments)
            row.created_at = known.now + timedelta(seconds=time.monotonic() - began)
            row.expires_at = row.created_at + ttl
            row.retain_until = row.created_at + tool.contract.retention
            row.intent_digest = intents.digest_of(intents.intent_of(row))
            if not refusal:
                return _enter_prepared(row, note, by=by, via=via, render=render, admission=known)
        except BaseException as failure:
            abandon(row, tool, arguments, by=by, via=via)
            if isinstance(failure, IntegrityError):
                return _answer_after_losing(row, note, operation_key, render)
            raise
        return _enter_refused(row, refusal, note, by=by, via=via, admission=known)


def _holder_by_alias(tool: Tool[Any, Any], tenant: str, meaning: Any) -> UUID | None:
    """The transaction that has the operation under a key of an earlier contract."""
    keys = tool.earlier_operation_keys_for(tenant, meaning)
    if not keys:
        return None
    rows = Transaction.objects.filter(tenant=tenant, operation_key__in=keys)
    held = rows.filter(HOLDS_ITS_KEY) | rows.with_late_receipt()
    return held.values_list("pk", flat=True).first()


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


def _copy_contract(row: Transaction, tool: Tool[Any, Any]) -> None:
    """Copy the contract as it stands: a later edit of the tool changes no transaction."""
    row.tool = tool.name
    for column, value in tool.contract.sealed_terms().items():
        setattr(row, column, value)


def _plan(row: Transaction, tool: Tool[Any, Any], arguments: BaseModel) -> PlanRefused | None:
    """Fill in what the approver will see. Returns the tool's refusal, if it refuses."""
    context = Context(
        transaction_id=row.pk,
        tenant=row.tenant,
        operation_key=row.operation_key,
        timeout=tool.contract.timeout,
    )
    row.arguments = arguments.model_dump(mode="json")
    try:
        plan = tool.make_plan(arguments, context)
    except PlanRefused as refusal:
        row.action_summary = characters.one_line(f"{tool.name}: {refusal.detail}")[:3000]
        return refusal
    except LedgerError:
        raise
    except Exception as failure:
        raise PlanFailed(f"{tool.name} could not plan: {type(failure).__name__}.") from failure
    _take_over(row, tool, plan)
    return None


def _take_over(row: Transaction, tool: Tool[Any, Any], plan: Plan) -> None:
    summary, warnings = str(plan.summary), [str(warning) for warning in plan.warnings]
    intents.refuse_unsafe_text([summary, warnings], "the plan")
    _check_warnings(tool, warnings)
    # One line: what follows a line break could pass for a line of ours.
    row.action_summary = characters.one_line(intents.normalised(summary))
    row.amount, row.currency = plan.amount, plan.currency if plan.amount is not None else ""
    if plan.arguments is not None:
        row.arguments = tool.validate(dict(plan.arguments)).model_dump(mode="json")
        intents.refuse_unsafe_text(row.arguments)
        row.arguments = intents.normalised(row.arguments)
    # First, so that no number of other warnings pushes them out of sight.
    row.warnings = [*_lookalikes_in(row), *intents.normalised(warnings)]
    row.held = storable(plan.held or {})  # as it will be read again: its digest is sealed
    row.hold_expires_at = plan.hold_expires_at


def _check_warnings(tool: Tool[Any, Any], warnings: list[str]) -> None:
    """None is ever cut or left out: an approver has to see them all."""
    if len(warnings) > WARNINGS_MOST or any(len(one) > WARNING_MAX for one in warnings):
        raise PlanFailed(
            f"{tool.name} gave more than {WARNINGS_MOST} warnings, or one of more than "
            f"{WARNING_MAX} characters."
        )


def _lookalikes_in(row: Transaction) -> list[str]:
    seen = [row.action_summary, row.stated_reason, *intents.texts_in(row.arguments)]
    return characters.lookalikes(seen)


def _enter_prepared(
    row: Transaction,
    note: IdempotencyKey,
    *,
    by: Principal,
    via: Surface,
    render: Render,
    admission: entries.Admission,
) -> Answer:
    row.state = State.PREPARED
    note.answer = render(row, None)
    entries.enter(row, states.PREPARE, by=by, via=via, key=note, admission=admission)
    if row.required_approver == RequiredApprover.NONE:
        # What fails here is done by the sweeper; the transaction is entered.
        with suppress(LedgerError, DatabaseError, InterfaceError):
            approve_by_policy(row.pk, row.intent_digest)
    return Answer(note.status, note.answer, row.pk)


def _enter_refused(
    row: Transaction,
    refusal: PlanRefused,
    note: IdempotencyKey,
    *,
    by: Principal,
    via: Surface,
    admission: entries.Admission,
) -> Answer:
    """Keep the refusal: an agent that asks again with the key is told the same."""
    row.state = State.REFUSED
    row.ended_at = row.created_at
    row.ending_reason = row.error = refusal.detail[:2000]
    intents.refuse_unsafe_text([row.error, row.action_summary])
    note.status = refusal.status
    note.answer = refusal.detail[:2000]
    entries.enter(row, states.REFUSE, by=by, via=via, key=note, admission=admission)
    raise PlanRefused(refusal.detail, transaction_id=str(row.pk))


def _replay(known: entries.Admission, fingerprint: str, render: Render) -> Answer:
    """The first answer again. Once retention has erased it, what is left of its transaction."""
    if known.key_status == CanceledBefore.status and known.key_transaction_id is None:
        raise CanceledBefore()
    if known.key_hash != fingerprint:
        raise IdempotencyKeyReused()
    if known.key_status == PlanRefused.status:
        detail = known.key_answer or "The plan was refused; why was erased under retention."
        raise PlanRefused(detail, transaction_id=str(known.key_transaction_id))
    text = known.key_answer
    if not text and known.key_transaction_id is not None:
        text = render(Transaction.objects.get(pk=known.key_transaction_id), None)
    return Answer(known.key_status or 201, text or "", known.key_transaction_id, is_replay=True)


def _answer_with_holder(
    holder_id: UUID, input_hash: str, note: IdempotencyKey, render: Render
) -> Answer:
    """The operation is live already: the same input gets the same transaction, another a 409."""
    holder = Transaction.objects.get(pk=holder_id)
    if holder.ending == Ending.ABANDONED:
        raise InProgress("What an earlier plan of this operation held is still being let go of.")
    if holder.proposed_by != note.agent:
        raise OperationTaken()  # and nothing of what the other one is about
    if holder.input_hash != input_hash:
        raise OperationKeyConflict(
            "Another transaction has this operation key, with another input.",
            snapshot=holder,
            duplicate_of=str(holder.pk),
            operation_key=holder.operation_key,
            live_input_hash=holder.input_hash,
            your_input_hash=input_hash,
        )
    note.status, note.transaction_id = 200, holder.pk
    note.answer = render(holder, holder.pk)
    entries.remember(note)
    return Answer(note.status, note.answer, holder.pk)


def _answer_after_losing(
    row: Transaction, note: IdempotencyKey, operation_key: str, render: Render
) -> Answer:
    """Between our look and our INSERT somebody else took the key or the operation."""
    taken = IdempotencyKey.objects.filter(agent=note.agent, route=note.route, key=note.key).first()
    if taken is not None and taken.transaction_id is None:
        raise CanceledBefore()
    if taken is not None:
        raise InProgress()
    holder = Transaction.objects.holding(row.tenant, operation_key).first()
    if holder is None:
        raise InProgress()
    return _answer_with_holder(holder.pk, row.input_hash, note, render)
