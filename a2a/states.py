"""The states of a task and the moves between them. Data only."""

from __future__ import annotations

from django.db.models import TextChoices

from ledger.errors import Sentence, StandardReason
from ledger.states import Move


class TaskState(TextChoices):
    """The protocol's states, lowercase and hyphened as version 0.3 writes them."""

    SUBMITTED = "submitted", Sentence("waiting for a worker")
    WORKING = "working", Sentence("being worked on")
    INPUT_REQUIRED = "input-required", Sentence("waiting for an answer")
    AUTH_REQUIRED = "auth-required", Sentence("waiting for sign-off")
    COMPLETED = "completed", Sentence("completed")
    FAILED = "failed", Sentence("failed")
    CANCELED = "canceled", Sentence("canceled")
    REJECTED = "rejected", Sentence("rejected before it began")


class TaskReasons:
    """The reasons that Assent itself gives for moves. Rows keep the codes: they never change."""

    CANCELED = StandardReason("task_canceled", "Canceled by {name}.")
    PARENT_CANCELED = StandardReason("parent_canceled", "The task above it was canceled.")
    WORKER_LOST = StandardReason("worker_lost", "The worker stopped sending heartbeats.")
    OVERTIME = StandardReason("overtime", "The time for the task was over.")
    UNANSWERED = StandardReason(
        "unanswered",
        "Nobody answered within {time}.",
        reads="INPUT_REQUIRED not resolved within {time} timeout",
    )
    AWAITS_SIGN_OFF = StandardReason("awaits_sign_off", "Waiting for sign-off.")
    CLAIM_LAPSED = StandardReason(
        "claim_lapsed", "The process that had claimed it did not finish in time."
    )
    NOT_PREPARED = StandardReason(
        "not_prepared", "It could not be prepared in its time. Nothing will be carried out."
    )
    REMOTE_CANCELED = StandardReason("remote_canceled", "The remote agent canceled it.")
    REMOTE_LOST = StandardReason("remote_lost", "The remote agent does not know the task any more.")
    INPUT_MISFIT = StandardReason("input_misfit", "The input does not fit the skill's schema.")
    SENT_TOO_LATE = StandardReason("sent_too_late", "The time that its sender gave it is over.")
    SKILL_IS_FULL = StandardReason(
        "skill_is_full", "{skill} has {number} open tasks, as many as it takes."
    )
    CARD_CHANGED = StandardReason("card_changed", "The agent's card has changed: {drift}")
    NO_SCOPE = StandardReason("no_scope", "The skill asks for the scope {scope}.")
    # of requests on a git bus
    PUT_BACK = StandardReason("put_back", "Put back by an operator.")
    CLAIM_LOST = StandardReason("claim_lost", "Its claim did not arrive.")


class TaskEventKind(TextChoices):
    """Kind of event of a task, and its label. The audit log seals the values."""

    SUBMITTED = "task_submitted", Sentence("Submitted")
    REJECTED = "task_rejected", Sentence("Rejected before it began")
    CLAIMED = "task_claimed", Sentence("Taken up")
    PUT_BACK = "task_put_back", Sentence("Put back for another worker")
    HANDED_OVER = "task_handed_over", Sentence("Handed over")
    PROGRESSED = "task_progressed", Sentence("Progress")
    ARTIFACT_ADDED = "task_artifact_added", Sentence("Artifact added")
    MESSAGE_ADDED = "task_message_added", Sentence("Message added")
    DECLINED = "task_declined", Sentence("Declined by the worker before it began")
    ASKED = "task_asked", Sentence("Asked a question")
    ANSWERED = "task_answered", Sentence("Answered")
    QUESTION_LAPSED = "task_question_lapsed", Sentence("Canceled: nobody answered in time")
    AWAITS_SIGN_OFF = "task_awaits_sign_off", Sentence("Waits for sign-off")
    ASKED_ABOUT = "task_asked_about", Sentence("Asked about what it proposed")
    RESUMED = "task_resumed", Sentence("Signed off; goes on")
    COMPLETED = "task_completed", Sentence("Completed")
    FAILED = "task_failed", Sentence("Failed")
    CANCELED = "task_canceled", Sentence("Canceled")
    EXCHANGED = "task_exchanged", Sentence("Carried by a git repository")
    CONTENT_ERASED = "task_content_erased", Sentence("Content erased: its retention was over")
    LEGAL_HOLD_PLACED = "task_legal_hold_placed", Sentence("Legal hold: the content is kept")
    LEGAL_HOLD_RELEASED = "task_legal_hold_released", Sentence("Legal hold released")


def _move(kind: TaskEventKind, *sources: TaskState, to: TaskState | None) -> Move[TaskState]:
    return Move(kind, frozenset(sources), to)


_S, _K = TaskState, TaskEventKind
FINAL = frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELED, _S.REJECTED})
OPEN = frozenset(_S) - FINAL
# Waiting for a person: the task's own time limit does not run.
INTERRUPTED = frozenset({_S.INPUT_REQUIRED, _S.AUTH_REQUIRED})

# No sources: these two bring a task into being.
SUBMIT = _move(_K.SUBMITTED, to=_S.SUBMITTED)
REJECT = _move(_K.REJECTED, to=_S.REJECTED)

CLAIM = _move(_K.CLAIMED, _S.SUBMITTED, to=_S.WORKING)
PUT_BACK = _move(_K.PUT_BACK, _S.WORKING, to=_S.SUBMITTED)
HAND_OVER = _move(_K.HANDED_OVER, _S.SUBMITTED, _S.WORKING, to=_S.SUBMITTED)
REPORT = _move(_K.PROGRESSED, _S.WORKING, to=_S.WORKING)
ADD_ARTIFACT = _move(_K.ARTIFACT_ADDED, _S.WORKING, to=_S.WORKING)
ADD_MESSAGE = _move(_K.MESSAGE_ADDED, *OPEN, to=None)

# By its worker, before any work on it.
DECLINE = _move(_K.DECLINED, _S.WORKING, to=_S.REJECTED)

ASK = _move(_K.ASKED, _S.WORKING, to=_S.INPUT_REQUIRED)
ANSWER = _move(_K.ANSWERED, _S.INPUT_REQUIRED, to=_S.WORKING)
LAPSE = _move(_K.QUESTION_LAPSED, _S.INPUT_REQUIRED, to=_S.CANCELED)

# Somebody who decides on its transaction asks its client.
ASK_ABOUT = _move(_K.ASKED_ABOUT, _S.AUTH_REQUIRED, to=_S.INPUT_REQUIRED)
AWAIT_SIGN_OFF = _move(_K.AWAITS_SIGN_OFF, _S.WORKING, _S.INPUT_REQUIRED, to=_S.AUTH_REQUIRED)
RESUME = _move(_K.RESUMED, _S.AUTH_REQUIRED, _S.INPUT_REQUIRED, to=_S.WORKING)

COMPLETE = _move(_K.COMPLETED, _S.WORKING, to=_S.COMPLETED)
FAIL = _move(_K.FAILED, _S.SUBMITTED, _S.WORKING, _S.AUTH_REQUIRED, to=_S.FAILED)
CANCEL = _move(_K.CANCELED, *OPEN, to=_S.CANCELED)

# A commit of a git repository carried it, or what came of it; also after its end.
EXCHANGE = _move(_K.EXCHANGED, *_S, to=None)

# Retention: the content of what has ended is erased in time, unless an operator holds it back.
CONTENT_ERASED = _move(_K.CONTENT_ERASED, *FINAL, to=None)
LEGAL_HOLD_PLACED = _move(_K.LEGAL_HOLD_PLACED, *_S, to=None)
LEGAL_HOLD_RELEASED = _move(_K.LEGAL_HOLD_RELEASED, *_S, to=None)

MOVES = (
    SUBMIT, REJECT, CLAIM, PUT_BACK, HAND_OVER, REPORT, ADD_ARTIFACT, ADD_MESSAGE, DECLINE, ASK,
    ANSWER, LAPSE, ASK_ABOUT, AWAIT_SIGN_OFF, RESUME, COMPLETE, FAIL, CANCEL, EXCHANGE,
    CONTENT_ERASED, LEGAL_HOLD_PLACED, LEGAL_HOLD_RELEASED,
)  # fmt: skip
# How the verifier of the audit log reads the map.
BY_KIND: dict[str, Move[TaskState]] = {move.kind: move for move in MOVES}
