"""Erasing the content of tasks that are past their retention, and holding it back.

As with transactions (``ledger.retention``): input, result, messages, artifacts and
questions are emptied, and an event seals their digests. A task that stands for a transaction has
that transaction's retention, and keeps its content while the transaction is under a legal hold.
"""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from django.db.models import Exists, Q
from django.db.models.functions import Now

from a2a import digests, states
from a2a.errors import TaskNotPossible
from a2a.models import Artifact, Message, Mirror, PushConfig, Question, Task, TaskQuerySet
from a2a.states import FINAL, TaskState
from a2a.tasks.transitions import record_event
from ledger import retention
from ledger.principals import SWEEPER, Principal, Surface
from ledger.retention import BATCH, BATCHES, VIA
from ledger.states import Move
from ledger.transactions import sign_offs

logger = logging.getLogger(__name__)

# What is left of the columns with content.
EMPTY: dict[str, Any] = {
    "input": None,
    "result": None,
    "metadata": {},
    "stage": "",
    "note": "",
    "reason": "",
    "errors": [],
}
EMPTY_MESSAGE: dict[str, Any] = {"parts": [], "metadata": {}}
EMPTY_ARTIFACT: dict[str, Any] = {"name": "", "description": "", "parts": [], "metadata": {}}
EMPTY_QUESTION: dict[str, Any] = {"text": "", "form": {}, "evidence": [], "answer": None}
RELATED: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    ("messages", Message, EMPTY_MESSAGE),
    ("artifacts", Artifact, EMPTY_ARTIFACT),
    ("questions", Question, EMPTY_QUESTION),
)


def due() -> TaskQuerySet:
    """Ended, past retention by the database's clock, not held, and with nothing left to do."""
    return Task.objects.filter(
        ~Exists(retention.open_deliveries()),
        Q(mirror=None) | Q(mirror__is_over=True),
        Q(transaction=None) | Q(transaction__legal_hold_at=None),
        state__in=sorted(FINAL),
        ended_at__isnull=False,
        retain_until__lte=Now(),
        content_erased_at=None,
        legal_hold_at=None,
    )


# --- the sweeper's step -----------------------------------------------------------------------


def erase_due() -> None:
    """Erase what is due, in a few small batches; the next sweep goes on with the rest."""
    for _ in range(BATCHES):
        if erase_batch() < BATCH:
            return


def erase_batch(most: int = BATCH) -> int:
    """Erase the content of up to ``most`` tasks, in one database transaction.

    Rows that somebody else has locked are left for the next time; one that does not verify is kept
    as it is, under a legal hold. Returns how many rows were tried.
    """
    return retention.erase_each(due(), _erase_one, most)


def _erase_one(task_id: UUID) -> None:
    if _erase(Task.objects.get(pk=task_id)):
        _erase_related([task_id])
        retention.erase_reasons([task_id])


def _erase(task: Task) -> bool:
    """Empty one locked row and seal that. ``False`` when it was held or did not verify."""
    fault = _fault_of(task)
    if fault:
        logger.error("the content of task %s is kept: %s", task.pk, fault)
        record_event(
            task.pk,
            states.LEGAL_HOLD_PLACED,
            by=SWEEPER,
            via=VIA,
            columns={"legal_hold_at": Now()},
            reason=f"It does not verify, so its content was not erased: {fault}"[:2000],
        )
        return False
    try:
        record_event(
            task.pk,
            states.CONTENT_ERASED,
            by=SWEEPER,
            via=VIA,
            reason="Its retention was over.",
            only_if=Q(pk__in=due()),
            details={"erased": _digests_of(task)},
            sealed=("content_erased_at",),
            # With a new ``updated_at``, no process serves the content from its cache any more.
            columns={"content_erased_at": Now(), "updated_at": Now(), **EMPTY},
        )
    except TaskNotPossible:
        return False  # a hold was faster
    return True


def _digests_of(task: Task) -> dict[str, str]:
    """The digest of the canonical JSON of everything that is erased, by its name."""
    contents: dict[str, Any] = {name: getattr(task, name) for name in EMPTY}
    for name, model, empty in RELATED:
        rows = model.objects.filter(task=task).order_by("pk").values(*empty)
        contents[name] = list(rows)
    return {name: digests.digest_of(digests.text_of(value)) for name, value in contents.items()}


def _erase_related(task_ids: list[UUID]) -> None:
    for _, model, empty in RELATED:
        model.objects.filter(task__in=task_ids).update(**empty)
    Mirror.objects.filter(task__in=task_ids).update(sent=[])
    PushConfig.objects.filter(task__in=task_ids).delete()  # nothing is pushed any more


def _fault_of(task: Task) -> str:
    """Why the row is not what its events sealed; empty if it is."""
    links = sign_offs.links_of(task.pk)
    if not links:
        return "It has no events."
    says = [link.says for link in links]
    results = [details["result_digest"] for details in says if "result_digest" in details]
    sealed = {
        "input": says[0].get("input_digest"),
        "result": (results or [digests.digest_of("null")])[-1],
    }
    for name, digest in sealed.items():
        if digest != digests.digest_of(digests.text_of(getattr(task, name))):
            return f"Its {name} is not the sealed one."
    return next(sign_offs.chain_faults(links, states.BY_KIND, "task"), "")


# --- legal hold -------------------------------------------------------------------------------


def hold(task_id: UUID, *, by: Principal, via: Surface, reason: str) -> Task:
    """Keep the content past its retention, until the hold is released.

    Of a hold and an erasure at the same moment exactly one happens. Raises ``InvalidRequest``
    without a reason, ``TaskNotPossible`` when it is held or erased already, ``TaskNotFound``.
    """
    free = Q(legal_hold_at=None, content_erased_at=None)
    return _change_hold(task_id, states.LEGAL_HOLD_PLACED, free, by, via, reason, Now())


def release(task_id: UUID, *, by: Principal, via: Surface, reason: str) -> Task:
    """End a legal hold; the content is erased once its retention is over. Raises as ``hold``."""
    held = Q(legal_hold_at__isnull=False)
    return _change_hold(task_id, states.LEGAL_HOLD_RELEASED, held, by, via, reason, None)


def _change_hold(
    task_id: UUID,
    move: Move[TaskState],
    only_if: Q,
    by: Principal,
    via: Surface,
    reason: str,
    legal_hold_at: Now | None,
) -> Task:
    retention.check_hold_reason(reason)
    try:
        return record_event(
            task_id,
            move,
            by=by,
            via=via,
            reason=reason,
            only_if=only_if,
            columns={"legal_hold_at": legal_hold_at},
        )
    except TaskNotPossible as refusal:
        task = refusal.snapshot
        raise TaskNotPossible(retention.why_no_hold(task, is_own=False), snapshot=task) from None
