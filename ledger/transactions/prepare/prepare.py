"""``prepare()``: from a request to a transaction that waits for sign-off. The hot path."""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import DatabaseError, IntegrityError, InterfaceError
from django.db.transaction import atomic

from ledger import states
from ledger.contracts import Context, RequiredApprover, Tool
from ledger.errors import (
    CanceledBefore,
    IdempotencyKeyReused,
    InProgress,
    LedgerError,
    LimitReached,
    OperationHeld,
    OperationKeyConflict,
    OperationTaken,
    PlanRefused,
    PlansBusy,
    PlanTimedOut,
)
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.limits import stocks
from ledger.models import HOLDS_ITS_KEY, Ending, IdempotencyKey, Transaction, new_id
from ledger.principals import Principal, Surface
from ledger.seals import intents
from ledger.states import State
from ledger.tools import refuse_held
from ledger.transactions.decisions import approve_by_policy
from ledger.transactions.prepare import insert, plan_pool
from ledger.transactions.prepare.abandoned_plans import abandon
from ledger.transactions.prepare.drafts import columns
from ledger.transactions.prepare.plan_pool import Place
from ledger.transactions.prepare.planning import Planned, plan
from ledger.transactions.prepare.proposals import PREPARE_ROUTE, Proposal, Render, Request, checked

# More than the INSERT after a plan takes (``sessions.STATEMENT_S`` and a margin).
INSERT_TIME = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a prepare: an HTTP status and a JSON text, stored and replayed unchanged."""

    status: int
    text: str
    transaction_id: UUID | None
    is_replay: bool = False


def prepare(
    proposal: Proposal,
    *,
    by: Principal,
    tenant: str,
    key: str,
    via: Surface,
    render: Render,
    tool: Tool[Any, Any] | None = None,
) -> Answer:
    """Plan a proposal, hold what it needs and put it before an approver.

    ``tool`` is one that no name leads to; the caller knows that the agent may use it.

    Repeating a request with the same key returns the first answer. If a live transaction has the
    same operation and the same input, the answer is that transaction. Nothing is written when
    this raises, except for a refused plan, which is stored as REFUSED.

    Raises ``IdempotencyKeyMissing, IdempotencyKeyReused, InProgress, CanceledBefore, UnknownTool,
    ToolHeld, InvalidRequest, LimitReached, OperationTaken, OperationHeld, OperationKeyConflict,
    PlanFailed, PlanRefused, PlansBusy, PlanTimedOut``.
    """
    request = checked(proposal, by=by, tenant=tenant, key=key, via=via, render=render, tool=tool)
    with insert.admitted(
        by, tenant, route=PREPARE_ROUTE, key=key, operation_key=request.operation_key
    ) as admission:
        if admission.key_status is not None:
            return _replay(request, admission)
        holder_id = admission.holder_id or _holder_by_alias(request)
        if holder_id is not None:
            return _answer_with_holder(request, holder_id)
        if admission.late_id is not None:
            raise OperationHeld(
                f"A receipt came late for transaction {admission.late_id} of the same operation, "
                "and nobody has looked at it yet.",
                operation_key=request.operation_key,
            )
        refuse_held(request.tenant, request.tool.name, request.tool.version)
        with stocks.pending.places() as places:
            places.take(request.by, request.tenant)
            return _plan_and_insert(request, admission)


def _holder_by_alias(request: Request) -> UUID | None:
    """The transaction that has the operation under a key of an earlier contract."""
    keys = request.tool.earlier_operation_keys_for(request.tenant, request.meaning)
    if not keys:
        return None
    rows = Transaction.objects.filter(tenant=request.tenant, operation_key__in=keys)
    held = rows.filter(HOLDS_ITS_KEY) | rows.with_late_receipt()
    return held.values_list("pk", flat=True).first()


# --- a new transaction --------------------------------------------------------------------------


def _plan_and_insert(request: Request, admission: insert.Admission) -> Answer:
    """Plan, then insert the transaction. If either fails, what the plan held is released."""
    began = time.monotonic()
    transaction_id, planned = new_id(), Planned()
    try:
        context = _context(request, transaction_id)
        planned, refusal = _planned(request, context, admission)
        created_at = admission.now + timedelta(seconds=time.monotonic() - began)
        row = Transaction(**columns(request, transaction_id, planned, created_at))
        row.intent_digest = intents.digest_of(intents.intent_of(row))
        if refusal is None:
            return _insert_prepared(request, row, admission)
    except (PlanTimedOut, LimitReached, PlansBusy, InProgress):
        raise  # nothing was planned, or it is released once the plan returns
    except BaseException as failure:
        row = Transaction(**columns(request, transaction_id, planned, admission.now))
        # A connection was lost in the database alone: what fails in a plan is PlanFailed.
        _release(request, row, only_by_row=isinstance(failure, CONNECTION_LOST))
        if isinstance(failure, IntegrityError):
            return _answer_after_lost_race(request)
        raise
    _insert_refused(request, row, refusal, admission)
    raise PlanRefused(refusal.detail, transaction_id=str(row.pk))


def _planned(
    request: Request, context: Context, admission: insert.Admission
) -> tuple[Planned, PlanRefused | None]:
    """The plan; of a tool that has one, from a thread of the pool, within the contract's time."""
    call = partial(
        plan, request.tool, request.arguments, context, stated_reason=request.proposal.reason
    )
    if not request.tool.has("plan"):
        return call()

    def release(late: Future[tuple[Planned, PlanRefused | None]]) -> None:
        planned, refusal = (Planned(), None) if late.exception() else late.result()
        if refusal is not None:
            return
        row = Transaction(**columns(request, context.transaction_id, planned, admission.now))
        # Another process may plan the operation by now, and have the same hold: once its row is
        # inserted, ``abandon`` sees whose the hold is.
        with insert.operation_locked(row.tenant, row.operation_key, context.timeout + INSERT_TIME):
            _release(request, row, only_by_row=True)

    place = Place(request.by, request.tenant, request.tool.name, request.operation_key)
    return plan_pool.run(call, place, context.timeout, release)


def _release(request: Request, row: Transaction, *, only_by_row: bool) -> None:
    """Give back what the plan of ``row`` held."""
    abandon(
        row,
        request.tool,
        request.arguments,
        by=request.by,
        via=request.via,
        only_by_row=only_by_row,
    )


def _context(request: Request, transaction_id: UUID) -> Context:
    return Context(
        transaction_id=transaction_id,
        tenant=request.tenant,
        operation_key=request.operation_key,
        timeout=request.tool.contract.timeout,
    )


def _insert_prepared(request: Request, row: Transaction, admission: insert.Admission) -> Answer:
    row.state = State.PREPARED
    key = request.idempotency_key(row.pk, status=201, answer=request.render(row, None))
    insert.insert_transaction(
        row, states.PREPARE, by=request.by, via=request.via, key=key, admission=admission
    )
    if row.required_approver == RequiredApprover.NONE:
        # The transaction is inserted; if this fails, the sweeper signs it off.
        with suppress(LedgerError, DatabaseError, InterfaceError):
            approve_by_policy(row.pk, row.intent_digest)
    return Answer(key.status, key.answer, row.pk)


def _insert_refused(
    request: Request, row: Transaction, refusal: PlanRefused, admission: insert.Admission
) -> None:
    """Store the refusal, so that an agent that repeats the request gets the same answer."""
    row.state = State.REFUSED
    row.ended_at = row.created_at
    row.ending_reason = row.error = refusal.detail[:2000]
    intents.refuse_unsafe_text([row.error, row.action_summary])
    key = request.idempotency_key(row.pk, status=refusal.status, answer=row.error)
    insert.insert_transaction(
        row, states.REFUSE, by=request.by, via=request.via, key=key, admission=admission
    )


# --- answers without a new transaction ----------------------------------------------------------


def _replay(request: Request, admission: insert.Admission) -> Answer:
    """The first answer again; after its erasure, rendered from what is left of the transaction."""
    transaction_id = admission.key_transaction_id
    if admission.key_status == CanceledBefore.status and transaction_id is None:
        raise CanceledBefore()
    if admission.key_hash != request.fingerprint:
        raise IdempotencyKeyReused()
    if admission.key_status == PlanRefused.status:
        detail = admission.key_answer or "The plan was refused; why was erased under retention."
        raise PlanRefused(detail, transaction_id=str(transaction_id))
    text = admission.key_answer
    if not text and transaction_id is not None:
        text = request.render(Transaction.objects.get(pk=transaction_id), None)
    return Answer(admission.key_status or 201, text or "", transaction_id, is_replay=True)


def _answer_with_holder(request: Request, holder_id: UUID) -> Answer:
    """Answer with the live transaction of the operation. Raises if its input is another."""
    with atomic():
        # Locked until the answer is stored: an erasure meanwhile would not empty this key.
        holder = Transaction.objects.select_for_update(no_key=True).get(pk=holder_id)
        if holder.ending == Ending.ABANDONED:
            raise InProgress(
                "What an earlier plan of this operation held is still being let go of."
            )
        if holder.proposed_by != str(request.by):
            raise OperationTaken()  # says nothing about the other agent's transaction
        if holder.input_hash != request.input_hash:
            raise OperationKeyConflict(
                "Another transaction has this operation key, with another input.",
                snapshot=holder,
                duplicate_of=str(holder.pk),
                operation_key=holder.operation_key,
                live_input_hash=holder.input_hash,
                your_input_hash=request.input_hash,
            )
        answer = request.render(holder, holder.pk)
        key = request.idempotency_key(holder.pk, status=200, answer=answer)
        insert.remember(key)
    return Answer(key.status, key.answer, holder.pk)


def _answer_after_lost_race(request: Request) -> Answer:
    """Answer when another request took the key or the operation after this one was admitted."""
    existing_request = IdempotencyKey.objects.filter(
        agent=str(request.by), route=PREPARE_ROUTE, key=request.key
    ).first()
    if existing_request is not None and existing_request.transaction_id is None:
        raise CanceledBefore()
    if existing_request is not None:
        raise InProgress()
    holder = Transaction.objects.holding(request.tenant, request.operation_key).first()
    if holder is None:
        raise InProgress()
    return _answer_with_holder(request, holder.pk)
