"""``ListTasks``: filters, and pages by the time of the last change."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Prefetch, Q, prefetch_related_objects

from a2a.models import Artifact, Message, Question, QuestionState, Task, visible_if_any
from a2a.protocol.errors import INVALID_PARAMS, ProtocolError
from a2a.states import FINAL, OPEN, TaskState
from a2a.validation import refuse_unstorable
from a2a.wire import task_to_json
from ledger.agents import Caller
from ledger.foundation.postgres import count_any_of, keyset_page

PAGE, LARGEST_PAGE = 50, 100
ORDER = ("updated_at", "id")
COUNTED = 1_000  # tasks; to count all of them would cost each page more the more there are


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """The tasks a client asks for. ``state`` is ``None`` for any, empty for an unknown one."""

    size: int = PAGE
    page_token: str = ""
    context_id: str = ""
    state: str | None = None
    changed_since: datetime | None = None
    history: int = 0
    with_artifacts: bool = False


@dataclass(frozen=True, slots=True)
class TaskPage:
    tasks: list[dict[str, Any]]
    next_token: str
    total: int


def list_tasks(query: TaskQuery, caller: Caller) -> TaskPage:
    """The tasks that the caller may see, last changed first. Raises ``ProtocolError``."""
    if not 1 <= query.size <= LARGEST_PAGE:
        raise ProtocolError(INVALID_PARAMS, f"pageSize lies between 1 and {LARGEST_PAGE}.")
    refuse_unstorable([query.context_id, query.page_token])
    rows, visible = Task.objects.all(), visible_if_any(caller)
    if query.context_id:
        rows = rows.filter(context_id=query.context_id)
    if query.state is not None:
        rows = rows.filter(_in_state(query.state))
    if query.changed_since is not None:
        rows = rows.filter(updated_at__gte=query.changed_since)
    total = count_any_of(rows, visible, COUNTED, by=ORDER)
    before = _position(query.page_token) if query.page_token else None
    page = keyset_page(rows, query.size, before=before, by=ORDER, any_of=visible)
    return TaskPage(
        tasks=_rendered(page.rows, query),
        next_token=token_of(page.last) if page.last else "",
        total=total,
    )


def _rendered(tasks: list[Task], query: TaskQuery) -> list[dict[str, Any]]:
    """As JSON, each with its last ``query.history`` messages; one query for each table."""
    lookups: list[Prefetch[Any, Any, Any]] = [
        Prefetch("transaction"),
        Prefetch(
            "questions", Question.objects.filter(state=QuestionState.OPEN), to_attr="open_questions"
        ),
    ]
    if query.history:
        last = Message.objects.order_by("-pk")[: query.history]
        lookups.append(Prefetch("messages", last, to_attr="last_messages"))
    if query.with_artifacts:
        lookups.append(
            Prefetch("artifacts", Artifact.objects.order_by("pk"), to_attr="all_artifacts")
        )
    prefetch_related_objects(tasks, *lookups)
    return [_task_to_json(task) for task in tasks]


def _task_to_json(task: Any) -> dict[str, Any]:
    messages = getattr(task, "last_messages", [])[::-1]
    artifacts = getattr(task, "all_artifacts", [])
    return task_to_json(task, messages, artifacts, next(iter(task.open_questions), None))


def _in_state(state: str) -> Q:
    """Tasks that clients see in that state, as ``wire.state_for_client`` has it."""
    if state in FINAL:
        return Q(state=state)
    # As the indexes over what is open have it.
    return Q(ended_at=None, state__in=sorted(OPEN)) & _in_open_state(state)


def _in_open_state(state: str) -> Q:
    for_people = Q(pk__in=Question.objects.waiting().for_people_only().values("task"))
    if state == TaskState.INPUT_REQUIRED:
        return Q(state=state) & ~for_people
    return Q(state=state) | for_people if state == TaskState.WORKING else Q(state=state)


def token_of(task: Task) -> str:
    """The place where the page after this task begins."""
    return base64.urlsafe_b64encode(f"{task.updated_at.isoformat()} {task.pk}".encode()).decode()


def _position(token: str) -> tuple[datetime, UUID]:
    """Of the last task of the page before. Raises ``ProtocolError``."""
    try:
        at, _, pk = base64.urlsafe_b64decode(token.encode()).decode().partition(" ")
        return datetime.fromisoformat(at), UUID(pk)
    except (ValueError, binascii.Error):
        raise ProtocolError(INVALID_PARAMS, "The page token is not one of ours.") from None
