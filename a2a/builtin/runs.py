"""Running the tasks that Assent executes itself: jobs, events, and the sweeper's step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from a2a.builtin.ask_a_person import ask, complete_answered
from a2a.builtin.claims import BATCH, LAPSED, claim, put_back_lapsed
from a2a.builtin.prepare_transaction import fail_unprepared, follow_transaction, prepare
from a2a.errors import Reason, TaskNotFound, TaskNotPossible
from a2a.models import Task
from a2a.models.builtin_skills import ASK_A_PERSON
from a2a.states import TaskEventKind, TaskReasons, TaskState
from ledger.execution import crash_points
from ledger.foundation.postgres import use_prepared_statements
from ledger.states import EventKind, State


def begin(task_id: UUID) -> None:
    """Claim the task and run it; nothing if another process has claimed it or it has ended."""
    try:
        task = claim(task_id)
    except (TaskNotPossible, TaskNotFound):
        return
    run(task)


def run(task: Task) -> None:
    """Propose or ask what a claimed task asks for; a refusal becomes the reason why it failed."""
    crash_points.reach("own task claimed")
    with suppress(TaskNotPossible):
        if task.skill_slug == ASK_A_PERSON.id:
            ask(task)
        else:
            prepare(task)


def settle_all() -> None:
    """Continue tasks after a dead process, a lost event or a deadline. Calls no tool."""
    own = Task.objects.of_assent()
    _each(own.filter(LAPSED), put_back_lapsed)
    _each(_overtime(), time_out)
    prepared = Q(transaction__state=State.PREPARED)
    waiting = prepared & (
        Q(state=TaskState.AUTH_REQUIRED, transaction__asked_at=None)
        | Q(state=TaskState.INPUT_REQUIRED, transaction__asked_at__isnull=False)
    )
    _each(own.filter(transaction__isnull=False).exclude(waiting), follow_transaction)
    _each(own.filter(skill_slug=ASK_A_PERSON.id, state=TaskState.WORKING), complete_answered)


def _each(rows: QuerySet[Task], settle: Callable[[UUID], None]) -> None:
    for task_id in rows.values_list("pk", flat=True)[:BATCH]:
        settle(task_id)


def _overtime() -> QuerySet[Task]:
    """Without those that wait for an answer: a question has a deadline of its own."""
    return Task.objects.of_assent().overtime().filter(questions=None)


def time_out(task_id: UUID) -> None:
    """Fail a task that could be neither proposed nor asked in its time."""
    if _overtime().filter(pk=task_id).exists():
        reason = TaskReasons.NOT_PREPARED()
        fail_unprepared(task_id, Reason.TIMED_OUT, reason, {})


# Kinds of events after which no task goes on: approval had it resumed before the claim.
NO_NEWS = frozenset({EventKind.PREPARED, EventKind.REFUSED, EventKind.CLAIMED})


def follow_event(subject: UUID, kind: str, **_: object) -> None:
    """After an answer or a move of a transaction, continue the task that waits for it."""
    if kind == TaskEventKind.ANSWERED:
        complete_answered(subject)
    elif kind not in NO_NEWS and not kind.startswith("task_"):
        for task_id in _tasks_linked_to(subject):
            follow_transaction(task_id)


def _tasks_linked_to(transaction_id: UUID) -> list[UUID]:
    """Usually none, and workers ask after every move: written SQL, no queryset."""
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute("SELECT id FROM a2a_task WHERE transaction_id = %s", [transaction_id])
        return [task_id for (task_id,) in cursor.fetchall()]
