"""The verbs of a question: ask, answer, lapse."""

from __future__ import annotations

from dataclasses import dataclass
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
from a2a.states import TaskReasons
from a2a.tasks import records
from a2a.tasks.leases import advance_as_holder, held_by, lease_from_now
from a2a.tasks.stocks import open_questions
from a2a.tasks.transitions import advance
from a2a.validation import Part, refuse_malformed, refuse_unstorable
from ledger import seals
from ledger.contracts import json_schemas
from ledger.errors import InvalidRequest, NotAllowed, Sentence
from ledger.models import new_id
from ledger.principals import SWEEPER, Principal, Surface

SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=30)
TEXT_MAX = 10_000  # characters


# --- asking -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _NewQuestion:
    text: str
    form: dict[str, Any]
    evidence: list[Part]
    may_answer: list[str]
    ttl: timedelta | None


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
    via: Surface,
) -> Question:
    """Ask people and the client; the task waits in INPUT_REQUIRED, and the lease is suspended.

    ``form`` is the JSON Schema of the answer (default: any text), ``may_answer`` as in
    ``a2a.models.answerers`` (default: approvers and the client), ``ttl`` by default the skill's.

    A question that was asked and answered before on this task (by a worker that then stopped
    responding) is returned with its answer, unless ``is_new``.

    Raises ``InvalidRequest`` and its subclasses, ``LimitReached, TaskLeaseLost, TaskNotFound``.
    """
    new = _NewQuestion(_normalized(text), form or {}, evidence or [], may_answer or [], ttl)
    _check(new)
    answered = _answered_before(task_id, agent, fencing_token, new)
    if answered is not None and not is_new:
        return answered
    tenant = Task.objects.filter(pk=task_id).values_list("tenant", flat=True).first() or ""
    question_id = new_id()
    sealed = records.digest_of(records.question_text(new.text, new.form, new.evidence))
    with open_questions.places() as places, atomic():
        places.take(asked_by or agent, tenant)
        task = advance_as_holder(
            task_id,
            states.ASK,
            agent=agent,
            fencing_token=fencing_token,
            via=via,
            reason=new.text,
            details={"question": str(question_id), "asked_digest": sealed},
            lease_expires_at=None,
            note=new.text,
        )
        question = _insert(question_id, task, new, asked_by or agent)
    question.refresh_from_db()
    return question


def _normalized(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _check(new: _NewQuestion) -> None:
    if not new.text or len(new.text) > TEXT_MAX:
        raise InvalidRequest(f"A question has 1 to {TEXT_MAX} characters.")
    seals.refuse_unsafe_text([new.text, new.form], "the question")
    refuse_unstorable([new.evidence, new.may_answer])
    refuse_malformed(new.evidence)
    json_schemas.check(new.form)


def _answered_before(
    task_id: UUID, agent: Principal, fencing_token: int, new: _NewQuestion
) -> Question | None:
    held = Task.objects.filter(held_by(agent, fencing_token), pk=task_id)
    return Question.objects.filter(
        task__in=held, state=QuestionState.ANSWERED, text=new.text, form=new.form
    ).first()


def _insert(question_id: UUID, task: Task, new: _NewQuestion, asked_by: Principal) -> Question:
    """The question, and the agent's message that shows it in the task's history."""
    default_ttl = task.skill.question_ttl if task.skill is not None else QUESTION_TTL
    ttl = min(max(new.ttl or default_ttl, SHORTEST), LONGEST)
    question = Question.objects.create(
        id=question_id,
        task=task,
        tenant=task.tenant,
        text=new.text,
        form=new.form,
        evidence=new.evidence,
        may_answer=_answerers(task, new),
        asked_by=str(asked_by),
        asked_by_name=asked_by.display_name,
        expires_at=Now() + ttl,
        ttl=ttl,
    )
    Message.objects.create(
        task=task,
        message_id=f"question-{question.pk}",
        role=Role.AGENT,
        principal=question.asked_by,
        principal_name=question.asked_by_name,
        parts=[{"text": new.text}, *new.evidence],
        metadata={"question_id": str(question.pk)},
    )
    return question


def _answerers(task: Task, new: _NewQuestion) -> list[str]:
    """Those whom the worker names, else the client's; else approvers and the client.

    The client's are principals already. Raises ``InvalidRequest``.
    """
    if new.may_answer:
        return answerers.resolved(task.tenant, new.may_answer)
    return task.may_answer or [APPROVER, CLIENT]


# --- answering --------------------------------------------------------------------------------


def answer(
    question_id: UUID, value: Any, *, by: Principal, via: Surface, message: Message | None = None
) -> Question:
    """Answer the question; the task goes back to WORKING. Only the first answer counts.

    ``message`` is what the client's answer came in; without it, the history gets a message made
    from ``value``. A person's right to answer is checked before, in ``approvals.desk.decisions``.

    Repeating one's own answer changes nothing. Raises ``AnswerInvalid, AlreadyAnswered,
    QuestionExpired, TaskNotPossible, TaskNotFound, NotAllowed, InvalidRequest``.
    """
    refuse_unstorable(value)
    if message is not None:
        refuse_unstorable([message.parts, message.metadata, message.message_id])
    question = Question.objects.filter(pk=question_id).first()
    if question is None:
        raise TaskNotFound(Sentence("There is no such question."))
    if question.asked_by == str(by):
        raise NotAllowed(Sentence("Nobody answers a question that they asked themselves."))
    if question.state != QuestionState.OPEN:
        return _repeated(question, value, by)
    if errors := json_schemas.misfits(question.form, value):
        raise AnswerInvalid("; ".join(_error_text(error) for error in errors), errors=errors)
    try:
        return _record_answer(question, value, by, via, message)
    except TaskNotPossible:
        return _repeated(Question.objects.get(pk=question_id), value, by)


def _error_text(error: dict[str, str]) -> str:
    return f"{error['field']}: {error['message']}" if error["field"] else error["message"]


def _record_answer(
    question: Question, value: Any, by: Principal, via: Surface, message: Message | None
) -> Question:
    """Lock the task's row first, as every verb does; then update the question."""
    with atomic():
        task = advance(
            question.task_id,
            states.ANSWER,
            by=by,
            via=via,
            reason=as_text(value)[:2000],
            details={
                "question": str(question.pk),
                "answer_digest": records.digest_of(records.text_of(value)),
            },
            lease_expires_at=lease_from_now(),
            # The task's own time stood still while it waited.
            expires_at=F("expires_at") + (Now() - question.created_at),
            note="",
        )
        still_open = Question.objects.waiting().filter(pk=question.pk, expires_at__gt=Now())
        if not still_open.update(
            state=QuestionState.ANSWERED,
            answer=value,
            answered_by=str(by),
            answered_by_name=by.display_name,
            answered_via=via,
            ended_at=Now(),
        ):
            raise TaskNotPossible(snapshot=task)
        message = message or _message_of(question, value, by)
        message.task = task
        message.save(force_insert=True)
    question.refresh_from_db()
    return question


def _message_of(question: Question, value: Any, by: Principal) -> Message:
    """A message for the history, for an answer that came without one, as people's do."""
    return Message(
        message_id=f"answer-{question.pk}",
        role=Role.USER,
        principal=str(by),
        principal_name=by.display_name,
        parts=[{"text": value} if isinstance(value, str) else {"data": value}],
        metadata={"question_id": str(question.pk)},
    )


def _repeated(question: Question, value: Any, by: Principal) -> Question:
    """The closed question, if ``by`` gave this answer already; else raises why it is closed."""
    if question.state == QuestionState.ANSWERED:
        if question.answered_by == str(by) and question.answer == value:
            return question
        raise AlreadyAnswered(
            Sentence(
                "{name} answered it {surface}: {answer}",
                name=question.answered_by_name,
                surface=Sentence(question.answered_via),
                answer=as_text(question.answer)[:200],
            ),
            snapshot=question.task,
            answered_by=question.answered_by_name,
            via=question.answered_via,
        )
    if question.state == QuestionState.WITHDRAWN:
        raise TaskNotPossible(
            Sentence("The task has ended; the question needs no answer any more."),
            snapshot=question.task,
        )
    raise QuestionExpired(
        Sentence("Nobody answered within {time}.", time=in_short(question.ttl)),
        snapshot=question.task,
    )


def as_text(value: Any) -> str:
    """An answer as a person reads it: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else seals.canonical(value).decode()


# --- no answer in time ------------------------------------------------------------------------


def lapse(question_id: UUID) -> None:
    """Cancel the task of a question that nobody answered before its deadline."""
    question = Question.objects.due().filter(pk=question_id).first()
    if question is None:
        return
    reason = TaskReasons.UNANSWERED(time=in_short(question.ttl))
    try:
        with atomic():
            task = advance(
                question.task_id,
                states.LAPSE,
                by=SWEEPER,
                via=Surface.SYSTEM,
                code=Reason.INPUT_TIMEOUT,
                reason=reason,
                only_if=Q(questions__in=Question.objects.due().filter(pk=question_id)),
                details={"question": str(question_id)},
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
