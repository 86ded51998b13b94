"""The skill ``prepare_transaction``: proposes a transaction; the task follows its state.

The task's idempotency key is closed in the same database transaction as the end of a task that
proposed nothing, so that a proposal that is still being planned cannot be entered after it.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.transaction import atomic

from a2a import states, tasks
from a2a.builtin import endings
from a2a.builtin.claims import VIA, put_back
from a2a.errors import Reason, TaskNotPossible
from a2a.models import ASSENT, Message, Task
from a2a.states import INTERRUPTED, TaskReasons, TaskState
from a2a.tasks import questions
from ledger.agents import Caller, may_propose, unknown
from ledger.api import render_token
from ledger.errors import InProgress, LedgerError, LimitReached, PlanFailed, PlansBusy, kept
from ledger.execution import crash_points
from ledger.models import Ending, Scope, Transaction
from ledger.principals import Surface
from ledger.seals import as_text
from ledger.states import State
from ledger.tools import acts_itself
from ledger.transactions import coordinator, outcome_of
from ledger.transactions.coordinator import Proposal


def prepare(task: Task) -> None:
    """Propose what a claimed task asks for, then wait for the sign-off."""
    try:
        transaction_id = _propose(task)
    except (InProgress, LimitReached, PlanFailed, PlansBusy) as delay:
        # Another process plans with this key, the tool does not respond, all places for plans are
        # taken, or the agent has too much pending: try again later.
        put_back(task, delay.detail, Q(fencing_token=task.fencing_token))
    except LedgerError as refusal:
        error = {"code": refusal.code, **refusal.extra}
        fail_unprepared(task.pk, Reason.REFUSED, refusal.detail, error)
    else:
        crash_points.reach("own task proposed")
        _await_sign_off(task, transaction_id)


def _propose(task: Task) -> UUID | None:
    fields: dict[str, Any] = task.input or {}
    if not may_propose(task.lent_scopes, fields["tool"]):
        raise unknown(fields["tool"])
    prepared = coordinator.prepare(
        Proposal(
            tool=fields["tool"],
            arguments=fields["arguments"],
            reason=fields.get("reason", ""),
            run_id=fields.get("run_id", ""),
            step_id=fields.get("step_id", ""),
            traceparent=task.traceparent,
            replaces=UUID(fields["replaces"]) if "replaces" in fields else None,
            ttl=timedelta(seconds=fields["ttl_s"]) if "ttl_s" in fields else None,
        ),
        by=task.submitter,
        tenant=task.tenant,
        key=tasks.request_key(task),
        via=VIA,
        render=render_token,
    )
    return prepared.transaction_id


def _await_sign_off(task: Task, transaction_id: UUID | None) -> None:
    """Link the task to its transaction, whose deadline and retention replace the task's own.

    Any process that proposed with the task's key may do this: the key names one transaction.
    """
    row = Transaction.objects.filter(pk__in=[transaction_id]).first()
    retain_until = _retain_until(task, row)
    with suppress(TaskNotPossible):
        tasks.await_sign_off(
            task.pk,
            by=ASSENT,
            via=VIA,
            reason=TaskReasons.AWAITS_SIGN_OFF(),
            only_if=Q(transaction=None),
            details={"transaction": str(transaction_id), "retain_until": as_text(retain_until)},
            transaction_id=transaction_id,
            expires_at=None,
            lease_expires_at=None,
            retain_until=retain_until,
        )
    crash_points.reach("own task tied")
    follow_transaction(task.pk)


def _retain_until(task: Task, row: Transaction | None) -> datetime | None:
    """Until when the task's content is kept: the tool's retention, counted from the task as well.

    The transaction may be an older one of the same operation, whose retention is nearly over.
    """
    if row is None:
        return task.retain_until
    return max(row.retain_until, task.created_at + (row.retain_until - row.created_at))


def fail_unprepared(task_id: UUID, code: Reason, reason: str, error: dict[str, Any]) -> None:
    """Fail a task without a transaction; if one was entered meanwhile, follow that instead."""
    try:
        with atomic():
            task = Task.objects.select_for_update().get(pk=task_id)
            entered = tasks.close_request(task)
            row = Transaction.objects.filter(pk=entered).first() if entered else None
            is_prepared = row is not None and row.state != State.REFUSED
            if not is_prepared:
                details = {"transaction": str(entered)} if entered else {}
                endings.fail(task, code, reason, error, transaction_id=entered, details=details)
    except TaskNotPossible:
        return  # it has ended meanwhile
    if is_prepared:
        _await_sign_off(task, entered)


def follow_transaction(task_id: UUID) -> None:
    """Bring the task to the state of its transaction. May be called any number of times."""
    task = Task.objects.of_assent().select_related("transaction").filter(pk=task_id).first()
    if task is None or task.transaction is None:
        return
    row = task.transaction
    with suppress(TaskNotPossible):
        match row.state:
            case State.PREPARED:
                _wait_for_people(task, row)
            case State.COMMITTED | State.COMPENSATING | State.COMPENSATED:
                _complete_with_receipt(task, row)
            case State.ABORTED:
                _end_without_effect(task, row)
            case State.FAILED | State.REFUSED:
                endings.fail(task, Reason.REFUSED, kept(row, "ending_reason") or kept(row, "error"))
            case _:
                _resume(task, _note_of(row))


def _wait_for_people(task: Task, row: Transaction) -> None:
    """In AUTH_REQUIRED; in INPUT_REQUIRED while they wait for an answer of the task's client."""
    question = coordinator.requests_to_agent(row)["question"] if row.asked_at else None
    if row.proposed_by != task.submitted_by:
        question = None  # the duplicate of another agent's proposal
    if task.state == TaskState.WORKING or (
        task.state == TaskState.INPUT_REQUIRED and question is None
    ):
        reason = TaskReasons.AWAITS_SIGN_OFF()
        task = tasks.await_sign_off(task.pk, by=ASSENT, via=VIA, reason=reason)
    if question is not None and task.state == TaskState.AUTH_REQUIRED:
        tasks.ask_about_transaction(task.pk, by=ASSENT, via=VIA, text=question["text"])


def answer(
    task: Task, value: Any, *, caller: Caller, message: Message | None, via: Surface
) -> None:
    """Answer the question of people about the transaction that the task proposed.

    ``message`` is what the answer came in. Raises ``NotAllowed, NotPossible, InvalidRequest``, and
    what adding the message raises.
    """
    caller.require(Scope.PROPOSE)
    tasks.require_submitter(task, caller)
    assert task.transaction_id is not None
    with atomic():
        if message is not None:
            tasks.add_client_message(task, message, caller=caller, via=via)
        text = questions.as_text(value)
        coordinator.answer(task.transaction_id, by=caller.principal, via=via, text=text)
    follow_transaction(task.pk)


def _note_of(row: Transaction) -> str:
    if acts_itself(row):
        return outcome_of(row, acts_itself=True).sentence
    return f"The transaction is {row.get_state_display()}."


def _resume(task: Task, note: str) -> None:
    if task.state in INTERRUPTED:
        tasks.resume(task.pk, by=ASSENT, via=VIA, note=note)


def _complete_with_receipt(task: Task, row: Transaction) -> None:
    _resume(task, "Signed off.")
    receipt = {
        "transaction_id": str(row.pk),
        "receipt": row.receipt,
        "receipt_url": row.receipt_url,
        "result": row.result,
        "outcome": outcome_of(row).as_json(),
    }
    if row.proposed_by == task.submitted_by:
        told = coordinator.requests_to_agent(row)
        receipt |= {name: told[name] for name in ("revision", "changed", "replaces")}
    endings.complete(task, receipt, "receipt", "Receipt")


def _end_without_effect(task: Task, row: Transaction) -> None:
    reason = kept(row, "ending_reason") or row.get_ending_display()
    if task.state == TaskState.INPUT_REQUIRED:
        _resume(task, reason)
    if row.ending == Ending.SENT_BACK:
        error = {"code": Ending.SENT_BACK.value, "replaces": row.pk}
        endings.fail(task, Reason.NOT_SIGNED_OFF, outcome_of(row).sentence, error)
    elif row.ending in {Ending.EXPIRED, Ending.CANCELED}:
        code = Reason.NOT_SIGNED_OFF if row.ending == Ending.EXPIRED else Reason.CANCELED_BY_CLIENT
        tasks.end(task.pk, states.CANCEL, by=ASSENT, via=VIA, code=code, reason=reason)
    else:
        endings.fail(task, Reason.NOT_SIGNED_OFF, reason)
