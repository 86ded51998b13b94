"""Bringing our task to the state in which a remote agent has it, or to an end without it."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from a2a import states, tasks
from a2a.errors import Reason, TaskNotPossible
from a2a.models import Mirror, RemoteAgent, Task
from a2a.remote import mirror_leases
from a2a.states import TaskReasons, TaskState
from a2a.tasks import questions
from a2a.validation import refuse_unstorable
from a2a.wire import RemoteTask
from ledger.foundation.characters import without_nul
from ledger.principals import Principal, Surface
from ledger.tools import watched

logger = logging.getLogger(__name__)

VIA = Surface.A2A
MOST_ARTIFACTS = 100


def principal_of(remote: RemoteAgent) -> Principal:
    return remote.agent.principal


def apply(mirror: Mirror, theirs: RemoteTask) -> None:
    """Bring our task to the state of theirs, and schedule the next poll."""
    is_changed = theirs.digest != mirror.last_seen
    with suppress(TaskNotPossible):
        _apply_state(mirror, theirs, is_changed)
    unchanged = 0 if is_changed else min(mirror.unchanged_looks + 1, mirror_leases.MOST_COUNTED)
    mirror_leases.held(mirror).update(
        last_seen=theirs.digest,
        unchanged_looks=unchanged,
        look_at=mirror_leases.poll_after(mirror, mirror_leases.BACKOFF.wait(unchanged + 1)),
    )


def _apply_state(mirror: Mirror, theirs: RemoteTask, is_changed: bool) -> None:
    by, text = principal_of(mirror.remote), theirs.text
    match theirs.state:
        case TaskState.COMPLETED:
            _complete(mirror, theirs, by)
        case TaskState.FAILED | TaskState.REJECTED:
            reason = text or f"The remote agent said: {theirs.state}."
            end(mirror, Reason.REMOTE_FAILED, reason, cost=theirs.cost)
        case TaskState.CANCELED:
            reason = text or TaskReasons.REMOTE_CANCELED()
            code = Reason.REMOTE_FAILED
            tasks.end(mirror.task_id, states.CANCEL, by=by, via=VIA, code=code, reason=reason)
            mirror_leases.held(mirror).update(is_over=True)
        case TaskState.INPUT_REQUIRED if is_changed:
            _ask(mirror, theirs, by)
        case TaskState.AUTH_REQUIRED if is_changed:
            note = text or "The remote agent waits for authorization."
            tasks.await_sign_off(mirror.task_id, by=by, via=VIA, reason=note, note=note)
        case TaskState.SUBMITTED | TaskState.WORKING if is_changed:
            _report(mirror, text, by)


def _report(mirror: Mirror, text: str, by: Principal) -> None:
    if Task.objects.filter(pk=mirror.task_id, state=TaskState.AUTH_REQUIRED).exists():
        tasks.resume(mirror.task_id, by=by, via=VIA, note=text)
    elif text:
        tasks.report_note(mirror.task_id, text, by=by, via=VIA)


def _ask(mirror: Mirror, theirs: RemoteTask, by: Principal) -> None:
    """Ask here what they ask; with its form, if they speak as Assent does."""
    task = Task.objects.get(pk=mirror.task_id)
    if task.state != TaskState.WORKING:
        return  # it is asked already
    questions.ask(
        task.pk,
        agent=by,
        fencing_token=task.fencing_token,
        text=theirs.text or "The remote agent needs to know more. What shall it be told?",
        form=theirs.form,
        evidence=theirs.evidence,
        is_new=True,
        via=VIA,
    )


def _complete(mirror: Mirror, theirs: RemoteTask, by: Principal) -> None:
    whole = [
        tasks.WholeArtifact(
            artifact_id=str(artifact.get("artifactId") or number)[:200],
            name=str(artifact.get("name", ""))[:200],
            parts=artifact.get("parts", []),
        )
        for number, artifact in enumerate(theirs.artifacts[:MOST_ARTIFACTS])
    ]
    for artifact in whole:
        refuse_unstorable(artifact.parts)
    result = _result_of(theirs.artifacts)
    tasks.finish(mirror.task_id, by=by, via=VIA, result=result, artifacts=whole, cost=theirs.cost)
    mirror_leases.held(mirror).update(is_over=True)


def _result_of(artifacts: list[dict[str, Any]]) -> Any:
    """The first data part, else the texts: what clients of the plain dialect read as the result."""
    parts = [part for artifact in artifacts for part in artifact.get("parts", [])]
    data = next((part["data"] for part in parts if "data" in part), None)
    if data is not None:
        return data
    text = "\n".join(part["text"] for part in parts if "text" in part)
    return {"text": text} if text else None


# --- when it goes wrong -----------------------------------------------------------------------


def end(mirror: Mirror, code: Reason, reason: str, **columns: Any) -> None:
    """Fail our task, or cancel it if it waits for an answer, which FAILED cannot follow."""
    by = principal_of(mirror.remote)
    with suppress(TaskNotPossible):
        asks = Task.objects.filter(pk=mirror.task_id, state=TaskState.INPUT_REQUIRED).exists()
        move = states.CANCEL if asks else states.FAIL
        tasks.end(mirror.task_id, move, by=by, via=VIA, code=code, reason=reason, **columns)
    mirror_leases.held(mirror).update(is_over=True)


def retry_later(mirror: Mirror, failure: Exception) -> None:
    """Schedule another attempt, and say so on the task; after ``REMOTE_LOST_S`` end it instead."""
    logger.info("%s: %s", mirror, failure)
    text = watched.note_failure(mirror.remote.watched_id, _text_of(failure))
    watched.read_soon(mirror.remote.watched_id)
    since = mirror.failing_since or timezone.now()
    if timezone.now() - since >= timedelta(seconds=settings.REMOTE_LOST_S):
        end(mirror, Reason.REMOTE_LOST, f"The remote agent is out of reach: {text}")
        return
    if mirror.failing_since is None:
        note = f"The remote agent does not answer; trying again. {text}"
        with suppress(TaskNotPossible):
            tasks.report_note(mirror.task_id, note, by=principal_of(mirror.remote), via=VIA)
    failures = min(mirror.unchanged_looks + 1, mirror_leases.MOST_COUNTED)
    wait = min(mirror_leases.BACKOFF.wait(failures), timedelta(seconds=settings.REMOTE_LOST_S / 2))
    mirror_leases.held(mirror).update(
        failing_since=since,
        unchanged_looks=failures,
        look_at=mirror_leases.poll_after(mirror, wait),
    )


def _text_of(failure: Exception) -> str:
    return without_nul((str(failure) or type(failure).__name__)[:500])
