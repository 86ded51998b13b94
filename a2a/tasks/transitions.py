"""``advance()``: the one writer of a task's ``state``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now
from django.db.transaction import atomic

from a2a import digests
from a2a.errors import TaskNotFound, TaskNotPossible
from a2a.models import PUSH, PushConfig, Question, QuestionState, Task
from a2a.states import FINAL, Move
from ledger.events import chains
from ledger.events.seals import as_text
from ledger.principals import Principal

ALWAYS = Q()


def advance(
    task_id: UUID,
    move: Move,
    *,
    by: Principal,
    via: str,
    said: str = "",
    only_if: Q = ALWAYS,
    details: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Task:
    """Make one move of one task, or say who was faster; returns the row as it is then.

    State, event and outbox are one database transaction; the doorbell rings after it. A task that
    ends takes its open question with it. ``said`` is the event's reason; ``changes`` are further
    columns of the row, its own ``reason`` among them.

    Raises ``TaskNotPossible``, carrying the task as it now is, when no row matched; nothing was
    written then. Raises ``TaskNotFound``.
    """
    changes = {"updated_at": Now(), **changes}
    if move.target is not None:
        changes["state"] = move.target
    if move.target in FINAL:
        changes |= {"ended_at": Now(), "lease_expires_at": None, "next_attempt_at": None}
    with atomic():
        mine = Task.objects.filter(only_if, pk=task_id, state__in=move.sources)
        row = chains.update_returning(mine, **changes)
        if row is None:
            raise _refusal(task_id)
        # The row stays locked until commit, so the events of one task never interleave.
        if move.target in FINAL:
            Question.objects.waiting().filter(task=row).update(
                state=QuestionState.WITHDRAWN, ended_at=Now()
            )
        if "result" in changes:
            text = digests.text_of(row.result)
            details = {**(details or {}), "result_digest": digests.digest_of(text)}
        chains.append(
            row.pk,
            tenant=row.tenant,
            kind=move.name,
            to_state=row.state,
            by=by,
            via=via,
            reason=said,
            details=details,
            owed_to=_watchers(row),
        )
    return row


def note(
    task_id: UUID,
    kind: Move,
    *,
    by: Principal,
    via: str,
    said: str = "",
    only_if: Q = ALWAYS,
    details: Mapping[str, Any] | None = None,
    sealed: Sequence[str] = (),
    **changes: Any,
) -> Task:
    """Write one event that leaves the state as it is, with the ``changes`` that belong to it.

    ``sealed`` names columns whose new values go into the event. Nobody is told of it. Raises
    ``TaskNotPossible`` and ``TaskNotFound`` as ``advance`` does.
    """
    with atomic():
        free = Task.objects.filter(only_if, pk=task_id, state__in=kind.sources)
        row = chains.update_returning(free, **changes)
        if row is None:
            raise _refusal(task_id)
        values = {name: as_text(getattr(row, name)) for name in sealed}
        chains.append(
            row.pk, tenant=row.tenant, kind=kind.name, to_state=row.state, by=by, via=via,
            reason=said, details={**(details or {}), **values},
        )  # fmt: skip
    return row


def _watchers(task: Task) -> list[tuple[str, str]]:
    """Who asked to be pushed the news of a task: channel and recipient."""
    configs = PushConfig.objects.filter(task=task).values_list("pk", flat=True)
    return [(PUSH, str(pk)) for pk in configs]


def _refusal(task_id: UUID) -> TaskNotPossible | TaskNotFound:
    snapshot = Task.objects.filter(pk=task_id).first()
    if snapshot is None:
        return TaskNotFound()
    return TaskNotPossible(
        f"The task is {snapshot.get_state_display()}.", task=snapshot, state=snapshot.state
    )
