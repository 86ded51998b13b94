"""What a client may do with its own task while it goes on: answer, say more, cancel, be told.

Whoever only sees a task (``read_all``, its worker) may do none of it; every door asks here.
"""

from __future__ import annotations

from typing import Any

from a2a import tasks
from a2a.errors import TaskNotPossible
from a2a.models import Message, Question, Task
from a2a.tasks import questions
from ledger.api.authentication import Caller
from ledger.errors import NotAllowed
from ledger.models import Scope


def require_own(task: Task, caller: Caller) -> None:
    """Whoever may only read a task changes nothing about it. Raises ``NotAllowed``."""
    caller.require(Scope.SUBMIT)
    if task.submitted_by != str(caller.principal):
        raise NotAllowed(
            "Only the agent that submitted a task may do that.",
            hint="A token with read_all may read the task; nothing was changed.",
        )


def by_client(
    task: Task,
    value: Any,
    *,
    caller: Caller,
    via: str,
    message: Message | None = None,
    question: Question | None = None,
) -> Question:
    """The client's answer to the question that its task waits with, and the message it came in.

    ``question`` is the one that ``value`` was read for; without it, the last one that was asked.

    Raises ``TaskNotPossible`` when none waits, ``NotAllowed``, and what ``questions.answer`` does.
    """
    caller.require(Scope.SUBMIT)
    question = question or task.questions.order_by("-pk").first()
    if question is None:
        raise TaskNotPossible(
            f"The task is {task.state}; it asks nothing.", task=task, state=task.state
        )
    if task.submitted_by != str(caller.principal) or not question.is_for_client_of(task):
        raise NotAllowed(
            "This question is for a person.", hint="It is answered at the desk; wait for it."
        )
    return questions.answer(question.pk, value, by=caller.principal, via=via, message=message)


def cancel_by_client(task: Task, *, caller: Caller, via: str, reason: str = "") -> Task:
    """Raises ``NotAllowed`` for a task that another agent submitted, and as ``tasks.cancel``."""
    require_own(task, caller)
    return tasks.cancel(task.pk, by=caller.principal, via=via, reason=reason)


def say_by_client(task: Task, message: Message, *, caller: Caller, via: str) -> Task:
    """One more message on an open task. Raises ``NotAllowed, TaskNotPossible``."""
    require_own(task, caller)
    return tasks.say(task.pk, message, by=caller.principal, via=via)
