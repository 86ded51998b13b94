"""REST for workers: agents that do tasks without running a server of their own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from a2a import submissions, tasks
from a2a.errors import TaskNotFound
from a2a.models import Message, Question, Task
from a2a.rest.schemas import (
    ArtifactIn,
    ArtifactOut,
    AskIn,
    ClaimIn,
    CompleteIn,
    DeclineIn,
    FailIn,
    HandOverIn,
    HeldIn,
    HeldOut,
    MessagePage,
    ProgressIn,
    QuestionOut,
    WorkOut,
)
from a2a.tasks import questions
from a2a.validation import refuse_unstorable
from a2a.wire import artifact_as_json, message_as_json, question_as_json, work_as_json
from ledger.agents import Caller
from ledger.api.http import BODY, AgentBearer, caller_of, json_response, refusals
from ledger.api.waiting import LONGEST_WAIT_S
from ledger.models import Scope
from ledger.principals import Surface

PAGE = 50
VIA = Surface.REST
HELD = {200: HeldOut, **refusals(*BODY, 403, 404, 409)}
router = Router(auth=AgentBearer(), tags=["workers"])


@router.post(
    "/claim",
    operation_id="claimTask",
    response={200: WorkOut, 204: None, **refusals(*BODY, 403)},
)
def claim(request: HttpRequest, body: ClaimIn) -> HttpResponse:
    """Claim the oldest waiting task of the agent's skills; `204` when none came in time."""
    refuse_unstorable(body.skills)
    task = tasks.claim(_worker(request).principal, skills=body.skills, via=VIA)
    return HttpResponse(status=204) if task is None else _json(work_as_json(task))


@router.post("/{uuid:task_id}/heartbeat", operation_id="sendHeartbeat", response=HELD)
def heartbeat(request: HttpRequest, task_id: UUID, body: HeldIn) -> HttpResponse:
    """Renew the lease. `409` means: stop, the task is not yours any more (or was canceled)."""
    caller = _worker(request)
    task = tasks.heartbeat(task_id, agent=caller.principal, fencing_token=body.fencing_token)
    return _held(task)


@router.get(
    "/{uuid:task_id}/messages",
    operation_id="readMessages",
    response={200: MessagePage, **refusals(403, 404, 422)},
)
def read_messages(
    request: HttpRequest,
    task_id: UUID,
    cursor: int = Query(0, ge=0, le=2**63 - 1, description="next_cursor of the answer before."),
    limit: int = Query(PAGE, ge=1, le=200),
    wait: float = Query(0, ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for a new one."),
) -> HttpResponse:
    """Messages of the client and of workers after `cursor`, oldest first."""
    caller = _worker(request)
    if not Task.objects.filter(pk=task_id, owner=str(caller.principal)).exists():
        raise TaskNotFound()
    messages = list(Message.objects.filter(task=task_id, pk__gt=cursor).order_by("pk")[:limit])
    return _json(
        {
            "items": [message_as_json(message) for message in messages],
            "next_cursor": str(messages[-1].pk if messages else cursor),
        }
    )


@router.post("/{uuid:task_id}/progress", operation_id="reportProgress", response=HELD)
def progress(request: HttpRequest, task_id: UUID, body: ProgressIn) -> HttpResponse:
    """Report progress, for the desk and for subscribers. Renews the lease."""
    task = tasks.report(
        task_id,
        **_held_by(request, body),
        stage=body.stage,
        percent=body.percent,
        note=body.message,
    )
    return _held(task)


@router.post(
    "/{uuid:task_id}/artifacts",
    operation_id="addArtifact",
    response={200: ArtifactOut, **refusals(*BODY, 403, 404, 409)},
)
def add_artifact(request: HttpRequest, task_id: UUID, body: ArtifactIn) -> HttpResponse:
    """Add an artifact; with `append`, add parts to an existing one. Renews the lease.

    The answer has the parts of this request only.
    """
    artifact = tasks.add_artifact(
        task_id,
        **_held_by(request, body),
        artifact_id=body.artifact_id,
        name=body.name,
        description=body.description,
        parts=body.parts,
        append=body.append,
        is_complete=body.is_complete,
    )
    return _json(artifact_as_json(artifact))


@router.post(
    "/{uuid:task_id}/ask",
    operation_id="askQuestion",
    response={200: QuestionOut, **refusals(*BODY, 403, 404, 409)},
)
def ask(request: HttpRequest, task_id: UUID, body: AskIn) -> HttpResponse:
    """Ask people and the client; the task waits. Then long-poll the question for its answer."""
    question = questions.ask(
        task_id,
        **_held_by(request, body),
        text=body.text,
        form=body.form,
        evidence=body.evidence,
        may_answer=body.may_answer,
        ttl=None if body.ttl_s is None else timedelta(seconds=body.ttl_s),
    )
    return _json(question_as_json(question))


@router.get(
    "/{uuid:task_id}/questions/{uuid:question_id}",
    operation_id="readQuestion",
    response={200: QuestionOut, **refusals(403, 404, 422)},
)
def read_question(
    request: HttpRequest,
    task_id: UUID,
    question_id: UUID,
    wait: float = Query(0, ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for the answer."),
) -> HttpResponse:
    """Read a question, and its answer as soon as there is one."""
    caller = _worker(request)
    return _json(question_as_json(_question(caller, task_id, question_id)))


@router.post("/{uuid:task_id}/complete", operation_id="completeTask", response=HELD)
def complete(request: HttpRequest, task_id: UUID, body: CompleteIn) -> HttpResponse:
    """Complete the task with its result. Repeating the request is safe."""
    held = {**_held_by(request, body), "cost": _cost(body)}
    task = tasks.complete(task_id, **held, result=body.result, note=body.message)
    return _held(task)


@router.post("/{uuid:task_id}/fail", operation_id="failTask", response=HELD)
def fail(request: HttpRequest, task_id: UUID, body: FailIn) -> HttpResponse:
    """Fail the task; the client reads the reason."""
    held = {**_held_by(request, body), "cost": _cost(body)}
    return _held(tasks.fail(task_id, **held, reason=body.reason, code=body.code))


def _cost(body: CompleteIn | FailIn) -> dict[str, Any] | None:
    return body.cost.as_json() if body.cost else None


@router.post("/{uuid:task_id}/decline", operation_id="declineTask", response=HELD)
def decline(request: HttpRequest, task_id: UUID, body: DeclineIn) -> HttpResponse:
    """Decline the task before any work on it; the client reads the reason. Later, use `fail`."""
    task = tasks.decline(task_id, **_held_by(request, body), reason=body.reason, code=body.code)
    return _held(task)


@router.post("/{uuid:task_id}/hand_over", operation_id="handOverTask", response=HELD)
def hand_over(request: HttpRequest, task_id: UUID, body: HandOverIn) -> HttpResponse:
    """Hand the task over to another skill of the tenant, on that skill's terms."""
    held = _held_by(request, body)
    return _held(submissions.hand_over(task_id, **held, slug=body.skill, reason=body.reason))


def _worker(request: HttpRequest) -> Caller:
    return caller_of(request, Scope.WORK)


def _held_by(request: HttpRequest, body: HeldIn) -> dict[str, Any]:
    agent = _worker(request).principal
    return {"agent": agent, "fencing_token": body.fencing_token, "via": VIA}


def _question(caller: Caller, task_id: UUID, question_id: UUID) -> Question:
    of_own_task = Question.objects.filter(task=task_id, task__owner=str(caller.principal))
    question = of_own_task.filter(pk=question_id).first()
    if question is None:
        raise TaskNotFound("There is no such question of a task of yours.")
    return question


def _held(task: Task) -> HttpResponse:
    return _json(
        {
            "task_id": str(task.pk),
            "state": task.state,
            "lease_expires_at": task.lease_expires_at.isoformat()
            if task.lease_expires_at
            else None,
            "messages": task.messages.count(),
        }
    )


def _json(body: dict[str, Any]) -> HttpResponse:
    return json_response(body)
