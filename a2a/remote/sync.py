"""Tasks that a remote agent does: sent there, polled, and applied here.

A poll is level-triggered: it brings our task to the state that theirs has now. One worker at a time
polls (``a2a.remote.mirror_leases``). A message has the same id each time that it is sent.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models.functions import Now
from django.db.transaction import atomic

from a2a import tasks
from a2a.errors import Reason, TaskNotPossible
from a2a.models import Mirror, Question, QuestionState, Task
from a2a.remote import apply, calls, mirror_leases, outgoing
from a2a.remote.apply import VIA, principal_of
from a2a.states import FINAL, TaskReasons, TaskState
from a2a.wire import RemoteTask, TaskUnknown

BATCH = 500


def due() -> list[UUID]:
    """Tasks for remote agents that are to be sent, or polled."""
    unsent = Task.objects.filter(
        state=TaskState.SUBMITTED, mirror=None, skill__agent__remote__isnull=False
    )
    polls = Mirror.objects.filter(mirror_leases.DUE).values_list("task_id", flat=True)
    return [*unsent.values_list("pk", flat=True)[:BATCH], *polls[:BATCH]]


def sync(task_id: UUID) -> None:
    """Send the task to its remote agent, or poll it there. May run twice, and at any time."""
    mirror = Mirror.objects.filter(task=task_id).first()
    if mirror is None:
        mirror = _claim(task_id)
    if mirror is not None and (held := mirror_leases.take(mirror)) is not None:
        _poll(held)


def _claim(task_id: UUID) -> Mirror | None:
    """Claim the task in the remote agent's name; ``None`` if it is not one to be sent."""
    task = Task.objects.select_related("skill__agent__remote").filter(pk=task_id).first()
    if task is None or task.skill is None or not hasattr(task.skill.agent, "remote"):
        return None
    remote = task.skill.agent.remote
    # In one transaction: a claimed task without a mirror would never be polled.
    with suppress(TaskNotPossible), atomic():
        tasks.claim_task(
            task.pk,
            by=principal_of(remote),
            via=VIA,
            details={"remote": remote.url},
            note="Being sent to the remote agent.",
        )
        Mirror.objects.create(task=task, remote=remote, secret=secrets.token_urlsafe(32))
    return Mirror.objects.filter(task=task).first()


def _poll(mirror: Mirror) -> None:
    try:
        theirs = _exchange(mirror)
        if mirror.failing_since is not None:
            mirror_leases.held(mirror).update(failing_since=None)
        if theirs is not None:
            mirror_leases.if_held(mirror, partial(apply.apply, mirror, theirs))
    except TaskUnknown:
        reason = TaskReasons.REMOTE_LOST()
        mirror_leases.if_held(mirror, partial(apply.end, mirror, Reason.REMOTE_LOST, reason))
    except Exception as failure:  # of any type: the response is a stranger's
        mirror_leases.if_held(mirror, partial(apply.retry_later, mirror, failure))
    finally:
        mirror_leases.release(mirror)


def _exchange(mirror: Mirror) -> RemoteTask | None:
    """Send the message that is due, else read the task; ``None`` once our task has ended."""
    task = mirror.task
    if task.state in FINAL:
        if task.state == TaskState.CANCELED and mirror.remote_task_id:
            calls.call(mirror.remote, lambda remote: remote.cancel(mirror.remote_task_id))
        mirror_leases.held(mirror).update(is_over=True)
        return None
    if not mirror.remote_task_id:
        return _send(mirror, outgoing.first_message(mirror), outgoing.push_config(mirror))
    if (question := _unsent_answer(mirror)) is not None:
        theirs = _send(mirror, outgoing.answer_message(mirror, question))
        answers_sent = [*mirror.answers_sent, question.pk]
        mirror_leases.held(mirror).update(answers_sent=answers_sent, last_seen="")
        return theirs
    return calls.call(mirror.remote, lambda remote: remote.get(mirror.remote_task_id))


def _unsent_answer(mirror: Mirror) -> Question | None:
    answered = mirror.task.questions.filter(state=QuestionState.ANSWERED)
    return answered.exclude(pk__in=mirror.answers_sent).order_by("pk").first()


def _send(
    mirror: Mirror, message: dict[str, Any], push: dict[str, Any] | None = None
) -> RemoteTask:
    theirs, sent = calls.call(mirror.remote, lambda remote: remote.send(message, push))
    earlier = [old for old in mirror.sent if old["messageId"] != sent["messageId"]]
    # Some libraries answer a follow-up with another task: then that one is polled.
    mirror_leases.held(mirror).update(
        remote_task_id=theirs.id[:200],
        remote_context_id=theirs.context_id[:200],
        sent=[*earlier, sent],
    )
    mirror.remote_task_id, mirror.remote_context_id = theirs.id, theirs.context_id
    return theirs


def poll_now(task_id: UUID) -> bool:
    """Make the next poll of a task due at once; ``False`` if no remote agent has the task."""
    mirrors = Mirror.objects.filter(task=task_id, is_over=False)
    return bool(mirrors.update(look_at=Now(), unchanged_looks=0))
