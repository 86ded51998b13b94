"""Submitting: from a request to a task that waits for a worker, or is REJECTED with the reason."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.db.transaction import atomic
from django.utils import timezone

from a2a import builtin, digests, states
from a2a.errors import Reason
from a2a.models import ASSENT, TASK_TTL, Message, Role, Skill, Task
from a2a.models.builtin_skills import OWN_SKILLS, OwnSkill
from a2a.states import TaskState
from a2a.submissions import addressing, entries, envelope
from a2a.submissions.envelope import Denial, Envelope
from a2a.validation.parts import Part, refuse_unstorable
from ledger import intents
from ledger.agents.callers import Caller
from ledger.errors import IdempotencyKeyReused, InvalidRequest, LedgerError
from ledger.events.seals import as_text
from ledger.models import Scope, new_id

KEY_MAX = 255  # characters
# What Assent does itself, if its tool does not plan for so long.
BEGINS_WITHIN = timedelta(minutes=10)
# What a token that may not submit has sent is not ours to store.
NOT_KEPT: Part = {"text": "Not kept: the token may not submit."}


@dataclass(frozen=True, slots=True)
class Submission:
    """What a client asks for. ``parts`` are the protocol's; ``envelope`` is as sent."""

    skill: str
    input: Any = None
    parts: list[Part] = field(default_factory=list)
    message_id: str = ""
    context_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    envelope: Any = None
    idempotency_key: str = ""
    trace_id: str = ""
    card_version: str = ""

    def fingerprint(self) -> str:
        """What must be the same for a repeated request to count as the same."""
        said = (self.skill, self.input, self.parts, self.context_id, self.envelope)
        text = json.dumps(said, sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Submitted:
    """The task that a submission led to; ``is_replay`` when it was there already."""

    task: Task
    is_replay: bool = False
    message: Message | None = None  # the first one, if the task is as it was just entered


def submit(submission: Submission, *, caller: Caller, via: str) -> Submitted:
    """A new task, waiting for a worker, or REJECTED with the reason.

    The same idempotency key (its own or the envelope's) with the same content gives the task that
    there is; nothing is written then.

    Raises ``InvalidRequest`` and its kin for what cannot be stored, ``IdempotencyKeyReused``.
    """
    return _settle(_draft(submission, caller, _skill), via)


def submit_all(
    asked: list[tuple[Submission, Caller]], *, via: str
) -> list[Submitted | LedgerError]:
    """As ``submit`` for each; what is usual enters in one statement. Refusals are handed back."""
    skills = cache(_skill)
    found: list[Submitted | LedgerError | None] = []
    plain: list[tuple[int, _Draft, entries.Entry]] = []
    for number, (submission, caller) in enumerate(asked):
        found.append(None)
        try:
            draft = _draft(submission, caller, skills)
            if draft.is_plain:
                plain.append((number, draft, draft.entry()))
            else:
                found[number] = _settle(draft, via)
        except LedgerError as refusal:
            found[number] = refusal
    entered = entries.enter_all([entry for *_, entry in plain], states.SUBMIT, via=via)
    for (number, draft, entry), is_new in zip(plain, entered, strict=True):
        try:
            found[number] = (
                Submitted(draft.task, message=entry.message)
                if is_new
                else _already_there(draft, via)
            )
        except LedgerError as refusal:
            found[number] = refusal
    return [one for one in found if one is not None]


Skills = Callable[[str, str, str | None], Skill | None]


@dataclass(slots=True)
class _Draft:
    """A task that has not entered, with what was found out about it."""

    submission: Submission
    caller: Caller
    task: Task
    skill: Skill | None
    own: OwnSkill | None
    denial: Denial | None
    parts: list[Part]

    @property
    def is_plain(self) -> bool:
        limited = self.skill is not None and self.skill.max_concurrency is not None
        return self.denial is None and self.own is None and not limited

    def entry(self) -> entries.Entry:
        task, principal = self.task, self.caller.principal
        details = {"skill": task.skill_slug, "owner": task.owner, "depth": task.depth}
        details |= {"trace_id": task.trace_id, "parent": str(task.parent_id or "")}
        details |= {"code": task.reason_code} if task.reason_code else {}
        if task.retain_until is not None:
            details["retain_until"] = as_text(task.retain_until)
        details["input_digest"] = digests.digest_of(digests.text_of(task.input))
        message = Message(
            message_id=self.submission.message_id or str(uuid4()),
            role=Role.USER,
            principal=str(principal),
            principal_name=principal.display_name,
            parts=self.parts,
            metadata={},
        )
        return entries.Entry(task, message, principal, intents.canonical(details).decode())


def _draft(submission: Submission, caller: Caller, skills: Skills) -> _Draft:
    refuse_unstorable(
        [submission.parts, submission.input, submission.metadata, submission.envelope,
         submission.skill, submission.message_id, submission.context_id, submission.card_version]
    )  # fmt: skip
    said = envelope.read(submission.envelope)
    sent = said if isinstance(said, Envelope) else None
    key = submission.idempotency_key or (sent.idempotency_key if sent else None) or ""
    if len(key) > KEY_MAX:
        raise InvalidRequest(f"An idempotency key has at most {KEY_MAX} characters.")
    if not submission.skill and (slug := addressing.skill_for(caller, submission.input)):
        submission = replace(submission, skill=slug)
    own = OWN_SKILLS.get(submission.skill)
    skill = None
    if own is None:
        skill = skills(submission.skill, caller.tenant, sent.tenant if sent else None)
    schema = addressing.schema_of(submission.skill, skill)
    is_text = isinstance(submission.input, addressing.PlainText)
    if is_text:
        submission = replace(submission, input=addressing.as_input(submission.input, schema))
        refuse_unstorable(submission.input)
    request = envelope.Request(
        caller=caller,
        skill=skill,
        skill_slug=submission.skill,
        input=submission.input,
        envelope=sent,
        parent=_parent(sent, caller),
        own=own,
    )
    denial = said if isinstance(said, Denial) else envelope.denial_of(request)
    if is_text and denial is not None and denial.code == Reason.SCHEMA_MISMATCH:
        detail = addressing.what_it_takes(submission.skill, schema)
        denial = replace(denial, detail=detail)
    task = _new_task(submission, request, key)
    return _Draft(submission, caller, task, skill, own, denial, submission.parts)


def _settle(draft: _Draft, via: str) -> Submitted:
    if draft.denial is None and draft.own is not None:
        return _enter_own(draft, via)
    if draft.denial is None and not draft.is_plain:
        return _enter_within_capacity(draft, via)
    return _enter(draft, via)


def _skill(slug: str, tenant: str, named_tenant: str | None) -> Skill | None:
    """The skill of that id that this tenant may use; its own before another's."""
    found = Skill.objects.offered_to(tenant).filter(slug=slug).select_related("agent")
    if named_tenant:
        named = [skill for skill in found if skill.tenant == named_tenant]
        return named[0] if named else None
    return min(found, key=lambda skill: skill.tenant != tenant, default=None)


def _parent(sent: Envelope | None, caller: Caller) -> Task | None:
    if sent is None or sent.parent_task is None:
        return None
    return Task.objects.visible_to(caller).filter(pk=sent.parent_task).first()


def _new_task(submission: Submission, request: envelope.Request, key: str) -> Task:
    sent, skill, caller = request.envelope, request.skill, request.caller
    trace = (sent.trace_id if sent else None) or submission.trace_id
    return Task(
        id=new_id(),
        tenant=skill.tenant if skill else caller.tenant,
        context_id=submission.context_id or str(uuid4()),
        state=TaskState.SUBMITTED,
        skill=skill,
        skill_slug=submission.skill[:100],
        input=submission.input,
        metadata=submission.metadata,
        submitted_by=str(caller.principal),
        submitted_by_name=caller.principal.display_name,
        owner=_owner(request),
        owner_name=skill.agent.name if skill else ASSENT.name if request.own else "",
        parent=request.parent,
        depth=request.parent.depth + 1 if request.parent else 0,
        lent_scopes=sorted(envelope.lent_scopes(request)),
        trace_id=trace or (request.parent.trace_id if request.parent else ""),
        idempotency_key=key,
        payload_hash=submission.fingerprint(),
        envelope_message_id=(sent.message_id if sent else None) or "",
        card_version=submission.card_version,
        expires_at=_expires_at(sent, skill),
        retain_until=timezone.now() + retention_of(skill),
        errors=[],
    )


def retention_of(skill: Skill | None) -> timedelta:
    """How long the content of a task is kept: the skill's own term, else the installation's."""
    if skill is not None and skill.retention is not None:
        return skill.retention
    return timedelta(days=settings.TASK_RETENTION_DAYS)


def _owner(request: envelope.Request) -> str:
    if request.skill is not None:
        return str(request.skill.agent.principal)
    return str(ASSENT) if request.own else ""


def _expires_at(sent: Envelope | None, skill: Skill | None) -> datetime:
    latest = timezone.now() + (skill.timeout if skill else TASK_TTL)
    if sent is None or sent.timeout_s is None:
        return latest
    ends = envelope.ends_at(sent) or timezone.now() + timedelta(seconds=sent.timeout_s)
    return min(latest, ends)


def _enter_own(draft: _Draft, via: str) -> Submitted:
    """What Assent does itself enters claimed, so that nobody else begins it, and begins at once."""
    draft.task.expires_at = timezone.now() + BEGINS_WITHIN
    with atomic():
        submitted = _enter(draft, via)
        is_ours = not submitted.is_replay and submitted.task.state == TaskState.SUBMITTED
        claimed = builtin.claim(submitted.task.pk) if is_ours else None
    if claimed is not None:
        builtin.run(claimed)
        submitted.task.refresh_from_db()
    return Submitted(submitted.task, submitted.is_replay)


def _enter_within_capacity(draft: _Draft, via: str) -> Submitted:
    """One at a time, so that the count is true."""
    skill = draft.skill
    assert skill is not None
    with atomic():
        Skill.objects.select_for_update().get(pk=skill.pk)
        if not Task.objects.has_room_in(skill) and not _same_request(draft.task):
            detail = f"{skill.slug} has {skill.max_concurrency} tasks at hand, as many as it takes."
            draft.denial = Denial(Reason.OVER_CAPACITY, detail)
        return _enter(draft, via)


def _enter(draft: _Draft, via: str) -> Submitted:
    move = states.SUBMIT if draft.denial is None else states.REJECT
    if draft.denial is not None:
        _deny(draft, draft.denial)
    entry = draft.entry()
    if entries.enter_all([entry], move, via=via) == [True]:
        return Submitted(draft.task, message=entry.message)
    return _already_there(draft, via)


def _deny(draft: _Draft, denial: Denial) -> None:
    task = draft.task
    task.state, task.ended_at = TaskState.REJECTED, timezone.now()
    task.reason_code, task.reason, task.errors = denial.code, denial.detail, denial.errors
    if denial.code == Reason.DUPLICATE_MESSAGE:
        task.envelope_message_id = task.idempotency_key = ""
    if Scope.SUBMIT not in draft.caller.scopes:
        task.input, task.metadata, draft.parts = None, {}, [NOT_KEPT]


def _already_there(draft: _Draft, via: str) -> Submitted:
    """The key or the envelope's message id was used before."""
    first = _same_request(draft.task)
    if first is not None:
        if first.payload_hash != draft.task.payload_hash:
            raise IdempotencyKeyReused()
        return Submitted(first, is_replay=True)
    detail = f"The message {draft.task.envelope_message_id} came before, with another key."
    draft.denial = Denial(Reason.DUPLICATE_MESSAGE, detail)
    return _enter(draft, via)


def _same_request(task: Task) -> Task | None:
    if not task.idempotency_key:
        return None
    return Task.objects.filter(
        submitted_by=task.submitted_by, idempotency_key=task.idempotency_key
    ).first()
