"""An open task: its progress, messages, sign-off, and handing it over to another skill."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now
from django.db.transaction import atomic

from a2a import states
from a2a.models import Message, Skill, Task
from a2a.tasks.leases import advance_as_holder, lease_from_now
from a2a.tasks.transitions import ALWAYS, advance, record_event
from a2a.validation import refuse_unstorable
from ledger.principals import Principal, Surface


def report(
    task_id: UUID,
    *,
    agent: Principal,
    fencing_token: int,
    stage: str,
    percent: int | None,
    note: str,
    via: Surface,
) -> Task:
    """Record the worker's progress and renew its lease. Raises ``TaskLeaseLost, TaskNotFound``."""
    refuse_unstorable([stage, note])
    details = {"stage": stage, "percent": percent}
    return advance_as_holder(
        task_id,
        states.REPORT,
        agent=agent,
        fencing_token=fencing_token,
        via=via,
        reason=note,
        details={name: value for name, value in details.items() if value not in (None, "")},
        stage=stage,
        percent=percent,
        note=note,
        lease_expires_at=lease_from_now(),
    )


def report_note(task_id: UUID, note: str, *, by: Principal, via: Surface) -> Task:
    """Record progress of a task without a leased worker. Raises ``TaskNotPossible``."""
    return advance(task_id, states.REPORT, by=by, via=via, reason=note[:2000], note=note)


def record_exchange(task_id: UUID, *, by: Principal, via: Surface, details: dict[str, Any]) -> Task:
    """Seal which commit of a git repository carried the task, or its answer. At any time."""
    return record_event(
        task_id, states.EXCHANGE, by=by, via=via, details=details, columns={"updated_at": Now()}
    )


def add_message(task_id: UUID, message: Message, *, by: Principal, via: Surface) -> Task:
    """Add a message of the client to an open task; its worker can read it.

    Raises ``InvalidRequest, TaskNotPossible, TaskNotFound``.
    """
    refuse_unstorable([message.parts, message.metadata, message.message_id])
    with atomic():
        task = advance(
            task_id, states.ADD_MESSAGE, by=by, via=via, details={"message_id": message.message_id}
        )
        message.task = task
        message.save(force_insert=True)
    return task


def await_sign_off(
    task_id: UUID,
    *,
    by: Principal,
    via: Surface,
    reason: str,
    only_if: Q = ALWAYS,
    details: dict[str, Any] | None = None,
    **columns: Any,
) -> Task:
    """Move a task to AUTH_REQUIRED. Raises ``TaskNotPossible, TaskNotFound``."""
    return advance(
        task_id,
        states.AWAIT_SIGN_OFF,
        by=by,
        via=via,
        reason=reason,
        only_if=only_if,
        details=details,
        **columns,
    )


def ask_about_transaction(task_id: UUID, *, by: Principal, via: Surface, text: str) -> Task:
    """Move a task that waits for sign-off to INPUT_REQUIRED: somebody who decides has a question.

    Raises ``TaskNotPossible, TaskNotFound``.
    """
    return advance(task_id, states.ASK_ABOUT, by=by, via=via, reason=text)


def resume(task_id: UUID, *, by: Principal, via: Surface, note: str) -> Task:
    """Move a task that waited for sign-off to WORKING. Raises ``TaskNotPossible, TaskNotFound``."""
    return advance(task_id, states.RESUME, by=by, via=via, reason=note, note=note)


def hand_over(
    task_id: UUID, *, agent: Principal, fencing_token: int, skill: Skill, reason: str, via: Surface
) -> Task:
    """Move the task to another skill's queue. Raises ``TaskLeaseLost, TaskNotFound``.

    Does not check that skill's terms: use ``a2a.submissions.hand_over``.
    """
    refuse_unstorable(reason)
    owner = skill.agent.principal
    return advance_as_holder(
        task_id,
        states.HAND_OVER,
        agent=agent,
        fencing_token=fencing_token,
        via=via,
        reason=reason,
        details={"from": str(agent), "to": str(owner), "skill": skill.slug},
        skill=skill,
        skill_slug=skill.slug,
        owner=str(owner),
        owner_name=skill.agent.name,
        attempts=0,
        lease_expires_at=None,
    )
