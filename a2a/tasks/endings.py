"""Endings of tasks: completed, failed, declined, canceled, or timed out."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now
from django.db.transaction import atomic

from a2a import states
from a2a.errors import Reason, ResultInvalid, TaskNotPossible
from a2a.models import ASSENT, Task
from a2a.states import TaskReasons, TaskState
from a2a.tasks import leases, withdrawals
from a2a.tasks.artifacts import WholeArtifact, add_artifact, put_artifact
from a2a.tasks.leases import LEASE_LIVES, advance_as_holder, held_by, lost_or_missing
from a2a.tasks.plain_texts import result_parts
from a2a.tasks.transitions import ALWAYS, advance
from a2a.validation import refuse_unstorable
from ledger.contracts import json_schemas
from ledger.errors import NotPossible
from ledger.principals import SWEEPER, Principal, Surface
from ledger.states import Move

# --- by the worker that holds the task --------------------------------------------------------


def complete(
    task_id: UUID,
    *,
    agent: Principal,
    fencing_token: int,
    result: Any,
    note: str = "",
    cost: dict[str, Any] | None = None,
    via: Surface,
) -> Task:
    """Complete the task with a result, which also becomes the artifact ``result``.

    Repeating the call with the same token and result changes nothing. Raises ``ResultInvalid`` (the
    worker keeps its lease), ``InvalidRequest, TaskLeaseLost, TaskNotFound``.
    """
    refuse_unstorable([result, note])
    task = Task.objects.select_related("skill").filter(pk=task_id).first()
    if task is not None and _is_repeated(task, agent, fencing_token, result):
        return task
    schema = task.skill.output_schema if task and task.skill else {}
    if errors := json_schemas.misfits(schema, result):
        raise ResultInvalid(errors=errors)
    with atomic():
        if result is not None:
            add_artifact(
                task_id,
                agent=agent,
                fencing_token=fencing_token,
                artifact_id="result",
                name="Result",
                parts=result_parts(result, reads_text=bool(task and task.reads_text)),
                via=via,
            )
        return advance_as_holder(
            task_id,
            states.COMPLETE,
            agent=agent,
            fencing_token=fencing_token,
            via=via,
            reason=note,
            result=result,
            percent=100,
            note=note,
            cost=cost,
        )


def _is_repeated(task: Task, agent: Principal, fencing_token: int, result: Any) -> bool:
    """The same worker completed it with the same result: it never got our response."""
    is_holder = (task.owner, task.fencing_token) == (str(agent), fencing_token)
    return is_holder and task.state == TaskState.COMPLETED and task.result == result


def fail(
    task_id: UUID,
    *,
    agent: Principal,
    fencing_token: int,
    reason: str,
    code: str = "",
    cost: dict[str, Any] | None = None,
    via: Surface,
) -> Task:
    """End the task as FAILED, with the worker's reason and its own error code.

    Raises ``InvalidRequest, TaskLeaseLost, TaskNotFound``.
    """
    refuse_unstorable([reason, code])
    return advance_as_holder(
        task_id,
        states.FAIL,
        agent=agent,
        fencing_token=fencing_token,
        via=via,
        reason=reason,
        code=Reason.WORKER_FAILED,
        details={"worker_code": code},
        errors=_errors_of(code),
        cost=cost,
    )


def decline(
    task_id: UUID,
    *,
    agent: Principal,
    fencing_token: int,
    reason: str,
    code: str = "",
    via: Surface,
) -> Task:
    """End the task as REJECTED before any work on it.

    Raises ``TaskNotPossible`` once the worker has reported progress, added an artifact or asked a
    question: then it calls ``fail``. Raises ``InvalidRequest, TaskLeaseLost, TaskNotFound``.
    """
    refuse_unstorable([reason, code])
    held = held_by(agent, fencing_token) & LEASE_LIVES
    not_begun = Q(stage="", percent=None, artifacts=None, questions=None)
    try:
        return advance(
            task_id,
            states.DECLINE,
            by=agent,
            via=via,
            reason=reason,
            code=Reason.DECLINED,
            only_if=held & not_begun,
            details={"worker_code": code},
            errors=_errors_of(code),
        )
    except TaskNotPossible:
        if not Task.objects.filter(held, pk=task_id, state__in=states.DECLINE.sources).exists():
            raise lost_or_missing(task_id, agent) from None
    raise TaskNotPossible(
        "Work on the task has begun, so it cannot be declined.",
        hint="Call fail with a reason. Nothing was changed by this request.",
    )


def _errors_of(code: str) -> list[dict[str, str]]:
    """The worker's own error code, as the row keeps it."""
    return [{"code": code}] if code else []


# --- by others --------------------------------------------------------------------------------


def finish(
    task_id: UUID,
    *,
    by: Principal,
    via: Surface,
    result: Any,
    artifacts: Iterable[WholeArtifact],
    cost: dict[str, Any] | None = None,
) -> Task:
    """Complete a task without a leased worker: write its artifacts, then its result.

    Raises ``TaskNotPossible, TaskNotFound``; nothing is written then.
    """
    with atomic():
        for artifact in artifacts:
            put_artifact(task_id, artifact, by=by, via=via)
        return advance(task_id, states.COMPLETE, by=by, via=via, result=result, cost=cost)


def end(
    task_id: UUID,
    move: Move[TaskState],
    *,
    by: Principal,
    via: Surface,
    code: Reason,
    reason: str,
    only_if: Q = ALWAYS,
    **columns: Any,
) -> Task:
    """Fail or cancel a task, with the reason on the row and in the event.

    Raises ``TaskNotPossible, TaskNotFound``.
    """
    return advance(
        task_id,
        move,
        by=by,
        via=via,
        reason=reason,
        code=code,
        only_if=only_if,
        **columns,
    )


def cancel(
    task_id: UUID,
    *,
    by: Principal,
    via: Surface,
    reason: str = "",
    code: Reason = Reason.CANCELED_BY_CLIENT,
) -> Task:
    """Cancel the task, the transaction it proposed, and the tasks delegated from it.

    Raises ``TaskNotPossible, TaskNotFound``, ``InvalidRequest``, and ``NotPossible`` when its
    transaction is decided already.
    """
    refuse_unstorable(reason)
    reason = reason or TaskReasons.CANCELED(name=by.display_name)
    with atomic():
        task = Task.objects.select_for_update().filter(pk=task_id).first()
        if task is not None and not task.is_final:
            withdrawals.withdraw_proposal(task, by=by, via=via, reason=reason)
        task = end(task_id, states.CANCEL, by=by, via=via, code=code, reason=reason)
    for child in Task.objects.open().filter(parent=task):
        # A child may have ended meanwhile, or its transaction may be decided: leave it then.
        with suppress(TaskNotPossible, NotPossible):
            cancel(
                child.pk,
                by=by,
                via=via,
                reason=TaskReasons.PARENT_CANCELED(),
                code=Reason.PARENT_ENDED,
            )
    return task


# --- by the sweeper ---------------------------------------------------------------------------


def put_back_or_fail(task_id: UUID) -> None:
    """A worker's lease has run out: queue the task again if that is safe, else fail it."""
    task = Task.objects.abandoned().select_related("skill").filter(pk=task_id).first()
    if task is None:
        return
    reason = TaskReasons.WORKER_LOST()
    lapsed = Q(lease_expires_at__lte=Now(), fencing_token=task.fencing_token)
    skill = task.skill
    # TaskNotPossible: the worker came back, or somebody else was faster.
    with suppress(TaskNotPossible):
        if skill and skill.is_retry_safe and task.attempts < skill.max_attempts:
            leases.put_back(task, by=SWEEPER, via=Surface.SYSTEM, reason=reason, only_if=lapsed)
        else:
            end(
                task_id,
                states.FAIL,
                by=SWEEPER,
                via=Surface.SYSTEM,
                code=Reason.WORKER_LOST,
                reason=reason,
                only_if=lapsed,
            )


def time_out(task_id: UUID) -> None:
    """Fail a task whose skill's or envelope's time is over, by the database's clock."""
    overtime = ~Q(owner=str(ASSENT)) & Q(
        expires_at__lte=Now(), state__in=[TaskState.SUBMITTED, TaskState.WORKING]
    )
    with suppress(TaskNotPossible):
        end(
            task_id,
            states.FAIL,
            by=SWEEPER,
            via=Surface.SYSTEM,
            code=Reason.TIMED_OUT,
            reason=TaskReasons.OVERTIME(),
            only_if=overtime,
        )
