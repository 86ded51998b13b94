"""What a client may do with its own task while it goes on: answer, say more, cancel."""

from __future__ import annotations

from typing import Any

from a2a import questions, tasks
from a2a.answerers import CLIENT
from a2a.errors import TaskNotPossible
from a2a.models import Message, Question, Task
from ledger.callers import Caller
from ledger.errors import NotAllowed
from ledger.models import Scope


def by_client(
    task: Task, value: Any, *, caller: Caller, via: str, message: Message | None = None
) -> Question:
    """The client's answer to the question that its task waits with, and the message it came in.

    Raises ``TaskNotPossible`` when none waits, ``NotAllowed``, and what ``questions.answer`` does.
    """
    caller.require(Scope.SUBMIT)
    question = task.questions.order_by("-pk").first()
    if question is None:
        raise TaskNotPossible(
            f"The task is {task.state}; it asks nothing.", task=task, state=task.state
        )
    who = str(caller.principal)
    if task.submitted_by != who or not {CLIENT, who} & set(question.may_answer):
        raise NotAllowed(
            "This question is for a person.", hint="It is answered at the desk; wait for it."
        )
    return questions.answer(question.pk, value, by=caller.principal, via=via, message=message)


def cancel_by_client(task: Task, *, caller: Caller, via: str, reason: str = "") -> Task:
    """Raises ``NotAllowed`` for a task that another agent submitted, and as ``tasks.cancel``."""
    caller.require(Scope.SUBMIT)
    if task.submitted_by != str(caller.principal):
        raise NotAllowed("Only the agent that submitted a task may cancel it.")
    return tasks.cancel(task.pk, by=caller.principal, via=via, reason=reason)
