"""Acts of the agent that submitted a task: read, answer, add a message, cancel.

An agent that may only read the task (``read_all``, or its worker) may do none of the rest.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from a2a.errors import TaskNotFound, TaskNotPossible
from a2a.models import Message, Question, Task
from a2a.tasks import endings, progress, questions
from ledger.agents import Caller
from ledger.errors import NotAllowed
from ledger.models import Scope, id_or_none
from ledger.principals import Surface


def visible(caller: Caller, task_id: UUID | str) -> Task:
    """The task, if the caller may read it. Raises ``TaskNotFound``, also for a task of others."""
    pk = task_id if isinstance(task_id, UUID) else id_or_none(task_id)
    task = Task.objects.visible_to(caller).filter(pk=pk).first() if pk else None
    if task is None:
        raise TaskNotFound()
    return task


def require_submitter(task: Task, caller: Caller) -> None:
    """Raise ``NotAllowed`` unless the caller submitted the task."""
    caller.require(Scope.SUBMIT)
    if task.submitted_by != str(caller.principal):
        raise NotAllowed(
            "Only the agent that submitted a task may do that.",
            hint="A token with read_all may read the task; nothing was changed.",
        )


def answer_as_client(
    task: Task,
    value: Any,
    *,
    caller: Caller,
    via: Surface,
    message: Message | None = None,
    question: Question | None = None,
) -> Question:
    """Answer the open question of the task; ``message`` is what the answer came in, if anything.

    ``question`` is the one that ``value`` was parsed for; by default the last one asked.

    Raises ``TaskNotPossible`` when the task asks nothing, ``NotAllowed``, and what
    ``questions.answer`` raises.
    """
    caller.require(Scope.SUBMIT)
    question = question or task.questions.order_by("-pk").first()
    if question is None:
        raise TaskNotPossible(
            f"The task is {task.state}; it asks nothing.", snapshot=task, state=task.state
        )
    if task.submitted_by != str(caller.principal) or not question.is_for_client_of(task):
        raise NotAllowed(
            "This question is for a person.", hint="It is answered at the desk; wait for it."
        )
    return questions.answer(question.pk, value, by=caller.principal, via=via, message=message)


def cancel_as_client(task: Task, *, caller: Caller, via: Surface, reason: str = "") -> Task:
    """Raises ``NotAllowed`` for a task of another agent, and what ``cancel`` raises."""
    require_submitter(task, caller)
    return endings.cancel(task.pk, by=caller.principal, via=via, reason=reason)


def add_client_message(task: Task, message: Message, *, caller: Caller, via: Surface) -> Task:
    """Raises ``NotAllowed`` for a task of another agent, and what ``add_message`` raises."""
    require_submitter(task, caller)
    return progress.add_message(task.pk, message, by=caller.principal, via=via)
