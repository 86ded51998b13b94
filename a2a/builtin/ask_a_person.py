"""The skill ``ask_a_person``: a question to people; their answer completes the task."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q

from a2a.builtin import endings
from a2a.builtin.claims import VIA, put_back
from a2a.errors import Reason, TaskNotPossible
from a2a.models import ASSENT, QuestionState, Task
from a2a.models.answerers import APPROVER
from a2a.models.builtin_skills import ASK_A_PERSON
from a2a.states import TaskState
from a2a.tasks import questions
from ledger.errors import LedgerError, LimitReached


def ask(task: Task) -> None:
    """Ask what a claimed task wants to know; a refusal becomes the reason why it failed.

    Raises ``TaskNotPossible`` when the task was canceled or claimed anew meanwhile.
    """
    fields: dict[str, Any] = task.input or {}
    try:
        questions.ask(
            task.pk,
            agent=ASSENT,
            fencing_token=task.fencing_token,
            text=fields["text"],
            form=fields.get("form"),
            evidence=fields.get("evidence"),
            may_answer=[APPROVER],
            ttl=timedelta(seconds=fields["ttl_s"]) if "ttl_s" in fields else None,
            asked_by=task.submitter,
            via=VIA,
        )
    except TaskNotPossible:
        raise
    except LimitReached as delay:
        put_back(task, delay.detail, Q(fencing_token=task.fencing_token))
    except LedgerError as refusal:
        endings.fail(task, Reason.REFUSED, refusal.detail, {"code": refusal.code})


def complete_answered(task_id: UUID) -> None:
    """Complete a task whose question was answered; nothing for any other task."""
    answered = Task.objects.of_assent().filter(
        pk=task_id, skill_slug=ASK_A_PERSON.id, state=TaskState.WORKING
    )
    task = answered.first()
    if task is None:
        return
    question = task.questions.filter(state=QuestionState.ANSWERED).first()
    if question is None:
        return
    result = {"answer": question.answer, "answered_by": question.answered_by_name}
    with suppress(TaskNotPossible):
        name = f"Answer of {question.answered_by_name}"[:200]
        endings.complete(task, result, "answer", name)
