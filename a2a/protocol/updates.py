"""The contents of streams, read for all streams of this process at once.

Each function is run by a ``Batcher``: it takes what all streams ask at the moment, and needs the
same number of queries for one stream as for a thousand. Every read authenticates again, so a
stream whose token was revoked tells nothing of what happened afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Max
from django.db.transaction import atomic

from a2a import wire
from a2a.models import Artifact, Question, QuestionState, Task
from a2a.states import TaskEventKind, TaskState
from ledger.agents import Caller, callers_with
from ledger.models import Event

Json = dict[str, Any]


class Since(NamedTuple):
    """The events of a task after number ``seq``, for the agent with this token."""

    token: str
    task_id: UUID
    seq: int


class Updates(NamedTuple):
    """JSON for the client, the number of the last event, and the state after it."""

    bodies: list[Json]
    seq: int
    state: str


class Snapshot(NamedTuple):
    """A task as JSON, and the number of its last event at the same instant."""

    task: Json
    seq: int


def snapshots(ids: list[UUID]) -> list[Snapshot | None]:
    """Each task with the number of its last event; ``None`` for one that is missing."""
    with atomic():
        if not connection.savepoint_ids:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        last = Event.objects.filter(subject__in=set(ids)).order_by()
        numbers = dict(last.values_list("subject").annotate(Max("seq")))
        rendered = render_all(set(ids))
    snapshots_by_id = {task.pk: Snapshot(body, numbers.get(task.pk, 0)) for task, body in rendered}
    return [snapshots_by_id.get(pk) for pk in ids]


def render_all(ids: Iterable[UUID]) -> list[tuple[Task, Json]]:
    """Tasks, each as JSON with all that belongs to it; one query for each table."""
    rows = Task.objects.filter(pk__in=ids).select_related("transaction")
    rows = rows.prefetch_related("messages", "artifacts", "questions")
    return [(task, _as_json(task)) for task in rows]


def _as_json(task: Task) -> Json:
    messages = sorted(task.messages.all(), key=attrgetter("pk"))
    artifacts = sorted(task.artifacts.all(), key=attrgetter("pk"))
    return wire.task_to_json(task, messages, artifacts, _open_question(task))


def openings(requests: list[tuple[str, UUID]]) -> list[Caller | None]:
    """For each token and task: the caller, if it may read the task and the task is open."""
    callers = callers_with([token for token, _ in requests])
    tasks = _visible_columns({task_id for _, task_id in requests})
    return [
        caller if caller and task and not task.is_final and task.is_visible_to(caller) else None
        for caller, task in zip(callers, (tasks.get(pk) for _, pk in requests), strict=True)
    ]


def _visible_columns(ids: set[UUID]) -> dict[UUID, Task]:
    return Task.objects.only("pk", "tenant", "state", "submitted_by", "owner").in_bulk(ids)


def states(ids: list[UUID]) -> list[TaskState | None]:
    """The state of each task as its client is told; ``None`` for one that is missing."""
    tasks = _tasks_with_questions(set(ids))
    states_by_id = {pk: _state_for_client(task) for pk, task in tasks.items()}
    return [states_by_id.get(pk) for pk in ids]


def updates_since(requests: list[Since]) -> list[Updates | None]:
    """The next news of each stream; ``None``: its token may not read the task any more."""
    callers = callers_with([request.token for request in requests])
    by_task = _events_after(requests)
    tasks = _tasks_with_questions({request.task_id for request in requests})
    bodies = _rendered(by_task, tasks)
    results: list[Updates | None] = []
    for request, caller in zip(requests, callers, strict=True):
        task = tasks.get(request.task_id)
        if caller is None or task is None or not task.is_visible_to(caller):
            results.append(None)
            continue
        events = [event for event in by_task.get(task.pk, ()) if event.seq > request.seq]
        told = [bodies[event.pk] for event in events if event.pk in bodies]
        seq, state = (
            (events[-1].seq, _state_after(events[-1], task)) if events else (request.seq, "")
        )
        results.append(Updates(told, seq, state))
    return results


_EVENTS_AFTER = """
    SELECT event.* FROM unnest(%s::uuid[], %s::bigint[]) AS since (subject, seq)
    JOIN ledger_event AS event ON event.subject = since.subject AND event.seq > since.seq
    ORDER BY event.subject, event.seq
"""


def _events_after(requests: list[Since]) -> dict[UUID, list[Event]]:
    """The events of each task after the lowest number that is asked of it."""
    lowest: dict[UUID, int] = {}
    for request in requests:
        lowest[request.task_id] = min(request.seq, lowest.get(request.task_id, request.seq))
    rows = Event.objects.raw(_EVENTS_AFTER, [list(lowest), list(lowest.values())])
    return {subject: list(events) for subject, events in groupby(rows, key=attrgetter("subject"))}


def _tasks_with_questions(ids: set[UUID]) -> dict[UUID, Task]:
    rows = Task.objects.filter(pk__in=ids).select_related("transaction")
    rows = rows.prefetch_related("questions")
    return {task.pk: task for task in rows}


def _open_question(task: Task) -> Question | None:
    """As ``wire.open_question``, of questions that were read already."""
    if task.state != TaskState.INPUT_REQUIRED:
        return None
    return next((each for each in task.questions.all() if each.state == QuestionState.OPEN), None)


def _state_for_client(task: Task) -> TaskState:
    return wire.state_for_client(task, _open_question(task))


def _state_after(last: Event, task: Task) -> str:
    """As the client is told. The row may be ahead of the events that were read."""
    if last.to_state != TaskState.INPUT_REQUIRED:
        return last.to_state
    if task.state != TaskState.INPUT_REQUIRED:
        return TaskState.WORKING
    return _state_for_client(task)


def _rendered(by_task: dict[UUID, list[Event]], tasks: dict[UUID, Task]) -> dict[int, Json]:
    """The JSON of each event that clients are told of, by the event's id."""
    events = [event for pk, of_task in by_task.items() if pk in tasks for event in of_task]
    added = _added_parts(events)
    bodies = {}
    for event in events:
        task = tasks[event.subject]
        questions = {question.pk: question for question in task.questions.all()}
        body = wire.event_to_json(event, task, added.get(event.pk), questions)
        if body is not None:
            bodies[event.pk] = body
    return bodies


_ADDED_PARTS = """
    SELECT added.event, artifact.artifact_id, artifact.name, artifact.description,
        jsonb_path_query_array(
            artifact.parts, '$[$first to $last]',
            jsonb_build_object('first', added.first, 'last', added.last)
        )
    FROM unnest(%s::bigint[], %s::uuid[], %s::text[], %s::int[], %s::int[])
        AS added (event, task, artifact_id, first, last)
    JOIN a2a_artifact AS artifact
        ON artifact.task_id = added.task AND artifact.artifact_id = added.artifact_id
"""


def _added_parts(events: list[Event]) -> dict[int, Artifact]:
    """For each event that added parts to an artifact, the artifact with those parts alone.

    Only these parts are read: else a stream over an artifact of many appends would read each part
    as many times as parts follow it.
    """
    rows = []
    for event in events:
        if event.kind == TaskEventKind.ARTIFACT_ADDED:
            details = json.loads(event.details)
            first = details["from"]
            name = details["artifact_id"]
            rows.append((event.pk, event.subject, name, first, first + details["parts"] - 1))
    if not rows:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_ADDED_PARTS, [list(column) for column in zip(*rows, strict=True)])
        return {
            event: Artifact(
                artifact_id=artifact_id, name=name, description=text, parts=_json(parts)
            )
            for event, artifact_id, name, text, parts in cursor.fetchall()
        }


def _json(value: Any) -> Any:
    """Django reads jsonb as text, and parses it in its own fields only."""
    return json.loads(value) if isinstance(value, str) else value
