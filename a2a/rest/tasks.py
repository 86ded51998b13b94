"""The plain dialect: tasks for clients that speak JSON over HTTP and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Header, Query, Router

from a2a import builtin, polling, submissions, tasks, validation
from a2a.cards import dialect_card
from a2a.models import Task, visible_if_any
from a2a.rest.schemas import AnswerIn, TaskCancelIn, TaskEventOut, TaskIn, TaskOut, TaskPage
from a2a.states import TaskState
from a2a.submissions import Submission
from a2a.tasks import records
from a2a.validation import Part, refuse_unstorable
from a2a.wire import event_as_json, task_as_json
from ledger.api import DecisionRecord, record_response
from ledger.api.http import (
    BODY,
    AgentBearer,
    address_of,
    caller_of,
    json_response,
    refusals,
    unquoted,
)
from ledger.api.http.polling import POLL_INTERVAL_S, Pace, pace_of, too_fast
from ledger.api.waiting import LONGEST_WAIT_S
from ledger.foundation.postgres import keyset_page
from ledger.models import Scope
from ledger.principals import Surface

PAGE = 50
VIA = Surface.REST
AT_WORK = [TaskState.WORKING, TaskState.AUTH_REQUIRED]  # both are `working` in this dialect
router = Router(auth=AgentBearer(), tags=["tasks"])


@router.post(
    "",
    operation_id="submitTask",
    response={201: TaskOut, 200: TaskOut, **refusals(*BODY)},
)
def submit(
    request: HttpRequest,
    body: TaskIn,
    idempotency_key: str = Header("", alias="Idempotency-Key"),
    traceparent: str = Header(""),
) -> HttpResponse:
    """Submit a task. One that cannot begin is returned as `rejected`, with the reason.

    Repeating the request with the same `Idempotency-Key` gives the same task.
    """
    caller = caller_of(request)
    submitted = submissions.submit(
        Submission(
            skill=body.skill,
            input=body.input,
            parts=_parts(body),
            context_id=body.context_id,
            metadata=body.metadata,
            envelope=body.envelope,
            idempotency_key=unquoted(idempotency_key),
            trace_id=traceparent[3:35] if len(traceparent) == 55 else "",
            card_version=body.card_version,
            revises=body.revises,
            may_answer=body.may_answer,
            push=body.push.dict() if body.push else None,
        ),
        caller=caller,
        via=VIA,
    )
    task = submitted.task
    warnings = []
    if body.card_version:
        current = dialect_card.current_versions(caller.tenant, body.skill)
        warnings = [] if body.card_version in current else [_outdated(body.card_version)]
    response = _rendered(task, 200 if submitted.is_replay else 201, warnings)
    if body.card_version:
        response["Assent-Card-Version"] = dialect_card.card(caller.tenant)["version"]
    response["Location"] = address_of(f"/api/v1/tasks/{task.pk}")
    if submitted.is_replay:
        response["Idempotent-Replayed"] = "true"
    return response


def _parts(body: TaskIn) -> list[Part]:
    """The message that an A2A client would send for the same task."""
    change = [{"text": body.change_request}] if body.change_request else []
    return [{"data": {"skill": body.skill, "input": body.input}}, *change]


@router.get(
    "",
    operation_id="listTasks",
    response={200: TaskPage, **refusals(422)},
)
def list_tasks(
    request: HttpRequest,
    cursor: UUID | None = Query(None, description="next_cursor of the page before."),
    limit: int = Query(PAGE, ge=1, le=200),
    state: TaskState | None = None,
    skill: str = Query("", max_length=100),
    trace_id: str = Query("", max_length=128),
) -> HttpResponse:
    """The tasks that the agent submitted or works on, newest first."""
    refuse_unstorable([skill, trace_id])
    wanted = {
        "state__in": AT_WORK if state == TaskState.WORKING else state and [state],
        "skill_slug": skill,
        "trace_id": validation.w3c_trace_id(trace_id),
    }
    rows = Task.objects.filter(**{name: value for name, value in wanted.items() if value})
    page = keyset_page(
        rows.prefetch_related("questions", "artifacts", "transaction"),
        limit,
        before=None if cursor is None else (cursor,),
        any_of=visible_if_any(caller_of(request)),
    )
    body = {
        "items": [task_as_json(task, POLL_INTERVAL_S) for task in page.rows],
        "next_cursor": None if page.cursor is None else str(page.cursor),
    }
    return json_response(body)


@router.get(
    "/{uuid:task_id}",
    operation_id="readTask",
    response={200: TaskOut, **refusals(404, 422)},
)
def read(
    request: HttpRequest,
    task_id: UUID,
    wait: float = Query(0, ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for a change."),
) -> HttpResponse:
    """Read a task. `Retry-After` says when to read it again; `wait` returns once it changes."""
    caller = caller_of(request)
    is_too_fast = wait < POLL_INTERVAL_S and pace_of(caller, task_id) is Pace.REFUSED
    task = tasks.visible(caller, task_id)
    return too_fast(f"Task {task_id}") if is_too_fast and not task.is_final else _rendered(task)


@router.get(
    "/{uuid:task_id}/events",
    operation_id="listTaskEvents",
    response={200: list[TaskEventOut], **refusals(404)},
)
def events(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """The events of the task, oldest first: who had it, who waited for whom, why it ended."""
    task = tasks.visible(caller_of(request), task_id)
    body = [event_as_json(event) for event in task.events[:1000]]
    return json_response(body)


@router.get(
    "/{uuid:task_id}/record",
    operation_id="getTaskRecord",
    response={200: DecisionRecord, **refusals(404)},
)
def record(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """The decision record of the task: one file that verifies offline."""
    return record_response(records.of_task(tasks.visible(caller_of(request), task_id)))


@router.post(
    "/{uuid:task_id}/resolve",
    operation_id="answerQuestion",
    response={200: TaskOut, **refusals(*BODY, 403, 404, 409)},
)
def resolve(request: HttpRequest, task_id: UUID, body: AnswerIn) -> HttpResponse:
    """Answer the open question of the task."""
    caller = caller_of(request, Scope.SUBMIT)
    task = tasks.visible(caller, task_id)
    if task.state == TaskState.INPUT_REQUIRED and task.transaction_id is not None:
        builtin.answer(task, body.answer, caller=caller, message=None, via=VIA)
    else:
        tasks.answer_as_client(task, body.answer, caller=caller, via=VIA)
    return _rendered(tasks.visible(caller, task_id))


@router.post(
    "/{uuid:task_id}/cancel",
    operation_id="cancelTask",
    response={200: TaskOut, **refusals(*BODY, 403, 404, 409)},
)
def cancel(request: HttpRequest, task_id: UUID, body: TaskCancelIn) -> HttpResponse:
    """Stop a task that has not ended, and what was delegated from it."""
    caller = caller_of(request, Scope.SUBMIT)
    tasks.cancel_as_client(
        tasks.visible(caller, task_id), caller=caller, via=VIA, reason=body.reason
    )
    return _rendered(tasks.visible(caller, task_id))


def _outdated(version: str) -> dict[str, str]:
    """A warning only: the request was checked against the schemas of today."""
    return {
        "code": "card_outdated",
        "detail": f"The request was made from version {version} of the card; there is another.",
        "hint": f"Fetch {address_of(dialect_card.PATH)} again before the next request.",
    }


def _rendered(
    task: Task, status: int = 200, warnings: Sequence[dict[str, str]] = ()
) -> HttpResponse:
    pause = polling.seconds_until_next(task.pk, task.state, task.tenant)
    body = {**task_as_json(task, pause), "warnings": list(warnings)}
    response = json_response(body, status)
    if not task.is_final:
        response["Retry-After"] = str(pause)
    return response
