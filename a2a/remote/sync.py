"""A task that a remote agent does: sent there, looked at, and kept in step here.

Every look is level-triggered: it brings our task to where theirs is now. One at a time looks, by
a hold that lapses; whoever lost it writes nothing any more. A message to them carries an id that
is the same each time.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import httpx
from django.conf import settings
from django.db.models import Case, F, Q, QuerySet, When
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.utils import timezone

from a2a import states, tasks
from a2a.errors import Reason, TaskNotPossible
from a2a.models import Mirror, Question, QuestionState, RemoteAgent, Task
from a2a.remote import agents, outbound, outgoing
from a2a.states import FINAL, TaskEventKind, TaskState
from a2a.tasks import questions
from a2a.validation.parts import refuse_unstorable
from a2a.wire import sdk
from a2a.wire.sdk import pb
from ledger.backoff import Backoff
from ledger.database.updates import update_returning
from ledger.http import address_of
from ledger.principals import Principal
from ledger.safe_http import AddressRefused

logger = logging.getLogger(__name__)

VIA = "a2a"
PAUSE = Backoff(first=timedelta(seconds=2), longest=timedelta(seconds=30))
LOOK_TAKES = timedelta(seconds=60)  # while one worker looks, nobody else does
BATCH = 500
DUE = Q(is_over=False, look_at__lte=Now()) & (Q(busy_until=None) | Q(busy_until__lte=Now()))
R = TypeVar("R")


class Forgotten(Exception):
    """The remote does not know the task (any more)."""


# --- what is due ----------------------------------------------------------------------------


def due() -> list[UUID]:
    """Tasks for remote agents that wait to be sent, and mirrors that are to be looked at."""
    unsent = Task.objects.filter(
        state=TaskState.SUBMITTED, mirror=None, skill__agent__remote__isnull=False
    )
    looks = Mirror.objects.filter(DUE).values_list("task_id", flat=True)
    return [*unsent.values_list("pk", flat=True)[:BATCH], *looks[:BATCH]]


def go_on(task_id: UUID) -> None:
    """Send the task, or look how far it is."""
    mirror = Mirror.objects.filter(task=task_id).first()
    if mirror is None:
        send(task_id)
    else:
        look(mirror)


# --- sending --------------------------------------------------------------------------------


def send(task_id: UUID) -> None:
    """Claim the task in the remote's name, then hand it over."""
    task = Task.objects.select_related("skill__agent__remote").filter(pk=task_id).first()
    if task is None or task.skill is None or not hasattr(task.skill.agent, "remote"):
        return
    remote = task.skill.agent.remote
    with suppress(TaskNotPossible):
        # Together: a task that is claimed without a mirror would be looked at by nobody.
        with atomic():
            tasks.claim_task(
                task.pk,
                by=_principal(remote),
                via=VIA,
                details={"remote": remote.url},
                note="Being sent to the remote agent.",
            )
            Mirror.objects.create(task=task, remote=remote, secret=secrets.token_urlsafe(32))
        look(Mirror.objects.get(task=task))


def look(mirror: Mirror) -> None:
    """One look, by one worker; the next one later the less changes."""
    free, later = Mirror.objects.filter(DUE, pk=mirror.pk), Now() + LOOK_TAKES
    held = update_returning(free, look_at=later, busy_until=later, hold=F("hold") + 1)
    if held is not None:
        _look(held)


def _look(mirror: Mirror) -> None:
    try:
        theirs = _exchange(mirror)
        if mirror.failing_since is not None:
            _mine(mirror).update(failing_since=None)
        if theirs is not None:
            _if_held(mirror, partial(keep_in_step, mirror, theirs))
    except Forgotten:
        why = "The remote agent does not know the task any more."
        _if_held(mirror, partial(_end, mirror, Reason.REMOTE_LOST, why))
    except Exception as failure:  # of whatever kind: the remote's answer is a stranger's
        _if_held(mirror, partial(_keep_trying, mirror, failure))
    finally:
        _mine(mirror).update(busy_until=None)


def _mine(mirror: Mirror) -> QuerySet[Mirror]:
    """The row, unless another worker has looked since: then what we know is old."""
    return Mirror.objects.filter(pk=mirror.pk, hold=mirror.hold)


def _if_held(mirror: Mirror, write: Callable[[], None]) -> None:
    """Write what came of a look if it is still ours; nobody takes it over before the end."""
    with atomic():
        if _mine(mirror).select_for_update().exists():
            write()


def _look_again_in(mirror: Mirror, wait: timedelta) -> Case:
    """News that came while we looked are looked at first."""
    return Case(When(look_at=mirror.look_at, then=Now() + wait), default=F("look_at"))


def _exchange(mirror: Mirror) -> pb.Task | None:
    """Say what is to be said, or ask how it stands."""
    task = mirror.task
    if task.state in FINAL:
        if task.state == TaskState.CANCELED and mirror.remote_task_id:
            _call(mirror.remote, lambda client: _cancel(client, mirror.remote_task_id))
        _mine(mirror).update(is_over=True)
        return None
    if not mirror.remote_task_id:
        return _say(mirror, _first_message(mirror))
    unsent = (
        task.questions.filter(state=QuestionState.ANSWERED)
        .exclude(pk__in=mirror.answers_sent)
        .order_by("pk")
        .first()
    )
    if unsent is not None:
        found = _say(mirror, _answer_message(mirror, unsent))
        _mine(mirror).update(answers_sent=[*mirror.answers_sent, unsent.pk], last_seen="")
        return found
    return _call(mirror.remote, lambda client: _get(client, mirror.remote_task_id))


def _first_message(mirror: Mirror) -> pb.SendMessageRequest:
    task = mirror.task
    tastes = _tastes(mirror)
    message = {
        "messageId": str(task.pk),
        "role": "ROLE_USER",
        "parts": outgoing.parts_of_task(task, tastes),
        "metadata": {"skill": tastes.skill_id, "idempotency_key": str(task.pk)},
    }
    request = pb.SendMessageRequest()
    sdk.ParseDict({"message": message}, request)
    _ask_for_push(mirror, request)
    return request


def _tastes(mirror: Mirror) -> outgoing.Tastes:
    return outgoing.tastes_of(agents.parse(mirror.remote.card), mirror.task.skill_slug)


def _ask_for_push(mirror: Mirror, request: pb.SendMessageRequest) -> None:
    card = agents.parse(mirror.remote.card)
    if mirror.remote.wants_push and card.capabilities.push_notifications:
        config = request.configuration.task_push_notification_config
        config.url = address_of(f"/a2a/news/{mirror.pk}")
        config.token = mirror.secret


def _answer_message(mirror: Mirror, question: Question) -> pb.SendMessageRequest:
    message = {
        "messageId": f"answer-{question.pk}",
        "role": "ROLE_USER",
        "taskId": mirror.remote_task_id,
        "contextId": mirror.remote_context_id,
        "parts": outgoing.parts_of_answer(question.answer, _tastes(mirror)),
    }
    request = pb.SendMessageRequest()
    sdk.ParseDict({"message": message}, request)
    return request


def _say(mirror: Mirror, request: pb.SendMessageRequest) -> pb.Task:
    request.configuration.return_immediately = True
    sent = sdk.MessageToDict(request.message)
    found = _call(mirror.remote, lambda client: _send(client, request))
    # Some libraries answer a follow-up with another task: that is the one to follow then.
    _mine(mirror).update(
        remote_task_id=found.id[:200],
        remote_context_id=found.context_id[:200],
        sent=[*(one for one in mirror.sent if one["messageId"] != sent["messageId"]), sent],
    )
    mirror.remote_task_id, mirror.remote_context_id = found.id, found.context_id
    return found


# --- keeping in step ---------------------------------------------------------------------------


def keep_in_step(mirror: Mirror, theirs: pb.Task) -> None:
    """Bring our task to where theirs is."""
    digest = agents.fingerprint(sdk.MessageToDict(theirs))
    is_news = digest != mirror.last_seen
    state = sdk.STATE_IN.get(theirs.status.state, TaskState.WORKING)
    said = sdk.said_in(theirs.status)
    by = _principal(mirror.remote)
    with suppress(TaskNotPossible):
        match state:
            case TaskState.COMPLETED:
                _complete(mirror, theirs, by)
            case TaskState.FAILED | TaskState.REJECTED:
                _end(mirror, Reason.REMOTE_FAILED, said or f"The remote agent said: {state}.")
            case TaskState.CANCELED:
                reason = said or "The remote agent canceled it."
                tasks.end(mirror.task_id, states.CANCEL, by=by, via=VIA,
                          code=Reason.REMOTE_FAILED, reason=reason)  # fmt: skip
                _mine(mirror).update(is_over=True)
            case TaskState.INPUT_REQUIRED if is_news:
                _ask(mirror, theirs, said, by)
            case TaskState.AUTH_REQUIRED if is_news:
                note = said or "The remote agent waits for authorization."
                tasks.await_sign_off(mirror.task_id, by=by, via=VIA, reason=note, note=note)
            case TaskState.SUBMITTED | TaskState.WORKING if is_news:
                _report(mirror, said, by)
    looks = 0 if is_news else min(mirror.unchanged_looks + 1, 10)
    pause = PAUSE.wait(looks + 1)
    _mine(mirror).update(
        last_seen=digest, unchanged_looks=looks, look_at=_look_again_in(mirror, pause)
    )


def _report(mirror: Mirror, said: str, by: Principal) -> None:
    if Task.objects.filter(pk=mirror.task_id, state=TaskState.AUTH_REQUIRED).exists():
        tasks.resume(mirror.task_id, by=by, via=VIA, note=said)
    elif said:
        tasks.report_note(mirror.task_id, said, by=by, via=VIA)


def _ask(mirror: Mirror, theirs: pb.Task, said: str, by: Principal) -> None:
    """Their question becomes ours; with its form, where they speak our dialect."""
    task = Task.objects.get(pk=mirror.task_id)
    if task.state != TaskState.WORKING:
        return  # it is asked already
    form, evidence = sdk.question_in(theirs.status)
    questions.ask(
        task.pk,
        agent=by,
        fencing_token=task.fencing_token,
        text=said or "The remote agent needs to know more. What shall it be told?",
        form=form,
        evidence=evidence,
        is_new=True,
        via=VIA,
    )


def _complete(mirror: Mirror, theirs: pb.Task, by: Principal) -> None:
    artifacts = [sdk.MessageToDict(artifact) for artifact in theirs.artifacts]
    whole = [
        tasks.WholeArtifact(
            artifact_id=str(artifact.get("artifactId") or number)[:200],
            name=str(artifact.get("name", ""))[:200],
            parts=artifact.get("parts", []),
        )
        for number, artifact in enumerate(artifacts[:100])
    ]
    for artifact in whole:
        refuse_unstorable(artifact.parts)
    result = _result_of(artifacts)
    tasks.finish(mirror.task_id, by=by, via=VIA, result=result, artifacts=whole)
    _mine(mirror).update(is_over=True)


def _result_of(artifacts: list[dict[str, Any]]) -> Any:
    """The first data part, or the texts; for clients that speak the plain dialect."""
    parts = [part for artifact in artifacts for part in artifact.get("parts", [])]
    data = next((part["data"] for part in parts if "data" in part), None)
    if data is not None:
        return data
    text = "\n".join(part["text"] for part in parts if "text" in part)
    return {"text": text} if text else None


# --- when it goes wrong ---------------------------------------------------------------------


def _keep_trying(mirror: Mirror, failure: Exception) -> None:
    """Try again later, visibly; give up when it has been out of reach for too long."""
    logger.info("%s: %s", mirror, failure)
    agents.soon(mirror.remote)
    RemoteAgent.objects.filter(pk=mirror.remote_id).update(error=_in_words(failure))
    since = mirror.failing_since or timezone.now()
    if timezone.now() - since >= timedelta(seconds=settings.REMOTE_LOST_S):
        _end(mirror, Reason.REMOTE_LOST, f"The remote agent is out of reach: {_in_words(failure)}")
        return
    note = f"The remote agent does not answer; trying again. {_in_words(failure)}"
    if mirror.failing_since is None:
        with suppress(TaskNotPossible):
            tasks.report_note(mirror.task_id, note, by=_principal(mirror.remote), via=VIA)
    looks = min(mirror.unchanged_looks + 1, 10)
    pause = min(PAUSE.wait(looks), timedelta(seconds=settings.REMOTE_LOST_S / 2))
    _mine(mirror).update(
        failing_since=since, unchanged_looks=looks, look_at=_look_again_in(mirror, pause)
    )


def _end(mirror: Mirror, code: Reason, reason: str) -> None:
    """Ends the task, whatever it waits for."""
    by = _principal(mirror.remote)
    with suppress(TaskNotPossible):
        asks = Task.objects.filter(pk=mirror.task_id, state=TaskState.INPUT_REQUIRED).exists()
        move = states.CANCEL if asks else states.FAIL
        tasks.end(mirror.task_id, move, by=by, via=VIA, code=code, reason=reason)
    _mine(mirror).update(is_over=True)


def _in_words(failure: Exception) -> str:
    return (str(failure) or type(failure).__name__)[:500].replace("\x00", "")


# --- the wire -------------------------------------------------------------------------------


def _principal(remote: RemoteAgent) -> Principal:
    return remote.agent.principal


def _call(remote: RemoteAgent, what: Callable[[sdk.Client], Awaitable[R]]) -> R:
    """One exchange with the remote. Raises ``Forgotten`` and what the SDK and httpx raise."""

    async def exchange() -> R:
        async with outbound.client(remote.token) as http:
            config = sdk.ClientConfig(
                streaming=False,
                polling=True,
                httpx_client=http,
                supported_protocol_bindings=list(agents.BINDINGS),
            )
            client = sdk.ClientFactory(config).create(agents.parse(remote.card))
            return await what(client)

    try:
        return asyncio.run(exchange())
    except sdk.TaskNotFoundError:
        raise Forgotten from None
    except AddressRefused:
        raise
    except httpx.HTTPStatusError as failure:
        if failure.response.status_code == 404:
            raise Forgotten from None
        raise


async def _send(client: sdk.Client, request: pb.SendMessageRequest) -> pb.Task:
    """The task that they made of it; an agent that only answers gets one of our making."""
    async for response in client.send_message(request):
        kind = response.WhichOneof("payload")
        if kind == "task":
            return response.task
        if kind == "message":
            return sdk.task_of_message(response.message)
    raise httpx.RemoteProtocolError("The remote agent answered without a task.")


async def _get(client: sdk.Client, task_id: str) -> pb.Task:
    return await client.get_task(pb.GetTaskRequest(id=task_id))


async def _cancel(client: sdk.Client, task_id: str) -> None:
    with suppress(sdk.A2AError):  # it may have ended by itself
        await client.cancel_task(pb.CancelTaskRequest(id=task_id))


def hurry(subject: UUID, kind: str, **_: object) -> None:
    """Something for a remote agent happened here: it is told at once, not at its next look."""
    if kind in {TaskEventKind.ANSWERED, TaskEventKind.CANCELED}:
        Mirror.objects.filter(Q(is_over=False), task=subject).update(
            look_at=Now(), unchanged_looks=0
        )
