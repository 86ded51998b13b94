"""Long-polls' view of a task, of its messages and of a question; see ``ledger.api.waiting``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db.models import Max

from a2a.models import Message, Question, QuestionState, Task
from ledger.agents import Caller, callers_at
from ledger.api.waiting import LongPolls, Look, Poll
from ledger.models import Scope

# From a poll's subjects to what its looks need of each; a missing one is not there.
Read = Callable[[list[Poll]], dict[UUID, Any]]
LookAt = Callable[[Caller, Any, Poll], tuple[Any, bool] | None]


def _long_polls(read: Read, look_at: LookAt) -> LongPolls:
    """Polls which read all their subjects at once and then look at each for its caller.

    ``look_at`` returns a version and whether there is something to answer; ``None``: not visible.
    """

    def look_all(polls: list[Poll]) -> list[Look | None]:
        callers = callers_at([(poll.token, poll.resource) for poll in polls])
        subjects = read(polls)
        looks: list[Look | None] = []
        for poll, caller in zip(polls, callers, strict=True):
            seen = None
            if caller is not None and poll.subject in subjects:
                seen = look_at(caller, subjects[poll.subject], poll)
            looks.append(
                Look(caller.tenant, str(caller.principal), *seen) if caller and seen else None
            )
        return looks

    return LongPolls(look_all)


# --- a client waits for a change of its task ---------------------------------------------------


def _read_tasks(polls: list[Poll]) -> dict[UUID, Task]:
    columns = ("pk", "tenant", "state", "submitted_by", "owner", "updated_at")
    return Task.objects.only(*columns).in_bulk({poll.subject for poll in polls})


def _look_at_task(caller: Caller, task: Task, poll: Poll) -> tuple[Any, bool] | None:
    return (task.updated_at, task.is_final) if task.is_visible_to(caller) else None


tasks = _long_polls(_read_tasks, _look_at_task)


# --- a worker waits for what is said on its task -----------------------------------------------


def _read_newest_messages(polls: list[Poll]) -> dict[UUID, tuple[str, int]]:
    """The owner of each task and the number of its newest message."""
    rows = Task.objects.filter(pk__in={poll.subject for poll in polls})
    newest = dict(Message.objects.filter(task__in=rows).values_list("task").annotate(Max("pk")))
    owners = rows.values_list("pk", "owner")
    return {pk: (owner, newest.get(pk, 0)) for pk, owner in owners}


def _look_at_messages(caller: Caller, seen: tuple[str, int], poll: Poll) -> tuple[Any, bool] | None:
    """``detail`` of the poll is the number of the last message that the worker has."""
    owner, newest = seen
    return (newest, newest > poll.detail) if _may_work(caller, owner) else None


messages = _long_polls(_read_newest_messages, _look_at_messages)


# --- a worker waits for the answer to its question ---------------------------------------------


def _read_questions(polls: list[Poll]) -> dict[UUID, dict[UUID, tuple[str, str]]]:
    """By task, the owner and the state of each question that is polled."""
    rows = Question.objects.filter(pk__in={poll.detail for poll in polls})
    questions_by_task: dict[UUID, dict[UUID, tuple[str, str]]] = {}
    for pk, task_id, owner, state in rows.values_list("pk", "task_id", "task__owner", "state"):
        questions_by_task.setdefault(task_id, {})[pk] = (owner, state)
    return questions_by_task


def _look_at_question(
    caller: Caller, of_task: dict[UUID, tuple[str, str]], poll: Poll
) -> tuple[Any, bool] | None:
    """``detail`` of the poll is the question; its events are those of its task."""
    owner, state = of_task.get(poll.detail, ("", ""))
    return (state, state != QuestionState.OPEN) if _may_work(caller, owner) else None


questions = _long_polls(_read_questions, _look_at_question)


def _may_work(caller: Caller, owner: str) -> bool:
    return Scope.WORK in caller.scopes and owner == str(caller.principal)
