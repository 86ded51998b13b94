"""The verbs of a question: ask, answer, lapse."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Now
from django.db.transaction import atomic

from a2a import states
from a2a.errors import (
    AlreadyAnswered,
    AnswerInvalid,
    QuestionExpired,
    Reason,
    TaskNotFound,
    TaskNotPossible,
)
from a2a.models import QUESTION_TTL, Message, Question, QuestionState, Role, Task, answerers
from a2a.models.answerers import APPROVER, CLIENT
from a2a.tasks import LEASE_LIVES, Part, held_by, lease_from_now, lost_or_missing, sealed_texts
from a2a.tasks.transitions import advance
from a2a.validation import json_schemas
from a2a.validation.parts import refuse_unspeakable, refuse_unstorable
from ledger import intents
from ledger.errors import InvalidRequest, NotAllowed
from ledger.models import new_id
from ledger.principals import SWEEPER, Principal

SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=30)
TEXT_MAX = 10_000  # characters


def ask(
    task_id: UUID,
    *,
    agent: Principal,
    fencing_token: int,
    text: str,
    form: dict[str, Any] | None = None,
    evidence: list[Part] | None = None,
    may_answer: list[str] | None = None,
    ttl: timedelta | None = None,
    asked_by: Principal | None = None,
    is_new: bool = False,
    via: str,
) -> Question:
    """Put a question before people and the client; the task waits in INPUT_REQUIRED.

    The worker's lease rests meanwhile. A question that was answered before on this task, by an
    earlier worker, is answered at once: it is not asked twice, unless ``is_new``.

    Raises ``InvalidRequest`` and its kin, ``TaskLeaseLost, TaskNotFound``.
    """
    text = text.replace("\r\n", "\n").strip()
    if not text or len(text) > TEXT_MAX:
        raise InvalidRequest(f"A question has 1 to {TEXT_MAX} characters.")
    intents.refuse_unsafe_text([text, form], "the question")
    refuse_unstorable([evidence, may_answer])
    refuse_unspeakable(evidence)
    json_schemas.check(form or {})
    answered = _answered_before(task_id, agent, fencing_token, text, form or {})
    if answered is not None and not is_new:
        return answered
    question_id = new_id()
    asked = sealed_texts.asked(text, form or {}, evidence or [])
    with atomic():
        try:
            task = advance(
                task_id,
                states.ASK,
                by=agent,
                via=via,
                said=text,
                only_if=held_by(agent, fencing_token) & LEASE_LIVES,
                details={
                    "question": str(question_id),
                    "asked_digest": sealed_texts.digest_of(asked),
                },
                lease_expires_at=None,
                note=text,
            )
        except TaskNotPossible:
            raise lost_or_missing(task_id, agent) from None
        wait = min(max(ttl or _ttl_of(task), SHORTEST), LONGEST)
        question = Question.objects.create(
            id=question_id,
            task=task,
            tenant=task.tenant,
            text=text,
            form=form or {},
            evidence=evidence or [],
            may_answer=answerers.resolved(task.tenant, may_answer or [APPROVER, CLIENT]),
            asked_by=str(asked_by or agent),
            asked_by_name=(asked_by or agent).display_name,
            expires_at=Now() + wait,
            ttl=wait,
        )
        Message.objects.create(
            task=task,
            message_id=f"question-{question.pk}",
            role=Role.AGENT,
            principal=question.asked_by,
            principal_name=question.asked_by_name,
            parts=[{"text": text}, *(evidence or [])],
            metadata={"question_id": str(question.pk)},
        )
    question.refresh_from_db()
    return question


def _answered_before(
    task_id: UUID, agent: Principal, fencing_token: int, text: str, form: dict[str, Any]
) -> Question | None:
    mine = Task.objects.filter(held_by(agent, fencing_token), pk=task_id)
    return Question.objects.filter(
        task__in=mine, state=QuestionState.ANSWERED, text=text, form=form
    ).first()


def _ttl_of(task: Task) -> timedelta:
    return task.skill.question_ttl if task.skill is not None else QUESTION_TTL


def answer(
    question_id: UUID, value: Any, *, by: Principal, via: str, message: Message | None = None
) -> Question:
    """Answer it, once; the task goes back to WORKING. The first answer wins.

    ``message`` is the client's own, if it answered with one: the history keeps it as it was sent.

    Whoever comes later is told who was faster; the same answer again by the same principal is no
    conflict. Who may answer is asked of the caller's room (``approvals.desk.decisions``) before.

    Raises ``AnswerInvalid, AlreadyAnswered, QuestionExpired, TaskNotFound, NotAllowed``.
    """
    refuse_unstorable(value)
    if message is not None:
        refuse_unstorable([message.parts, message.metadata, message.message_id])
    question = Question.objects.filter(pk=question_id).first()
    if question is None:
        raise TaskNotFound("There is no such question.")
    if question.asked_by == str(by):
        raise NotAllowed("Nobody answers a question that they asked themselves.")
    if question.state != QuestionState.OPEN:
        return _as_answered(question, value, by)
    if errors := json_schemas.misfits(question.form, value):
        raise AnswerInvalid("; ".join(_in_words(error) for error in errors), errors=errors)
    try:
        return _answer(question, value, by, via, message)
    except TaskNotPossible:
        return _as_answered(Question.objects.get(pk=question_id), value, by)


def _in_words(error: dict[str, str]) -> str:
    return f"{error['field']}: {error['message']}" if error["field"] else error["message"]


def _answer(
    question: Question, value: Any, by: Principal, via: str, message: Message | None
) -> Question:
    """The task's row first, as everybody takes it; then the question, by the database's clock."""
    with atomic():
        task = advance(
            question.task_id,
            states.ANSWER,
            by=by,
            via=via,
            said=as_text(value)[:2000],
            details={
                "question": str(question.pk),
                "answer_digest": sealed_texts.digest_of(sealed_texts.text_of(value)),
            },
            lease_expires_at=lease_from_now(),
            expires_at=F("expires_at") + (Now() - question.created_at),
            note="",
        )
        mine = Question.objects.waiting().filter(pk=question.pk, expires_at__gt=Now())
        if not mine.update(
            state=QuestionState.ANSWERED,
            answer=value,
            answered_by=str(by),
            answered_by_name=by.display_name,
            answered_via=via,
            ended_at=Now(),
        ):
            raise TaskNotPossible(task=task)
        message = message or _message_of(question, value, by)
        message.task = task
        message.save(force_insert=True)
    question.refresh_from_db()
    return question


def _message_of(question: Question, value: Any, by: Principal) -> Message:
    """What the history shows for an answer that came without a message, as people's do."""
    return Message(
        message_id=f"answer-{question.pk}",
        role=Role.USER,
        principal=str(by),
        principal_name=by.display_name,
        parts=[{"text": value} if isinstance(value, str) else {"data": value}],
        metadata={"question_id": str(question.pk)},
    )


def _as_answered(question: Question, value: Any, by: Principal) -> Question:
    """Not open any more: the same answer of the same principal is fine, all else is explained."""
    if question.state == QuestionState.ANSWERED:
        if question.answered_by == str(by) and question.answer == value:
            return question
        raise AlreadyAnswered(
            f"{question.answered_by_name} answered it {question.answered_via}: "
            f"{as_text(question.answer)[:200]}",
            task=question.task,
            answered_by=question.answered_by_name,
            via=question.answered_via,
        )
    if question.state == QuestionState.WITHDRAWN:
        raise TaskNotPossible(
            "The task has ended; the question needs no answer any more.", task=question.task
        )
    raise QuestionExpired(f"Nobody answered within {in_short(question.ttl)}.", task=question.task)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else intents.canonical(value).decode()


def lapse(question_id: UUID) -> None:
    """Its deadline has passed: the task is CANCELED, and everybody who watches sees why."""
    question = Question.objects.due().filter(pk=question_id).first()
    if question is None:
        return
    why = f"INPUT_REQUIRED not resolved within {in_short(question.ttl)} timeout"
    try:
        with atomic():
            task = advance(
                question.task_id,
                states.LAPSE,
                by=SWEEPER,
                via="system",
                said=why,
                only_if=Q(questions__in=Question.objects.due().filter(pk=question_id)),
                details={"code": Reason.INPUT_TIMEOUT.value, "question": str(question_id)},
                reason_code=Reason.INPUT_TIMEOUT,
                reason=why,
            )
            Question.objects.filter(pk=question_id, task=task).update(state=QuestionState.LAPSED)
    except TaskNotPossible:
        pass  # an answer was faster


def in_short(span: timedelta) -> str:
    """``10m``, ``90s``, ``2h``."""
    seconds = span.total_seconds()
    for size, unit in ((3600, "h"), (60, "m")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"
