"""The errors of tasks and questions, a tree below the ledger's.

LedgerError
├── TaskNotFound 404
├── SkillNotFound 404
├── TaskNotPossible 409      the move is not possible in the task's state
│   ├── TaskLeaseLost        another worker holds the task, or the lease ran out
│   └── AlreadyAnswered      somebody else answered first
├── QuestionExpired 409
├── CallIdTaken 409          a HumanLayer client used the id for another request
└── InvalidRequest 422
    ├── AnswerInvalid        the answer does not fit the form
    ├── HandOverRefused      the other skill's terms are not met
    └── ResultInvalid        the result does not fit the skill's output schema
"""

from __future__ import annotations

from typing import Any

from django.db.models import TextChoices

from ledger.errors import InvalidRequest, LedgerError, NotFound, Sentence


class Reason(TextChoices):
    """Why a task did not complete, for machines. The first ten are the envelope's."""

    MISSING_CORRELATION_FIELDS = "missing_correlation_fields"
    WRONG_AUDIENCE = "wrong_audience"
    MISSING_SCOPE = "missing_scope"
    TENANT_BOUNDARY = "tenant_boundary"
    DUPLICATE_MESSAGE = "duplicate_message"
    DELEGATION_LOOP = "delegation_loop"
    DELEGATION_BUDGET = "delegation_budget"
    UNSUPPORTED_CAPABILITY = "unsupported_capability"
    SCHEMA_MISMATCH = "schema_mismatch"
    EXPIRED = "expired"
    OVER_CAPACITY = "over_capacity"
    NOT_REVISABLE = "not_revisable"
    CARD_DRIFTED = "card_drifted"
    TIMED_OUT = "timed_out"
    WORKER_LOST = "worker_lost"
    WORKER_FAILED = "worker_failed"
    DECLINED = "declined"
    INPUT_TIMEOUT = "input_timeout"
    CANCELED_BY_CLIENT = "canceled_by_client"
    CANCELED_BY_PERSON = "canceled_by_person"
    PARENT_ENDED = "parent_ended"
    NOT_SIGNED_OFF = "not_signed_off"
    REFUSED = "refused"
    REMOTE_LOST = "remote_lost"
    REMOTE_FAILED = "remote_failed"


class CallIdTaken(LedgerError):
    code = "call_id_taken"
    status = 409
    title = Sentence("This call_id was used for another request")
    hint = Sentence("Nothing was done. Use a new call_id for a new request.")


class TaskNotFound(NotFound):
    code = "task_not_found"
    title = Sentence("There is no such task")
    hint = Sentence(
        "Check the id, and that the token is of the agent that submitted it or works on it."
    )


class SkillNotFound(NotFound):
    code = "skill_not_found"
    title = Sentence("There is no such skill")
    hint = Sentence("The extended agent card lists the skills of your tenant.")


class TaskNotPossible(LedgerError):
    """The move was not possible. ``snapshot`` is the task as it is now."""

    code = "task_not_possible"
    status = 409
    title = Sentence("Not possible in the task's present state")
    hint = Sentence("Read the task; nothing was changed by this request.")

    def __init__(
        self, detail: str = "", *, snapshot: Any = None, hint: str = "", **extra: Any
    ) -> None:
        super().__init__(detail, hint=hint, **extra)
        self.snapshot = snapshot


class TaskLeaseLost(TaskNotPossible):
    code = "task_lease_lost"
    title = Sentence("The lease is not yours any more")
    hint = Sentence(
        "Stop working on this task; nothing of this request was kept. Claim another one."
    )


class AlreadyAnswered(TaskNotPossible):
    code = "already_answered"
    title = Sentence("Already answered")


class QuestionExpired(TaskNotPossible):
    code = "question_expired"
    title = Sentence("The deadline of the question has passed")
    hint = Sentence(
        "Nothing was recorded; the task ends as canceled. Submit it again if it is wanted."
    )


class AnswerInvalid(InvalidRequest):
    code = "answer_invalid"
    title = Sentence("The answer does not fit the question")
    hint = Sentence("Correct what errors names. Nothing was recorded; the question still waits.")


class ResultInvalid(InvalidRequest):
    code = "result_invalid"
    title = Sentence("The result does not fit the skill's output schema")
    hint = Sentence("Correct what errors names and complete again; the lease is still yours.")


class HandOverRefused(InvalidRequest):
    """Carries the ``reason`` that a submission to the skill would have been rejected with."""

    code = "hand_over_refused"
    title = Sentence("The task cannot be handed over to this skill")
    hint = Sentence("The task is still yours: go on with it, hand it to another skill, or fail it.")
