"""Submitting: a request becomes a task that waits for a worker, or a REJECTED one.

From the top: ``submit`` drafts, then ``_enter`` chooses how the draft is inserted, and ``_insert``
inserts it, or returns the task of an earlier request with the same key.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache

from django.db.transaction import atomic

from a2a import builtin, states
from a2a.errors import Reason
from a2a.models import Message, Skill, Task
from a2a.models.builtin_skills import ASK_A_PERSON
from a2a.states import TaskState
from a2a.submissions import entries, push_configs
from a2a.submissions.drafts import Draft, FindSkill, Submission, draft_of
from a2a.submissions.entries import Entry
from a2a.submissions.envelope import Denial, over_capacity
from a2a.tasks import open_questions, open_tasks
from ledger import limits
from ledger.agents import Caller
from ledger.errors import IdempotencyKeyReused, LedgerError, LimitReached
from ledger.foundation.batches import OUTAGES
from ledger.limits import Holder, stocks
from ledger.limits.stocks import Places
from ledger.principals import Surface

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Submitted:
    """The task of a submission; ``is_replay`` when an earlier request had made it.

    ``message`` is its first message, if the task is still as it was inserted.
    """

    task: Task
    is_replay: bool = False
    message: Message | None = None


def submit(submission: Submission, *, caller: Caller, via: Surface) -> Submitted:
    """Make a task that waits for a worker, or a REJECTED one with the reason.

    A request with an idempotency key (its own or the envelope's) that was used before, and with
    the same content, returns the task of that time; nothing is written then.

    Raises ``InvalidRequest`` and its subclasses for what cannot be stored,
    ``IdempotencyKeyReused, LimitReached``.
    """
    return _enter(draft_of(submission, caller, find_skill), via)


def submit_all(
    requests: list[tuple[Submission, Caller]], *, via: Surface
) -> list[Submitted | None]:
    """Make the new tasks among the requests, in one statement; ``None``: leave it to ``submit``.

    That is what is refused, rejected or repeated, and what waits for a lock. Nothing was written
    for it, so that no request of a batch fails or waits because of another. Raises what an outage
    raises; it is not known then whether anything was written.
    """
    find = cache(find_skill)
    rows: dict[int, Entry] = {}
    results: list[Submitted | None] = [None] * len(requests)
    with open_tasks.places() as places:
        for number, (submission, caller) in enumerate(requests):
            if (entry := _plain_entry(submission, caller, find, places)) is not None:
                rows[number] = entry
        inserted = _enter_all(list(rows.values()), via)
    for (number, entry), is_new in zip(rows.items(), inserted, strict=True):
        if is_new:
            results[number] = Submitted(entry.task, message=entry.message)
    return results


def _plain_entry(
    submission: Submission, caller: Caller, find: FindSkill, places: Places
) -> Entry | None:
    """The rows of a request, if nothing but the INSERT is needed for it."""
    try:
        draft = draft_of(submission, caller, find)
        if draft.denial is not None or draft.is_builtin or draft.is_limited or submission.push:
            return None
        is_admitted = places.try_take(caller.principal, draft.tenant)
        return draft.entry() if is_admitted else None
    except LedgerError:
        return None
    except OUTAGES:
        raise
    except Exception as failure:  # whatever it is: the others of the batch go on
        logger.warning("a message for %r leaves its batch after %r", submission.skill, failure)
        return None


def _enter_all(rows: list[Entry], via: Surface) -> list[bool]:
    """True for each that was inserted. Those of a statement that fails are tried in two halves."""
    try:
        return entries.enter_all(rows, states.SUBMIT, via=via) if rows else []
    except OUTAGES:
        raise
    except Exception as failure:  # one of them cannot be stored
        if len(rows) == 1:
            logger.warning("the task %s leaves its batch after %r", rows[0].task.pk, failure)
            return [False]
        half = len(rows) // 2
        return _enter_all(rows[:half], via) + _enter_all(rows[half:], via)


def find_skill(slug: str, tenant: str, offered_by: str | None) -> Skill | None:
    """The skill of that slug that the tenant may use; its own before another tenant's."""
    offered = Skill.objects.offered_to(tenant).filter(slug=slug)
    offered = offered.select_related("agent__tenant")
    if offered_by:
        return next((skill for skill in offered if skill.tenant == offered_by), None)
    return min(offered, key=lambda skill: skill.tenant != tenant, default=None)


def _enter(draft: Draft, via: Surface) -> Submitted:
    with open_tasks.places() as places:
        if (first := _admitted(draft, via, places)) is not None:
            return first
        if draft.denial is not None or not draft.is_builtin:
            is_limited = draft.denial is None and draft.is_limited
            return _enter_within_capacity(draft, via) if is_limited else _insert(draft, via)
        submitted, claimed = _enter_and_claim(draft, via)
    if claimed is not None:
        builtin.run(claimed)
        submitted.task.refresh_from_db()
    return Submitted(submitted.task, submitted.is_replay)


def _admitted(draft: Draft, via: Surface, places: Places) -> Submitted | None:
    """Count the new task against its agent's limits; the task of an earlier request needs no room.

    Raises ``LimitReached``.
    """
    try:
        _count(draft, places)
    except LimitReached:
        if _same_request(draft) is None:
            raise
        return _earlier(draft, via)
    return None


def _count(draft: Draft, places: Places) -> None:
    """Raises ``LimitReached``."""
    by, tenant = draft.request.caller.principal, draft.tenant
    if draft.denial is not None:
        limits.count_rejection(Holder(by.tenant or draft.tenant, by.slug or str(by)))
        return
    if draft.is_builtin:  # what it will become needs room as well
        is_question = draft.submission.skill == ASK_A_PERSON.id
        (open_questions if is_question else stocks.pending).check(by, tenant)
    places.take(by, tenant)


def _enter_and_claim(draft: Draft, via: Surface) -> tuple[Submitted, Task | None]:
    """Insert and claim a task of a built-in skill in one transaction, to be run here.

    If this process dies before it has run, the sweeper puts the task back for another one.
    """
    with atomic():
        submitted = _insert(draft, via)
        is_new = not submitted.is_replay and submitted.task.state == TaskState.SUBMITTED
        return submitted, builtin.claim(submitted.task.pk) if is_new else None


def _enter_within_capacity(draft: Draft, via: Surface) -> Submitted:
    """Insert while the lock on the skill's row keeps the count of its open tasks true."""
    skill = draft.request.skill
    assert skill is not None
    with atomic():
        Skill.objects.select_for_update().get(pk=skill.pk)
        if not Task.objects.has_room_in(skill) and _same_request(draft) is None:
            draft = replace(draft, denial=over_capacity(skill))
        return _insert(draft, via)


def _insert(draft: Draft, via: Surface) -> Submitted:
    entry = draft.entry()
    if _enter_with_push(entry, draft, via):
        return Submitted(entry.task, message=entry.message)
    return _earlier(draft, via)


def _enter_with_push(entry: Entry, draft: Draft, via: Surface) -> bool:
    """Insert the task, and the address that hears of its changes unless it is rejected."""
    push = draft.submission.push if draft.denial is None else None
    with nullcontext() if push is None else atomic():
        is_new = entries.enter_all([entry], draft.move, via=via) == [True]
        if is_new and push is not None:
            push_configs.store(entry.task, push)
    return is_new


def _earlier(draft: Draft, via: Surface) -> Submitted:
    """The key or the envelope's message id was used before: replay, or reject a duplicate.

    Raises ``IdempotencyKeyReused`` when the earlier request had another content.
    """
    first = _same_request(draft)
    if first is None:
        detail = f"The message {draft.envelope_message_id} came before, with another key."
        return _insert(replace(draft, denial=Denial(Reason.DUPLICATE_MESSAGE, detail)), via)
    if first.payload_hash != draft.submission.fingerprint():
        raise IdempotencyKeyReused()
    return Submitted(first, is_replay=True)


def _same_request(draft: Draft) -> Task | None:
    if not draft.key:
        return None
    submitted_by = str(draft.request.caller.principal)
    return Task.objects.filter(submitted_by=submitted_by, idempotency_key=draft.key).first()
