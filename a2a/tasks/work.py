"""The verbs of a task at work: claim, report, complete, fail, hand over; and how it ends."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

from django.db.models import DurationField, ExpressionWrapper, F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, Now
from django.db.transaction import atomic

from a2a import states
from a2a.errors import Reason, ResultInvalid, TaskLeaseLost, TaskNotFound, TaskNotPossible
from a2a.models import ASSENT, LEASE, Artifact, Message, Skill, Task, id_or_none
from a2a.states import OPEN, TaskState
from a2a.tasks import withdrawals
from a2a.tasks.transitions import ALWAYS, advance
from a2a.validation import json_schemas
from a2a.validation.parts import refuse_unspeakable, refuse_unstorable
from ledger.api.authentication import Caller
from ledger.errors import NotPossible
from ledger.principals import SWEEPER, Principal

Part = dict[str, Any]


# --- at work -------------------------------------------------------------------------------


def claim(agent: Principal, *, skills: list[str], via: str) -> Task | None:
    """The oldest task of the agent's skills that waits, with a lease; ``None`` when none does."""
    waiting = (
        Task.objects.filter(
            Q(next_attempt_at=None) | Q(next_attempt_at__lte=Now()),
            state=TaskState.SUBMITTED,
            owner=str(agent),
            expires_at__gt=Now(),
            transaction=None,
        )
        .select_for_update(skip_locked=True, of=("self",))
        .order_by("pk")
    )
    if skills:
        waiting = waiting.filter(skill_slug__in=skills)
    with atomic():
        task = waiting.first()
        if task is None:
            return None
        return advance(
            task.pk,
            states.CLAIM,
            by=agent,
            via=via,
            details={"attempt": task.attempts + 1},
            fencing_token=F("fencing_token") + 1,
            attempts=F("attempts") + 1,
            lease_expires_at=lease_from_now(),
            next_attempt_at=None,
        )


def lease_from_now() -> Any:
    """As long as the task's skill says, by the database's clock."""
    lease = Skill.objects.filter(pk=OuterRef("skill_id")).values("lease")[:1]
    span = Coalesce(Subquery(lease), LEASE, output_field=DurationField())
    return ExpressionWrapper(Now() + span, output_field=Task._meta.get_field("expires_at"))


# A lease of nobody's (a remote agent is looked at instead) does not run out.
LEASE_LIVES = Q(lease_expires_at=None) | Q(lease_expires_at__gt=Now())


def held_by(agent: Principal, fencing_token: int) -> Q:
    """The task is this worker's, and nobody has taken it over."""
    return Q(owner=str(agent), fencing_token=fencing_token)


def heartbeat(task_id: UUID, *, agent: Principal, fencing_token: int) -> Task:
    """Still there. Raises ``TaskLeaseLost, TaskNotFound``."""
    mine = Task.objects.filter(held_by(agent, fencing_token), pk=task_id, state__in=sorted(OPEN))
    at_work = mine.filter(state=TaskState.WORKING, lease_expires_at__gt=Now())
    at_work.update(lease_expires_at=lease_from_now())
    task = mine.first()
    if task is None or (
        task.state == TaskState.WORKING
        and task.lease_expires_at is not None
        and not at_work.exists()
    ):
        raise lost_or_missing(task_id, agent)
    return task


def report(
    task_id: UUID,
    *,
    agent: Principal,
    fencing_token: int,
    stage: str,
    percent: int | None,
    note: str,
    via: str,
) -> Task:
    """How far it is; renews the lease as well. Raises ``TaskLeaseLost, TaskNotFound``."""
    refuse_unstorable([stage, note])
    said = {"stage": stage, "percent": percent}
    return _as_worker(
        task_id,
        states.REPORT,
        agent=agent,
        fencing_token=fencing_token,
        via=via,
        said=note,
        details={name: value for name, value in said.items() if value not in (None, "")},
        stage=stage,
        percent=percent,
        note=note,
        lease_expires_at=lease_from_now(),
    )


def add_artifact(
    task_id: UUID,
    *,
    agent: Principal,
    fencing_token: int,
    artifact_id: str,
    parts: list[Part],
    name: str = "",
    description: str = "",
    append: bool = False,
    is_complete: bool = True,
    via: str,
) -> Artifact:
    """Keep something that came of the task, or add parts to it."""
    refuse_unstorable([artifact_id, parts, name, description])
    refuse_unspeakable(parts)
    with atomic():
        before = Artifact.objects.filter(task=task_id, artifact_id=artifact_id).first()
        kept = before.parts if before and append else []
        details = {"artifact_id": artifact_id, "from": len(kept), "parts": len(parts)}
        details |= {"append": bool(kept), "last": is_complete}
        _as_worker(
            task_id,
            states.ADD_ARTIFACT,
            agent=agent,
            fencing_token=fencing_token,
            via=via,
            details=details,
            lease_expires_at=lease_from_now(),
        )
        artifact, _ = Artifact.objects.update_or_create(
            task_id=task_id,
            artifact_id=artifact_id,
            defaults={
                "name": name or (before.name if before else ""),
                "description": description or (before.description if before else ""),
                "parts": [*kept, *parts],
                "is_complete": is_complete,
            },
        )
    return artifact


def complete(
    task_id: UUID, *, agent: Principal, fencing_token: int, result: Any, note: str = "", via: str
) -> Task:
    """Done. The result becomes an artifact; repeating it with the same token changes nothing.

    Raises ``ResultInvalid`` (the lease stays), ``TaskLeaseLost, TaskNotFound``.
    """
    refuse_unstorable([result, note])
    task = Task.objects.select_related("skill").filter(pk=task_id).first()
    if task is not None and _is_completed_so(task, agent, fencing_token, result):
        return task
    schema = task.skill.output_schema if task and task.skill else {}
    if errors := json_schemas.misfits(schema, result):
        raise ResultInvalid(errors=errors)
    with atomic():
        if result is not None:
            add_artifact(
                task_id, agent=agent, fencing_token=fencing_token, artifact_id="result",
                name="Result", parts=[{"data": result}], via=via,
            )  # fmt: skip
        return _as_worker(
            task_id,
            states.COMPLETE,
            agent=agent,
            fencing_token=fencing_token,
            via=via,
            said=note,
            result=result,
            percent=100,
            note=note,
        )


def finish(
    task_id: UUID, *, by: Principal, via: str, result: Any, artifact_id: str, artifact_name: str
) -> Task:
    """Complete what has no worker, with its result as an artifact."""
    with atomic():
        details = {"artifact_id": artifact_id, "from": 0, "parts": 1, "append": False, "last": True}
        advance(task_id, states.ADD_ARTIFACT, by=by, via=via, details=details)
        Artifact.objects.update_or_create(
            task_id=task_id,
            artifact_id=artifact_id,
            defaults={"name": artifact_name, "parts": [{"data": result}]},
        )
        return advance(task_id, states.COMPLETE, by=by, via=via, result=result)


def _is_completed_so(task: Task, agent: Principal, fencing_token: int, result: Any) -> bool:
    """The same worker said the same before: its answer was lost on the way."""
    mine = (task.owner, task.fencing_token) == (str(agent), fencing_token)
    return mine and task.state == TaskState.COMPLETED and task.result == result


def fail(
    task_id: UUID, *, agent: Principal, fencing_token: int, reason: str, code: str = "", via: str
) -> Task:
    """It could not be done, and why."""
    refuse_unstorable([reason, code])
    return _as_worker(
        task_id,
        states.FAIL,
        agent=agent,
        fencing_token=fencing_token,
        via=via,
        said=reason,
        details={"code": Reason.WORKER_FAILED.value, "worker_code": code},
        reason_code=Reason.WORKER_FAILED,
        reason=reason,
        errors=[{"code": code}] if code else [],
    )


def decline(
    task_id: UUID, *, agent: Principal, fencing_token: int, reason: str, code: str = "", via: str
) -> Task:
    """Turn the task down before beginning with it: REJECTED, and why.

    Who has reported progress, added an artifact or asked has begun, and fails instead: raises
    ``TaskNotPossible``. Raises ``TaskLeaseLost, TaskNotFound``.
    """
    refuse_unstorable([reason, code])
    held = held_by(agent, fencing_token) & LEASE_LIVES
    not_begun = Q(stage="", percent=None, artifacts=None, questions=None)
    try:
        return advance(
            task_id,
            states.DECLINE,
            by=agent,
            via=via,
            said=reason,
            only_if=held & not_begun,
            details={"code": Reason.DECLINED.value, "worker_code": code},
            reason_code=Reason.DECLINED,
            reason=reason,
            errors=[{"code": code}] if code else [],
        )
    except TaskNotPossible:
        if not Task.objects.filter(held, pk=task_id, state__in=states.DECLINE.sources).exists():
            raise lost_or_missing(task_id, agent) from None
    raise TaskNotPossible(
        "The work has begun; what has begun can only fail.",
        hint="Use fail, and say why. Nothing was changed by this request.",
    )


def hand_over(
    task_id: UUID, *, agent: Principal, fencing_token: int, skill: Skill, reason: str, via: str
) -> Task:
    """The move alone; ``a2a.submissions.handovers`` asks first whether the skill takes it."""
    refuse_unstorable(reason)
    owner = skill.agent.principal
    return _as_worker(
        task_id,
        states.HAND_OVER,
        agent=agent,
        fencing_token=fencing_token,
        via=via,
        said=reason,
        details={"from": str(agent), "to": str(owner), "skill": skill.slug},
        skill=skill,
        skill_slug=skill.slug,
        owner=str(owner),
        owner_name=skill.agent.name,
        attempts=0,
        lease_expires_at=None,
    )


def _as_worker(
    task_id: UUID,
    move: states.Move,
    *,
    agent: Principal,
    fencing_token: int,
    via: str,
    said: str = "",
    details: dict[str, Any] | None = None,
    **changes: Any,
) -> Task:
    only_if = held_by(agent, fencing_token) & LEASE_LIVES
    try:
        return advance(
            task_id, move, by=agent, via=via, said=said, only_if=only_if, details=details,
            **changes,
        )  # fmt: skip
    except TaskNotPossible:
        raise lost_or_missing(task_id, agent) from None


def lost_or_missing(task_id: UUID, agent: Principal) -> TaskLeaseLost | TaskNotFound:
    """Another agent's task does not exist for a worker."""
    task = Task.objects.filter(pk=task_id, owner=str(agent)).first()
    if task is None:
        return TaskNotFound()
    return TaskLeaseLost(
        f"The task is {task.get_state_display()}, and the lease is not yours.",
        task=task,
        state=task.state,
    )


# --- by its client, a person, or time --------------------------------------------------------


def cancel(
    task_id: UUID,
    *,
    by: Principal,
    via: str,
    reason: str = "",
    code: Reason = Reason.CANCELED_BY_CLIENT,
) -> Task:
    """Stop it, what it proposed, and what was delegated from it.

    Raises ``TaskNotPossible, TaskNotFound``, and ``NotPossible`` for a transaction that is decided.
    """
    refuse_unstorable(reason)
    why = reason or f"Canceled by {by.display_name}."
    with atomic():
        task = Task.objects.select_for_update().filter(pk=task_id).first()
        if task is not None and not task.is_final:
            withdrawals.take_back(task, by=by, via=via, reason=why)
        task = end(task_id, states.CANCEL, by=by, via=via, code=code, reason=why)
    for child in Task.objects.open().filter(parent=task):
        _quietly_cancel(child, by, via)
    return task


def _quietly_cancel(child: Task, by: Principal, via: str) -> None:
    # It may have ended by itself meanwhile, or be signed off.
    with suppress(TaskNotPossible, NotPossible):
        cancel(
            child.pk,
            by=by,
            via=via,
            reason="The task above it was canceled.",
            code=Reason.PARENT_ENDED,
        )


def say(task_id: UUID, message: Message, *, by: Principal, via: str) -> Task:
    """Add a message of the client to an open task; its worker reads it."""
    refuse_unstorable([message.parts, message.metadata, message.message_id])
    with atomic():
        task = advance(
            task_id, states.SPEAK, by=by, via=via, details={"message_id": message.message_id}
        )
        message.task = task
        message.save(force_insert=True)
    return task


def end(
    task_id: UUID,
    move: states.Move,
    *,
    by: Principal,
    via: str,
    code: Reason,
    reason: str,
    only_if: Q = ALWAYS,
) -> Task:
    """A bad end with its reason, on the row and in the event."""
    return advance(
        task_id, move, by=by, via=via, said=reason, only_if=only_if, details={"code": code.value},
        reason_code=code, reason=reason,
    )  # fmt: skip


def put_back_or_fail(task_id: UUID) -> None:
    """A worker fell silent: another one may try where that is safe, else it is known as lost."""
    task = Task.objects.abandoned().select_related("skill").filter(pk=task_id).first()
    if task is None:
        return
    why = "The worker fell silent while it was working."
    lapsed = Q(lease_expires_at__lte=Now(), fencing_token=task.fencing_token)
    skill = task.skill
    try:
        if skill and skill.is_retry_safe and task.attempts < skill.max_attempts:
            advance(
                task_id, states.PUT_BACK, by=SWEEPER, via="system", said=why, only_if=lapsed,
                details={"attempt": task.attempts}, lease_expires_at=None,
            )  # fmt: skip
        else:
            end(task_id, states.FAIL, by=SWEEPER, via="system", code=Reason.WORKER_LOST,
                reason=why, only_if=lapsed)  # fmt: skip
    except TaskNotPossible:
        pass  # it came back, or somebody else was faster


def time_out(task_id: UUID) -> None:
    """The time of the skill or of the envelope is over."""
    overtime = ~Q(owner=str(ASSENT)) & Q(
        expires_at__lte=Now(), state__in=[TaskState.SUBMITTED, TaskState.WORKING]
    )
    with suppress(TaskNotPossible):
        end(task_id, states.FAIL, by=SWEEPER, via="system", code=Reason.TIMED_OUT,
            reason="The time for the task was over.", only_if=overtime)  # fmt: skip


def visible(caller: Caller, task_id: UUID | str) -> Task:
    """Raises ``TaskNotFound``, for another's task as for one that never was."""
    pk = task_id if isinstance(task_id, UUID) else id_or_none(task_id)
    task = Task.objects.visible_to(caller).filter(pk=pk).first() if pk else None
    if task is None:
        raise TaskNotFound()
    return task
