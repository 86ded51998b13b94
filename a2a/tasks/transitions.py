"""``advance()``: the one writer of a task's ``state``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now
from django.db.transaction import atomic

from a2a.errors import Reason, TaskNotFound, TaskNotPossible
from a2a.models import PUSH, PushConfig, Question, QuestionState, Task
from a2a.states import FINAL, TaskState
from a2a.tasks import records
from ledger.events import moves
from ledger.principals import Principal, Surface
from ledger.seals import as_text
from ledger.states import Move

ALWAYS = Q()


def advance(
    task_id: UUID,
    move: Move[TaskState],
    *,
    by: Principal,
    via: Surface,
    reason: str = "",
    code: Reason | None = None,
    only_if: Q = ALWAYS,
    details: Mapping[str, Any] | None = None,
    **columns: Any,
) -> Task:
    """Make one move of one task; returns the row as it is then.

    State, event and outbox are one database transaction; the doorbell rings after it. A task that
    ends takes its open question with it. ``reason`` goes into the event; with a ``code`` both are
    kept on the row as well. ``columns`` are written by the same UPDATE.

    Raises ``TaskNotPossible``, carrying the task as it now is, when no row matched; nothing was
    written then. Raises ``TaskNotFound``.
    """
    columns = {"updated_at": Now(), **columns}
    if code is not None:
        columns |= {"reason_code": code, "reason": reason}
    if move.target in FINAL:
        columns |= {"ended_at": Now(), "lease_expires_at": None, "next_attempt_at": None}

    def sealed(row: Task) -> Mapping[str, Any]:
        cost = {"cost": row.cost} if columns.get("cost") else {}
        return {**(details or {}), **_code_and_result(row, code, "result" in columns), **cost}

    with atomic():
        moved = moves.make(
            Task.objects.filter(only_if, pk=task_id),
            move,
            by=by,
            via=via,
            reason=reason,
            details=sealed,
            owed_to=_watchers,
            columns=columns,
        )
        if moved is None:
            raise _refusal(task_id)
        if move.target in FINAL:
            Question.objects.waiting().filter(task=moved.row).update(
                state=QuestionState.WITHDRAWN, ended_at=Now()
            )
    return moved.row


def _code_and_result(row: Task, code: Reason | None, has_result: bool) -> dict[str, str]:
    details = {} if code is None else {"code": code.value}
    if has_result:
        details["result_digest"] = records.digest_of(records.text_of(row.result))
    return details


def record_event(
    task_id: UUID,
    move: Move[TaskState],
    *,
    by: Principal,
    via: Surface,
    reason: str = "",
    only_if: Q = ALWAYS,
    details: Mapping[str, Any] | None = None,
    sealed: Sequence[str] = (),
    columns: Mapping[str, Any],
) -> Task:
    """Append an event that leaves the state as it is, and that no client is notified of.

    ``columns`` are written to the row, a ``reason`` of its own among them; ``sealed`` names those
    whose new values go into the event. Raises ``TaskNotPossible`` and ``TaskNotFound`` as
    ``advance`` does.
    """

    def with_columns(row: Task) -> Mapping[str, Any]:
        return {**(details or {}), **{name: as_text(getattr(row, name)) for name in sealed}}

    with atomic():
        moved = moves.make(
            Task.objects.filter(only_if, pk=task_id),
            move,
            by=by,
            via=via,
            reason=reason,
            details=with_columns,
            columns=columns,
        )
        if moved is None:
            raise _refusal(task_id)
    return moved.row


def _watchers(task: Task) -> list[tuple[str, str]]:
    """The push notifications that clients asked for: channel and recipient of each."""
    configs = PushConfig.objects.filter(task=task).values_list("pk", flat=True)
    return [(PUSH, str(pk)) for pk in configs]


def _refusal(task_id: UUID) -> TaskNotPossible | TaskNotFound:
    snapshot = Task.objects.filter(pk=task_id).first()
    if snapshot is None:
        return TaskNotFound()
    return TaskNotPossible(
        f"The task is {snapshot.get_state_display()}.", snapshot=snapshot, state=snapshot.state
    )
