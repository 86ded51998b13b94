"""Human contacts: questions to people, with options to choose from if the client has any."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.conf import settings

from a2a import submissions, tasks
from a2a.doors.humanlayer import notes
from a2a.doors.humanlayer.bodies import (
    Contact,
    Json,
    escalation_in,
    options_of,
    read,
    refuse_responders,
    without_secrets,
)
from a2a.errors import CallIdTaken, Reason
from a2a.models import Message, QuestionState, Role, Task
from a2a.models.builtin_skills import ASK_A_PERSON
from a2a.states import TaskState
from a2a.submissions import Submission
from ledger import seals
from ledger.agents import Caller
from ledger.api.http import address_of
from ledger.errors import IdempotencyKeyReused, InvalidRequest, NotFound
from ledger.models import Scope
from ledger.principals import Surface

KEY_PREFIX = "humanlayer:"  # of the idempotency keys
KEPT = "humanlayer"  # the member of a task's metadata that has the request
TEXT_MAX = 10_000  # characters, as of all questions
# Nobody has answered yet: what most polls find, without a further query.
ANSWERABLE = frozenset({TaskState.SUBMITTED, TaskState.INPUT_REQUIRED})
UNANSWERED = "Nobody answered in time."
NO_TEXT = "The answer has no text."


def create(caller: Caller, body: Any) -> Json:
    """Ask people; the same contact again is answered with how it stands.

    Raises ``CallIdTaken`` for another contact of the same id, and the ``LedgerError`` of a task.
    """
    caller.require(Scope.SUBMIT)
    contact = read(Contact, body)
    refuse_responders(contact.spec.channel)
    spec = without_secrets(body["spec"])
    kept = {KEPT: {"run_id": contact.run_id, "spec": spec}}
    submission = Submission(
        skill=ASK_A_PERSON.id,
        input=_question(contact),
        metadata=kept,
        idempotency_key=_key(contact.call_id),
    )
    try:
        submitted = submissions.submit(submission, caller=caller, via=Surface("humanlayer"))
    except IdempotencyKeyReused:
        raise CallIdTaken() from None
    task = submitted.task
    if submitted.is_replay and task.content_erased_at is None and task.metadata != kept:
        raise CallIdTaken()
    if not submitted.is_replay and task.is_final:
        raise InvalidRequest(task.reason or "The question cannot be asked.")
    return rendered(task, contact.call_id)


def _question(contact: Contact) -> Json:
    spec = contact.spec
    text = f"{spec.subject}\n\n{spec.msg}" if spec.subject else spec.msg
    if len(text) > TEXT_MAX:
        raise InvalidRequest(f"A message has at most {TEXT_MAX} characters, with its subject.")
    asked: Json = {"text": text, "ttl_s": settings.HUMANLAYER_TTL_S}
    if told := list(notes.of_channel(spec.channel)):
        asked["evidence"] = [{"text": line} for line in told]
    if spec.response_options:
        asked["form"] = _form(spec.response_options)
    seals.refuse_unsafe_text(asked, "spec")
    return asked


def _form(options: Any) -> Json:
    """One of the options, or words of one's own, or both."""
    choices = [{"const": option.name, "title": _title(option)} for option in options]
    return {
        "type": "object",
        "properties": {
            "answer": {"oneOf": choices},
            "in_your_own_words": {"type": "string", "maxLength": 2000},
        },
        "minProperties": 1,
        "additionalProperties": False,
    }


def _title(option: Any) -> str:
    return f"{option.label}: {option.description}" if option.description else str(option.label)


def read_one(caller: Caller, call_id: str) -> Json:
    """The present state of a contact of the agent. Raises ``NotFound``."""
    return rendered(task_of(caller, call_id), call_id)


def escalate(caller: Caller, call_id: str, body: Any) -> Json:
    """Put the agent's words beside its question. Raises ``TaskNotPossible`` once it is answered."""
    task = task_of(caller, call_id)
    text = escalation_in(body)
    message = Message(
        message_id=f"escalation-{uuid4()}",
        role=Role.USER,
        principal=str(caller.principal),
        principal_name=caller.principal.display_name,
        parts=[{"text": text}],
        metadata={},
    )
    tasks.add_client_message(task, message, caller=caller, via=Surface("humanlayer"))
    return read_one(caller, call_id)


def task_of(caller: Caller, call_id: str) -> Task:
    """By the unique index of requests: ids are unique per agent."""
    caller.require(Scope.SUBMIT)
    rows = Task.objects.filter(
        submitted_by=str(caller.principal),
        idempotency_key=_key(call_id),
        skill_slug=ASK_A_PERSON.id,
    )
    task = rows.first()
    if task is None:
        raise NotFound()
    return task


def told(task: Task) -> Json:
    """A contact, as its client reads it."""
    return rendered(task, task.idempotency_key.removeprefix(KEY_PREFIX))


def _key(call_id: str) -> str:
    return f"{KEY_PREFIX}{call_id}"


# --- as the client reads it ----------------------------------------------------------------------


def rendered(task: Task, call_id: str) -> Json:
    kept = task.metadata.get(KEPT) or {"run_id": "", "spec": {"msg": ""}}
    answer, option = _answer(task)
    return {
        "run_id": kept["run_id"],
        "call_id": call_id,
        "spec": kept["spec"],
        "status": {
            "requested_at": task.created_at.isoformat(),
            "responded_at": task.updated_at.isoformat() if answer is not None else None,
            "response": answer,
            "response_option_name": option,
        },
        "assent": {"task_id": str(task.pk), "url": address_of(f"/tasks/{task.pk}/")},
    }


def _answer(task: Task) -> tuple[str | None, str | None]:
    """The text of the answer and the option; once nothing more comes, there is always a text."""
    if task.state in ANSWERABLE:
        return None, None
    question = task.questions.filter(state=QuestionState.ANSWERED).first()
    if question is None:
        return (_why_not(task) if task.is_final else None), None
    return _answered(task, question.answer)


def is_answered(task: Task) -> bool:
    return task.questions.filter(state=QuestionState.ANSWERED).exists()


def _answered(task: Task, answer: Any) -> tuple[str, str | None]:
    if not isinstance(answer, dict):
        return _text(answer), None
    name, words = answer.get("answer"), answer.get("in_your_own_words")
    kept = task.metadata.get(KEPT, {}).get("spec", {})
    options = {option.name: option for option in options_of(kept.get("response_options"))}
    chosen = options.get(str(name))
    if chosen is None:
        return _text(words), None
    return words or chosen.text, chosen.name


def _text(value: Any) -> str:
    return (value if isinstance(value, str) else "") or NO_TEXT


def _why_not(task: Task) -> str:
    if task.reason_code == Reason.INPUT_TIMEOUT:
        return UNANSWERED
    return f"Nobody answered: {task.reason or 'the question was withdrawn'}"
