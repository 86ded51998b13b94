"""What Assent does itself for a task: bring a transaction to sign-off, put a question to people.

Each step may run twice or be lost; ``go_on_with_all`` finds what was left, once a second.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Q
from django.db.transaction import atomic

from a2a import questions, states, tasks
from a2a.answerers import APPROVER
from a2a.errors import Reason, TaskNotPossible
from a2a.models import ASSENT, QuestionState, Task
from a2a.own_skills import ASK_A_PERSON, PREPARE_TRANSACTION
from a2a.states import TaskState
from a2a.transitions import advance
from ledger import coordinator, doorbell
from ledger.coordinator import Proposal
from ledger.errors import LedgerError, PlanFailed
from ledger.models import Ending, Transaction
from ledger.principals import Principal
from ledger.rendering import render_token
from ledger.states import State

logger = logging.getLogger(__name__)

VIA = "a2a"
BATCH = 500

__all__ = ["ASSENT"]


def begin(task_id: UUID) -> None:
    """Take the task up. Whatever is refused becomes the task's reason."""
    task = Task.objects.of_assent().filter(pk=task_id, state=TaskState.SUBMITTED).first()
    if task is None:
        return
    try:
        {PREPARE_TRANSACTION.id: _prepare, ASK_A_PERSON.id: _ask}[task.skill_slug](task)
    except PlanFailed:
        logger.info("the plan for %s did not answer; tried again", task_id)
    except TaskNotPossible:
        pass  # canceled meanwhile, or another process was faster
    except LedgerError as refusal:
        _fail(task, Reason.REFUSED, refusal.detail, {"code": refusal.code, **refusal.extra})


# --- a transaction -------------------------------------------------------------------------


def _prepare(task: Task) -> None:
    said: dict[str, Any] = task.input or {}
    answer = coordinator.prepare(
        Proposal(
            tool=said["tool"],
            arguments=said["arguments"],
            reason=said.get("reason", ""),
            run_id=said.get("run_id", ""),
            step_id=said.get("step_id", ""),
            traceparent=f"00-{task.trace_id}-{task.pk.hex[:16]}-01" if task.trace_id else "",
            ttl=timedelta(seconds=said["ttl_s"]) if "ttl_s" in said else None,
        ),
        by=_submitter(task),
        tenant=task.tenant,
        key=f"task:{task.pk}",
        via=VIA,
        render=render_token,
    )
    details = {"transaction": str(answer.transaction_id)}
    _claim(task, transaction_id=answer.transaction_id)
    with suppress(TaskNotPossible):
        advance(
            task.pk, states.AWAIT_SIGN_OFF, by=ASSENT, via=VIA, details=details,
            said="Waiting for sign-off.",
        )  # fmt: skip
    mirror(task.pk)


def mirror(task_id: UUID) -> None:
    """Bring the task to where its transaction is."""
    task = Task.objects.of_assent().select_related("transaction").filter(pk=task_id).first()
    if task is None or task.transaction is None:
        return
    row = task.transaction
    with suppress(TaskNotPossible):
        match row.state:
            case State.PREPARED:
                _await(task)
            case State.COMMITTED | State.COMPENSATING | State.COMPENSATED:
                _complete_with_receipt(task, row)
            case State.ABORTED:
                _end_without_effect(task, row)
            case State.FAILED | State.REFUSED:
                _fail(task, Reason.REFUSED, row.ending_reason or row.error, {})
            case _:
                _resume(task, f"The transaction is {row.get_state_display()}.")


def _await(task: Task) -> None:
    if task.state == TaskState.WORKING:
        advance(task.pk, states.AWAIT_SIGN_OFF, by=ASSENT, via=VIA, said="Waiting for sign-off.")


def _resume(task: Task, note: str) -> None:
    if task.state == TaskState.AUTH_REQUIRED:
        advance(task.pk, states.RESUME, by=ASSENT, via=VIA, said=note, note=note)


def _complete_with_receipt(task: Task, row: Transaction) -> None:
    _resume(task, "Signed off.")
    receipt = {
        "transaction_id": str(row.pk),
        "receipt": row.receipt,
        "receipt_url": row.receipt_url,
        "result": row.result,
    }
    _complete(task, receipt, "receipt", "Receipt")


def _end_without_effect(task: Task, row: Transaction) -> None:
    reason = row.ending_reason or row.get_ending_display()
    if row.ending in {Ending.EXPIRED, Ending.CANCELED}:
        code = Reason.NOT_SIGNED_OFF if row.ending == Ending.EXPIRED else Reason.CANCELED_BY_CLIENT
        tasks.end(task.pk, states.CANCEL, by=ASSENT, via=VIA, code=code, reason=reason)
    else:
        _fail(task, Reason.NOT_SIGNED_OFF, reason, {})


# --- a question ------------------------------------------------------------------------------


def _ask(task: Task) -> None:
    said: dict[str, Any] = task.input or {}
    with atomic():
        claimed = _claim(task, lease_expires_at=tasks.lease_from_now())
        questions.ask(
            task.pk,
            agent=ASSENT,
            fencing_token=claimed.fencing_token,
            text=said["text"],
            form=said.get("form"),
            evidence=said.get("evidence"),
            may_answer=[APPROVER],
            ttl=timedelta(seconds=said["ttl_s"]) if "ttl_s" in said else None,
            asked_by=_submitter(task),
            via=VIA,
        )


def _finish_answered(task: Task) -> None:
    """The answer is what the task was for."""
    question = task.questions.filter(state=QuestionState.ANSWERED).first()
    if question is None:
        return
    found = {"answer": question.answer, "answered_by": question.answered_by_name}
    with suppress(TaskNotPossible):
        _complete(task, found, "answer", "Answer")


# --- both ------------------------------------------------------------------------------------


def go_on_with_all() -> None:
    """Whatever was left half-way by a process that died."""
    waiting = Q(state=TaskState.AUTH_REQUIRED, transaction__state=State.PREPARED)
    asking = Q(state=TaskState.INPUT_REQUIRED)
    left = Task.objects.of_assent().exclude(waiting).exclude(asking)
    for task_id in left.values_list("pk", flat=True)[:BATCH]:
        go_on_with(task_id)


def go_on_with(task_id: UUID) -> None:
    task = Task.objects.of_assent().filter(pk=task_id).first()
    if task is None:
        return
    if task.transaction_id is not None:
        mirror(task_id)
    elif task.state == TaskState.SUBMITTED:
        begin(task_id)
    elif task.skill_slug == ASK_A_PERSON.id:
        _finish_answered(task)


def on_bell(subject: UUID, kind: str, **_: object) -> None:
    """A transaction moved, or a question was answered: the task that waits for it goes on."""
    if kind == "task_answered":
        go_on_with(subject)
    elif kind not in {"prepared", "refused"} and not kind.startswith("task_"):
        mine = Task.objects.of_assent().filter(transaction=subject)
        for task_id in mine.values_list("pk", flat=True):
            mirror(task_id)


def _submitter(task: Task) -> Principal:
    kind, _, name = task.submitted_by.partition(":")
    return Principal(kind, name, task.submitted_by_name)


def _claim(task: Task, **changes: Any) -> Task:
    return advance(
        task.pk, states.CLAIM, by=ASSENT, via=VIA, fencing_token=F("fencing_token") + 1,
        attempts=F("attempts") + 1, expires_at=None, **changes,
    )  # fmt: skip


def _complete(task: Task, result: dict[str, Any], artifact_id: str, name: str) -> None:
    plain = json.loads(json.dumps(result, default=str))
    tasks.finish(
        task.pk, by=ASSENT, via=VIA, result=plain, artifact_id=artifact_id, artifact_name=name
    )


def _fail(task: Task, code: Reason, reason: str, error: dict[str, Any]) -> None:
    plain = json.loads(json.dumps(error, default=str))
    with suppress(TaskNotPossible):
        advance(
            task.pk, states.FAIL, by=ASSENT, via=VIA, said=reason, details={"code": code.value},
            reason_code=code, reason=reason, errors=[plain] if plain else [],
        )  # fmt: skip


doorbell.event_committed.connect(on_bell, dispatch_uid="a2a.own_work.on_bell")
