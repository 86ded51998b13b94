"""The map of a task's life: states, the moves between them, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import TextChoices

from ledger.states import Arrow


class TaskState(TextChoices):
    """The protocol's states, lowercase and hyphened as version 0.3 writes them."""

    SUBMITTED = "submitted", "waiting for a worker"
    WORKING = "working", "being worked on"
    INPUT_REQUIRED = "input-required", "waiting for an answer"
    AUTH_REQUIRED = "auth-required", "waiting for sign-off"
    COMPLETED = "completed", "completed"
    FAILED = "failed", "failed"
    CANCELED = "canceled", "canceled"
    REJECTED = "rejected", "rejected before it began"


@dataclass(frozen=True, slots=True)
class Move:
    """One arrow of the map. Its name is the ``kind`` of the event; no target: the state stays."""

    name: str
    sources: frozenset[TaskState]
    target: TaskState | None

    def __str__(self) -> str:
        return self.name


def _move(name: str, *sources: TaskState, to: TaskState | None) -> Move:
    return Move(name, frozenset(sources), to)


_S = TaskState
FINAL = frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELED, _S.REJECTED})
OPEN = frozenset(_S) - FINAL
# A person has the word; the task's own clock stands still.
INTERRUPTED = frozenset({_S.INPUT_REQUIRED, _S.AUTH_REQUIRED})

# No sources: these two bring a task into being.
SUBMIT = _move("task_submitted", to=_S.SUBMITTED)
REJECT = _move("task_rejected", to=_S.REJECTED)

CLAIM = _move("task_claimed", _S.SUBMITTED, to=_S.WORKING)
PUT_BACK = _move("task_put_back", _S.WORKING, to=_S.SUBMITTED)
HAND_OVER = _move("task_handed_over", _S.SUBMITTED, _S.WORKING, to=_S.SUBMITTED)
REPORT = _move("task_progressed", _S.WORKING, to=_S.WORKING)
ADD_ARTIFACT = _move("task_artifact_added", _S.WORKING, to=_S.WORKING)
SPEAK = _move("task_message_added", *OPEN, to=None)

# Looked at by a worker that has not begun with it.
DECLINE = _move("task_declined", _S.WORKING, to=_S.REJECTED)

ASK = _move("task_asked", _S.WORKING, to=_S.INPUT_REQUIRED)
ANSWER = _move("task_answered", _S.INPUT_REQUIRED, to=_S.WORKING)
LAPSE = _move("task_question_lapsed", _S.INPUT_REQUIRED, to=_S.CANCELED)

AWAIT_SIGN_OFF = _move("task_awaits_sign_off", _S.WORKING, to=_S.AUTH_REQUIRED)
RESUME = _move("task_resumed", _S.AUTH_REQUIRED, to=_S.WORKING)

COMPLETE = _move("task_completed", _S.WORKING, to=_S.COMPLETED)
FAIL = _move("task_failed", _S.SUBMITTED, _S.WORKING, _S.AUTH_REQUIRED, to=_S.FAILED)
CANCEL = _move("task_canceled", *OPEN, to=_S.CANCELED)

# Retention: the content of what has ended is erased in time, unless an operator holds it back.
CONTENT_ERASED = _move("task_content_erased", *FINAL, to=None)
LEGAL_HOLD_PLACED = _move("task_legal_hold_placed", *_S, to=None)
LEGAL_HOLD_RELEASED = _move("task_legal_hold_released", *_S, to=None)
# Events that leave the state as it is, and may follow the end.
NOTES = (CONTENT_ERASED, LEGAL_HOLD_PLACED, LEGAL_HOLD_RELEASED)

MOVES = (
    SUBMIT, REJECT, CLAIM, PUT_BACK, HAND_OVER, REPORT, ADD_ARTIFACT, SPEAK, DECLINE, ASK, ANSWER,
    LAPSE, AWAIT_SIGN_OFF, RESUME, COMPLETE, FAIL, CANCEL,
)  # fmt: skip
# The same for the verifier of the audit log.
ARROWS = {
    move.name: Arrow(frozenset(map(str, move.sources)), move.target and str(move.target))
    for move in (*MOVES, *NOTES)
}
