"""Erasing the content of tasks that are past their retention, and holding it back.

As with transactions (``ledger.proof.retention``): input, result, messages, artifacts and
questions are emptied, and an event seals their digests. A task that stands for a transaction has
that transaction's retention, and keeps its content while the transaction is under a legal hold.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.db.models import Exists, Q
from django.db.models.functions import Now

from a2a import states
from a2a.errors import TaskNotPossible
from a2a.models import Artifact, Message, Mirror, PushConfig, Question, Task, TaskQuerySet
from a2a.states import FINAL, TaskState
from a2a.tasks import records
from a2a.tasks.transitions import record_event
from ledger.events import has_legal_hold
from ledger.models import Transaction
from ledger.principals import SWEEPER, Principal, Surface
from ledger.proof import retention
from ledger.proof.retention import BATCH, BATCHES, VIA
from ledger.seals import as_text
from ledger.states import Move, Reasons
from ledger.transactions import chain_faults, links_of

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
    if _may_erase(task_id) and _erase(Task.objects.get(pk=task_id)):
        _erase_related([task_id])
        retention.erase_reasons([task_id])


def _may_erase(task_id: UUID) -> bool:
    """Lock the task's transaction against a hold at this moment; then see if the task is due yet.

    ``False`` when somebody else has the transaction locked: the next sweep tries again.
    """
    transaction_id = Task.objects.values_list("transaction_id", flat=True).get(pk=task_id)
    tied = Transaction.objects.filter(pk=transaction_id)
    if tied.exists() and not tied.select_for_update(skip_locked=True, no_key=True):
        return False
    return due().filter(pk=task_id).exists()


def _erase(task: Task) -> bool:
    """Empty one locked row and seal that. ``False`` when it was held or did not verify."""
    fault = next(_faults_of(task), "")
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
            reason=Reasons.RETENTION_OVER(),
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
    return {name: records.digest_of(records.text_of(value)) for name, value in contents.items()}


def _erase_related(task_ids: list[UUID]) -> None:
    for _, model, empty in RELATED:
        model.objects.filter(task__in=task_ids).update(**empty)
    Mirror.objects.filter(task__in=task_ids).update(sent=[])
    PushConfig.objects.filter(task__in=task_ids).delete()  # nothing is pushed any more


def _faults_of(task: Task) -> Iterator[str]:
    """Deviations of the row from its events; only those decide whether it may be erased."""
    links = links_of(task.pk)
    if not links:
        yield "It has no events."
        return
    for name, digest in records.content_digests(links).items():
        if digest != records.digest_of(records.text_of(getattr(task, name))):
            yield f"Its {name} is not the sealed one."
    if _question_digests_of(task) != records.question_digests(links):
        yield "Its questions are not the sealed ones."
    if task.state != links[-1].to_state:
        yield "Its state is not the sealed one."
    if as_text(task.retain_until) != records.retain_until(links):
        yield "Its retention is not the sealed one."
    if (task.legal_hold_at is not None) != has_legal_hold(links):
        yield "Its legal hold is not the sealed one."
    if as_text(task.transaction_id) != records.transaction_of(links):
        yield "Its transaction is not the sealed one."
    elif task.transaction_id and has_legal_hold(links_of(task.transaction_id)):
        yield "Its transaction is under a sealed legal hold."
    yield from chain_faults(links, states.BY_KIND, "task")


def _question_digests_of(task: Task) -> dict[str, tuple[str, str]]:
    return {
        str(question.pk): (
            records.digest_of(
                records.question_text(question.text, question.form, question.evidence)
            ),
            records.digest_of(records.text_of(question.answer)),
        )
        for question in Question.objects.filter(task=task)
    }


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
