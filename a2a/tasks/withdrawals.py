"""A task that ends takes back what it proposed, in the same database transaction or not at all."""

from __future__ import annotations

from uuid import UUID

from a2a.models import ASSENT, Task
from a2a.models.builtin_skills import PREPARE_TRANSACTION
from ledger.errors import NotAllowed
from ledger.principals import Principal
from ledger.transactions import coordinator
from ledger.transactions.decisions import REASON_MAX


def request_key(task: Task) -> str:
    """The idempotency key under which a task proposes: however often it tries, once."""
    return f"task:{task.pk}"


def submitter_of(task: Task) -> Principal:
    kind, _, name = task.submitted_by.partition(":")
    return Principal(kind, name, task.submitted_by_name)


def proposes(task: Task) -> bool:
    """Whether the task stands for a transaction, or will."""
    return task.owner == str(ASSENT) and task.skill_slug == PREPARE_TRANSACTION.id


def take_back(task: Task, *, by: Principal, via: str, reason: str) -> None:
    """Cancel what the task proposed; what has not entered the ledger yet never will.

    Raises ``NotPossible`` when it is decided already: the task cannot end otherwise than its
    transaction then.
    """
    if not proposes(task):
        return
    try:
        coordinator.cancel_request(
            request_key(task),
            by=by,
            via=via,
            reason=reason[:REASON_MAX],
            proposer=submitter_of(task),
        )
    except NotAllowed:
        return  # it stands for an operation that another agent proposed, and may go on proposing


def entered_as(task: Task) -> UUID | None:
    """The transaction that entered with the task's key, else the key is taken for good.

    Only in the database transaction that ends the task.
    """
    return coordinator.close_request(request_key(task), proposer=submitter_of(task))
