"""Claims of the tasks that Assent executes itself."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from a2a import tasks
from a2a.errors import TaskNotPossible
from a2a.models import ASSENT, DUE, Task
from a2a.states import TaskReasons, TaskState
from ledger.foundation.backoff import Backoff
from ledger.principals import Surface

VIA = Surface.A2A
BATCH = 500
BACKOFF = Backoff(first=timedelta(seconds=1), longest=timedelta(seconds=30))

# Claimed by a process whose lease has run out before anything was proposed or asked.
LAPSED = Q(state=TaskState.WORKING, transaction=None, questions=None, lease_expires_at__lte=Now())


def due() -> list[UUID]:
    """Tasks that no process has claimed; each becomes a job, as a tool may plan for minutes."""
    free = Task.objects.of_assent().filter(DUE, state=TaskState.SUBMITTED)
    return list(free.order_by("pk").values_list("pk", flat=True)[:BATCH])


def claim(task_id: UUID) -> Task:
    """Lease the task to this process. Raises ``TaskNotPossible, TaskNotFound``."""
    return tasks.claim_task(
        task_id,
        by=ASSENT,
        via=VIA,
        only_if=DUE & Q(owner=str(ASSENT)),
        lease_expires_at=Now() + timedelta(seconds=settings.LEASE_S),
    )


def put_back(task: Task, reason: str, only_if: Q) -> None:
    """Let another process try again, later after each attempt. Nothing if somebody was faster."""
    with suppress(TaskNotPossible):
        tasks.put_back(
            task,
            by=ASSENT,
            via=VIA,
            reason=reason,
            only_if=only_if,
            next_attempt_at=Now() + BACKOFF.wait(task.attempts),
        )


def put_back_lapsed(task_id: UUID) -> None:
    """Put back a task whose process died or still plans after its lease."""
    task = Task.objects.of_assent().filter(LAPSED, pk=task_id).first()
    if task is not None:
        reason = TaskReasons.CLAIM_LAPSED()
        lapsed = Q(fencing_token=task.fencing_token, lease_expires_at__lte=Now())
        put_back(task, reason, lapsed)
