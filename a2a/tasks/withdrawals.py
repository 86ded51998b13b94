"""A task that ends withdraws the transaction that it proposed, in the same database transaction.

A task proposes under its own idempotency key, so that it has at most one transaction.
"""

from __future__ import annotations

from uuid import UUID

from a2a.models import ASSENT, Task
from a2a.models.builtin_skills import PREPARE_TRANSACTION
from ledger.errors import NotAllowed, cut
from ledger.principals import Principal, Surface
from ledger.transactions import coordinator
from ledger.transactions.coordinator import REASON_MAX


def request_key(task: Task) -> str:
    """The idempotency key under which the task proposes."""
    return f"task:{task.pk}"


def proposes(task: Task) -> bool:
    """True if the task stands for a transaction, now or later."""
    return task.owner == str(ASSENT) and task.skill_slug == PREPARE_TRANSACTION.id


def withdraw_proposal(task: Task, *, by: Principal, via: Surface, reason: str) -> None:
    """Cancel the transaction that the task proposed, and prevent a later one.

    Raises ``NotPossible`` when the transaction is decided already: then the task cannot end
    otherwise than its transaction.
    """
    if not proposes(task):
        return
    try:
        coordinator.cancel_request(
            request_key(task),
            by=by,
            via=via,
            reason=cut(reason, REASON_MAX),
            proposer=task.submitter,
        )
    except NotAllowed:
        return  # the operation was proposed by another agent: that proposal stays


def close_request(task: Task) -> UUID | None:
    """The transaction that was entered under the task's key; else use up the key for good.

    Call it in the database transaction that ends the task.
    """
    return coordinator.close_request(request_key(task), proposer=task.submitter)
