"""Answers to a prepare that lead to no new transaction: a repeated request, a known operation."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.transaction import atomic

from ledger.errors import (
    CanceledBefore,
    DeniedByRule,
    IdempotencyKeyReused,
    InProgress,
    OperationHeld,
    OperationKeyConflict,
    OperationTaken,
    PlanRefused,
)
from ledger.models import HOLDS_ITS_KEY, Ending, IdempotencyKey, Transaction
from ledger.states import State
from ledger.transactions.prepare.admission import Admission
from ledger.transactions.prepare.proposals import PREPARE_ROUTE, Request


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a prepare: an HTTP status and a JSON text, stored and replayed unchanged."""

    status: int
    text: str
    transaction_id: UUID | None
    is_replay: bool = False


def earlier_answer(request: Request, admission: Admission) -> Answer | None:
    """The answer where the request or its operation is known; ``None`` where both are new."""
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
    return None


def _holder_by_alias(request: Request) -> UUID | None:
    """The transaction that has the operation under a key of an earlier contract."""
    keys = request.tool.earlier_operation_keys_for(request.tenant, request.meaning)
    if not keys:
        return None
    rows = Transaction.objects.filter(tenant=request.tenant, operation_key__in=keys)
    held = rows.filter(HOLDS_ITS_KEY) | rows.with_late_receipt()
    return held.values_list("pk", flat=True).first()


def _replay(request: Request, admission: Admission) -> Answer:
    """The first answer again; after its erasure, rendered from what is left of the transaction."""
    transaction_id = admission.key_transaction_id
    if admission.key_status == CanceledBefore.status and transaction_id is None:
        raise CanceledBefore()
    if admission.key_hash != request.fingerprint:
        raise IdempotencyKeyReused()
    if admission.key_status == PlanRefused.status:
        raise _refused_again(transaction_id, admission.key_answer)
    text = admission.key_answer
    if not text and transaction_id is not None:
        text = request.render(Transaction.objects.get(pk=transaction_id), None)
    return Answer(admission.key_status or 201, text or "", transaction_id, is_replay=True)


def _refused_again(transaction_id: UUID | None, detail: str | None) -> PlanRefused:
    refused = Transaction.objects.filter(pk__in=[transaction_id])
    terms = refused.values_list("terms", flat=True).first()
    if terms and terms.get("deny"):
        return DeniedByRule(terms["set"], terms["rules"], transaction_id=str(transaction_id))
    detail = detail or "The plan was refused; why was erased under retention."
    return PlanRefused(detail, transaction_id=str(transaction_id))


def _answer_with_holder(request: Request, holder_id: UUID) -> Answer:
    """Answer with the live transaction of the operation. Raises if its input is another."""
    with atomic():
        # Locked until the answer is stored: an erasure meanwhile would not empty this key.
        holder = Transaction.objects.select_for_update(no_key=True).get(pk=holder_id)
        if holder.ending == Ending.ABANDONED:
            raise InProgress("What an earlier plan of this operation held is still being released.")
        if holder.pk == request.proposal.replaces and holder.state == State.ROLLING_BACK:
            raise InProgress("What was held for the one that it replaces is still being released.")
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
        key.save(force_insert=True)
    return Answer(key.status, key.answer, holder.pk)


def answer_after_lost_race(request: Request) -> Answer:
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
