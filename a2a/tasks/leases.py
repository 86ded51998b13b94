"""Work on a task: claims, heartbeats, and putting back what a silent worker held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import DurationField, ExpressionWrapper, F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, Now
from django.db.transaction import atomic

from a2a import states
from a2a.errors import Reason, TaskLeaseLost, TaskNotFound, TaskNotPossible
from a2a.models import LEASE, Skill, Task
from a2a.states import OPEN, TaskState
from a2a.tasks.transitions import ALWAYS, advance
from ledger.principals import Principal, Surface
from ledger.states import Move

# NULL means no lease: the tasks of remote agents are polled instead.
LEASE_LIVES = Q(lease_expires_at=None) | Q(lease_expires_at__gt=Now())


def held_by(agent: Principal, fencing_token: int) -> Q:
    """The task belongs to this agent, and no later claim has raised the fencing token."""
    return Q(owner=str(agent), fencing_token=fencing_token)


def lease_from_now() -> Any:
    """The end of a lease that starts now: the skill's term, by the database's clock."""
    lease = Skill.objects.filter(pk=OuterRef("skill_id")).values("lease")[:1]
    span = Coalesce(Subquery(lease), LEASE, output_field=DurationField())
    return ExpressionWrapper(Now() + span, output_field=Task._meta.get_field("expires_at"))


def claim(agent: Principal, *, skills: list[str], via: Surface) -> Task | None:
    """Lease the oldest waiting task of the agent's skills; ``None`` when there is none.

    An empty ``skills`` means any skill of the agent.
    """
    waiting = (
        Task.objects.claimable()
        .filter(owner=str(agent))
        .select_for_update(skip_locked=True, of=("self",))
        .order_by("pk")
    )
    if skills:
        waiting = waiting.filter(skill_slug__in=skills)
    with atomic():
        task = waiting.first()
        if task is None:
            return None
        return claim_task(
            task.pk,
            by=agent,
            via=via,
            details={"attempt": task.attempts + 1},
            lease_expires_at=lease_from_now(),
        )


def claim_task(
    task_id: UUID,
    *,
    by: Principal,
    via: Surface,
    only_if: Q = ALWAYS,
    details: Mapping[str, Any] | None = None,
    **columns: Any,
) -> Task:
    """Claim one given task and raise its fencing token. Raises ``TaskNotPossible, TaskNotFound``.

    ``columns`` are written by the same UPDATE, such as ``lease_expires_at``.
    """
    return advance(
        task_id,
        states.CLAIM,
        by=by,
        via=via,
        only_if=only_if,
        details=details,
        fencing_token=F("fencing_token") + 1,
        attempts=F("attempts") + 1,
        next_attempt_at=None,
        **columns,
    )


def heartbeat(task_id: UUID, *, agent: Principal, fencing_token: int) -> Task:
    """Renew the lease. Raises ``TaskLeaseLost, TaskNotFound``.

    A task that waits for an answer or a sign-off has no lease; then only the token is checked.
    """
    held = Task.objects.filter(held_by(agent, fencing_token), pk=task_id, state__in=sorted(OPEN))
    leased = held.filter(state=TaskState.WORKING, lease_expires_at__gt=Now())
    leased.update(lease_expires_at=lease_from_now())
    task = held.first()
    if task is None or (
        task.state == TaskState.WORKING
        and task.lease_expires_at is not None
        and not leased.exists()
    ):
        raise lost_or_missing(task_id, agent)
    return task


def advance_as_holder(
    task_id: UUID,
    move: Move[TaskState],
    *,
    agent: Principal,
    fencing_token: int,
    via: Surface,
    reason: str = "",
    code: Reason | None = None,
    details: Mapping[str, Any] | None = None,
    **columns: Any,
) -> Task:
    """``advance``, if the agent holds the task. Raises ``TaskLeaseLost, TaskNotFound``."""
    only_if = held_by(agent, fencing_token) & LEASE_LIVES
    try:
        return advance(
            task_id,
            move,
            by=agent,
            via=via,
            reason=reason,
            code=code,
            only_if=only_if,
            details=details,
            **columns,
        )
    except TaskNotPossible:
        raise lost_or_missing(task_id, agent) from None


def lost_or_missing(task_id: UUID, agent: Principal) -> TaskLeaseLost | TaskNotFound:
    """The error for a worker without the lease; it never learns of another agent's task."""
    task = Task.objects.filter(pk=task_id, owner=str(agent)).first()
    if task is None:
        return TaskNotFound()
    return TaskLeaseLost(
        f"The task is {task.get_state_display()}, and the lease is not yours.",
        snapshot=task,
        state=task.state,
    )


def put_back(
    task: Task,
    *,
    by: Principal,
    via: Surface,
    reason: str,
    only_if: Q,
    next_attempt_at: Any = None,
) -> Task:
    """Return a claimed task to the queue, to be claimed again from ``next_attempt_at`` on.

    Raises ``TaskNotPossible, TaskNotFound``.
    """
    return advance(
        task.pk,
        states.PUT_BACK,
        by=by,
        via=via,
        reason=reason,
        only_if=only_if,
        details={"attempt": task.attempts},
        lease_expires_at=None,
        next_attempt_at=next_attempt_at,
    )
