"""What Assent does itself for a task: bring a transaction to sign-off, put a question to people.

A task is taken up by claiming it, with a lease. Whoever dies half-way is followed by another, who
proposes with the same idempotency key: the ledger enters one transaction for one task. A task that
ends unprepared takes that key, so that no proposal that is still planning can enter after it.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic

from a2a import states, tasks
from a2a.errors import Reason, TaskNotFound, TaskNotPossible
from a2a.models import ASSENT, QuestionState, Task
from a2a.models.answerers import APPROVER
from a2a.models.builtin_skills import ASK_A_PERSON
from a2a.states import TaskState
from a2a.tasks import questions, withdrawals
from a2a.tasks.transitions import advance
from ledger.agents import allowances
from ledger.api.rendering import render_token
from ledger.errors import InProgress, LedgerError, PlanFailed
from ledger.events import doorbell
from ledger.events.seals import as_text
from ledger.execution import crash_points
from ledger.models import Ending, Transaction
from ledger.states import State
from ledger.transactions import coordinator
from ledger.transactions.coordinator import Proposal

logger = logging.getLogger(__name__)

VIA = "a2a"
BATCH = 500
FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=1), timedelta(seconds=30)

__all__ = ["ASSENT"]

# Free to be taken up, by the database's clock.
DUE = Q(next_attempt_at=None) | Q(next_attempt_at__lte=Now())


def begin(task_id: UUID) -> None:
    """Claim the task and bring it before people.

    Does nothing when somebody else has claimed it, or it has ended.
    """
    try:
        task = claim(task_id)
    except (TaskNotPossible, TaskNotFound):
        return
    go_on(task)


def go_on(task: Task) -> None:
    """Bring a claimed task before people. Whatever is refused becomes its reason."""
    crash_points.reach("own task claimed")
    with suppress(TaskNotPossible):
        if task.skill_slug == ASK_A_PERSON.id:
            _ask(task)
        else:
            _prepare(task)


def claim(task_id: UUID) -> Task:
    """The task with a lease on it. Raises ``TaskNotPossible`` when it is not free."""
    return advance(
        task_id, states.CLAIM, by=ASSENT, via=VIA, only_if=DUE & Q(owner=str(ASSENT)),
        fencing_token=F("fencing_token") + 1, attempts=F("attempts") + 1, next_attempt_at=None,
        lease_expires_at=Now() + timedelta(seconds=settings.LEASE_S),
    )  # fmt: skip


# --- a transaction -------------------------------------------------------------------------


def _prepare(task: Task) -> None:
    """Propose what the task asks for, and have it wait for its sign-off."""
    try:
        transaction_id = _propose(task)
    except (InProgress, PlanFailed) as delay:
        # Another one plans with this key, or the tool does not answer: not an end.
        _put_back(task, delay.detail, Q(fencing_token=task.fencing_token))
    except LedgerError as refusal:
        error = {"code": refusal.code, **refusal.extra}
        _end_unprepared(task.pk, Reason.REFUSED, refusal.detail, error)
    else:
        crash_points.reach("own task proposed")
        _await_sign_off(task.pk, transaction_id)


def _propose(task: Task) -> UUID | None:
    asked: dict[str, Any] = task.input or {}
    if not allowances.may_propose(task.lent_scopes, asked["tool"]):
        raise allowances.unknown(asked["tool"])
    answer = coordinator.prepare(
        Proposal(
            tool=asked["tool"],
            arguments=asked["arguments"],
            reason=asked.get("reason", ""),
            run_id=asked.get("run_id", ""),
            step_id=asked.get("step_id", ""),
            traceparent=task.traceparent,
            ttl=timedelta(seconds=asked["ttl_s"]) if "ttl_s" in asked else None,
        ),
        by=withdrawals.submitter_of(task),
        tenant=task.tenant,
        key=withdrawals.request_key(task),
        via=VIA,
        render=render_token,
    )
    return answer.transaction_id


def _await_sign_off(task_id: UUID, transaction_id: UUID | None) -> None:
    """Tie the task to its transaction. From then on its clock and retention are that one's.

    Whoever proposed with the task's key may do this: the key names one transaction.
    """
    rows = Transaction.objects.filter(pk__in=[transaction_id])
    retain_until = rows.values_list("retain_until", flat=True).first()
    with suppress(TaskNotPossible):
        advance(
            task_id, states.AWAIT_SIGN_OFF, by=ASSENT, via=VIA, only_if=Q(transaction=None),
            details={"transaction": str(transaction_id), "retain_until": as_text(retain_until)},
            said="Waiting for sign-off.", transaction_id=transaction_id, expires_at=None,
            lease_expires_at=None, retain_until=retain_until,
        )  # fmt: skip
    crash_points.reach("own task tied")
    mirror(task_id)


def _put_back(task: Task, why: str, only_if: Q) -> None:
    wait = min(FIRST_WAIT * 2 ** min(max(task.attempts - 1, 0), 10), LONGEST_WAIT)
    with suppress(TaskNotPossible):
        advance(
            task.pk, states.PUT_BACK, by=ASSENT, via=VIA, said=why, only_if=only_if,
            details={"attempt": task.attempts}, lease_expires_at=None,
            next_attempt_at=Now() + wait,
        )  # fmt: skip


def _end_unprepared(task_id: UUID, code: Reason, reason: str, error: dict[str, Any]) -> None:
    """Fail a task that has no transaction, unless it turns out to have one.

    The task's key is taken in the same database transaction as its end: a proposal that another
    process is still planning cannot enter after it, and one that has entered is kept to.
    """
    try:
        with atomic():
            task = Task.objects.select_for_update().get(pk=task_id)
            entered = withdrawals.entered_as(task)
            row = Transaction.objects.filter(pk=entered).first() if entered else None
            goes_on = row is not None and row.state != State.REFUSED
            if not goes_on:
                _fail(task, code, reason, error, transaction_id=entered)
    except TaskNotPossible:
        return  # it ended otherwise meanwhile
    if goes_on:
        _await_sign_off(task_id, entered)


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
                _fail(task, Reason.REFUSED, row.ending_reason or row.error)
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
        _fail(task, Reason.NOT_SIGNED_OFF, reason)


# --- a question ------------------------------------------------------------------------------


def _ask(task: Task) -> None:
    asked: dict[str, Any] = task.input or {}
    try:
        questions.ask(
            task.pk,
            agent=ASSENT,
            fencing_token=task.fencing_token,
            text=asked["text"],
            form=asked.get("form"),
            evidence=asked.get("evidence"),
            may_answer=[APPROVER],
            ttl=timedelta(seconds=asked["ttl_s"]) if "ttl_s" in asked else None,
            asked_by=withdrawals.submitter_of(task),
            via=VIA,
        )
    except TaskNotPossible:
        raise
    except LedgerError as refusal:
        _fail(task, Reason.REFUSED, refusal.detail, {"code": refusal.code})


def finish_answered(task_id: UUID) -> None:
    """The answer is what the task was for."""
    asking = Task.objects.of_assent().filter(pk=task_id, skill_slug=ASK_A_PERSON.id)
    task = asking.filter(state=TaskState.WORKING).first()
    if task is None:
        return
    question = task.questions.filter(state=QuestionState.ANSWERED).first()
    if question is None:
        return
    outcome = {"answer": question.answer, "answered_by": question.answered_by_name}
    with suppress(TaskNotPossible):
        _complete(task, outcome, "answer", "Answer")


# --- both ------------------------------------------------------------------------------------


def due() -> list[UUID]:
    """Tasks that nobody has claimed; a job takes them up, as a tool may plan for long."""
    free = Task.objects.of_assent().filter(DUE, state=TaskState.SUBMITTED)
    return list(free.order_by("pk").values_list("pk", flat=True)[:BATCH])


def settle_all() -> None:
    """What a dead process, a lost bell or the clock left behind; asks no tool."""
    ours = Task.objects.of_assent()
    _each(ours.filter(_lapsed()), put_back_lapsed)
    _each(_overtime(), time_out)
    waiting = Q(state=TaskState.AUTH_REQUIRED, transaction__state=State.PREPARED)
    _each(ours.filter(transaction__isnull=False).exclude(waiting), mirror)
    _each(ours.filter(skill_slug=ASK_A_PERSON.id, state=TaskState.WORKING), finish_answered)


def _each(rows: QuerySet[Task], settle: Any) -> None:
    for task_id in rows.values_list("pk", flat=True)[:BATCH]:
        settle(task_id)


def _lapsed() -> Q:
    return Q(state=TaskState.WORKING, transaction=None, questions=None, lease_expires_at__lte=Now())


def put_back_lapsed(task_id: UUID) -> None:
    """Whoever had claimed it fell silent, or still plans: another one may look."""
    task = Task.objects.of_assent().filter(_lapsed(), pk=task_id).first()
    if task is not None:
        why = "The process that had taken it up fell silent."
        lapsed = Q(fencing_token=task.fencing_token, lease_expires_at__lte=Now())
        _put_back(task, why, lapsed)


def _overtime() -> QuerySet[Task]:
    """A question has a deadline of its own."""
    return Task.objects.of_assent().overtime().filter(questions=None)


def time_out(task_id: UUID) -> None:
    """It could not be brought before people in its time."""
    if not _overtime().filter(pk=task_id).exists():
        return
    reason = "It could not be prepared in its time. Nothing will be carried out."
    _end_unprepared(task_id, Reason.TIMED_OUT, reason, {})


def on_bell(subject: UUID, kind: str, **_: object) -> None:
    """A transaction moved, or a question was answered: the task that waits for it goes on."""
    if kind == "task_answered":
        finish_answered(subject)
    elif kind not in {"prepared", "refused"} and not kind.startswith("task_"):
        standing_for_it = Task.objects.of_assent().filter(transaction=subject)
        for task_id in standing_for_it.values_list("pk", flat=True):
            mirror(task_id)


def _complete(task: Task, result: dict[str, Any], artifact_id: str, name: str) -> None:
    plain = json.loads(json.dumps(result, default=str))
    tasks.finish(
        task.pk, by=ASSENT, via=VIA, result=plain, artifact_id=artifact_id, artifact_name=name
    )


def _fail(
    task: Task, code: Reason, reason: str, error: dict[str, Any] | None = None, **changes: Any
) -> None:
    plain = json.loads(json.dumps(error or {}, default=str))
    advance(
        task.pk, states.FAIL, by=ASSENT, via=VIA, said=reason, details={"code": code.value},
        reason_code=code, reason=reason, errors=[plain] if plain else [], **changes,
    )  # fmt: skip


doorbell.event_committed.connect(on_bell, dispatch_uid="a2a.builtin.work.on_bell")
