"""A submission that was read and checked, before anything of it is stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.utils import timezone

from a2a import states
from a2a.errors import Reason
from a2a.models import ASSENT, TASK_TTL, Message, Role, Skill, Task, answerers
from a2a.models.builtin_skills import OWN_SKILLS
from a2a.states import TaskState
from a2a.submissions import addressing, envelope, push_configs
from a2a.submissions.entries import Entry
from a2a.submissions.envelope import Denial, Envelope
from a2a.tasks import records
from a2a.validation import Part, refuse_unstorable
from ledger import seals
from ledger.agents import Caller
from ledger.errors import InvalidRequest, Sentence, source_of
from ledger.models import Scope, id_or_none, new_id
from ledger.seals import as_text
from ledger.states import Move

MOST_CHARACTERS = {"message_id": 200, "context_id": 100, "trace_id": 128}
KEY_MAX = 255  # characters
MOST_REFERENCES = 10  # that are looked at
# For a task that Assent executes itself: the time until its tool must have planned.
BEGINS_WITHIN = timedelta(minutes=10)
# In the history, in place of what a token without the scope ``submit`` sent.
NOT_KEPT: Part = {"text": "Not kept: the token may not submit."}

# The skill of a slug that a tenant may use; the third argument is the tenant that offers it, or
# ``None`` for any.
FindSkill = Callable[[str, str, str | None], Skill | None]


@dataclass(frozen=True, slots=True)
class Submission:
    """A client's demand. ``parts`` are the protocol's; ``envelope`` is as sent."""

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
    # The ended task of the same skill that this one is to be a revision of.
    revises: UUID | None = None
    # Ids of tasks that the message refers to; if just one of them can be revised, it is that one.
    references: list[str] = field(default_factory=list)
    # Who answers the questions of its worker, where that names nobody; see ``answerers``.
    may_answer: list[str] = field(default_factory=list)
    # The result is to begin with a text that a person can read.
    reads_text: bool = False
    # Where changes of the task are pushed to: a push notification config of A2A.
    push: dict[str, Any] | None = None

    def fingerprint(self) -> str:
        """Equal for two requests that count as the same one, repeated."""
        content = [self.skill, self.input, self.parts, self.context_id, self.envelope]
        if self.revises is not None:
            content.append(str(self.revises))
        # By name, so that one does not pass for the other.
        if self.references:
            content.append({"references": self.references})
        if self.may_answer:
            content.append({"may_answer": self.may_answer})
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Draft:
    """A submission with its skill resolved, its input as that skill takes it, and the checks made.

    ``denial`` is why the task will be REJECTED; ``None``: it will be SUBMITTED.
    """

    submission: Submission
    request: envelope.Request
    key: str
    expires_at: datetime
    denial: Denial | None

    @property
    def is_builtin(self) -> bool:
        return self.request.own is not None

    @property
    def is_limited(self) -> bool:
        skill = self.request.skill
        return skill is not None and skill.max_concurrency is not None

    @property
    def tenant(self) -> str:
        """That of the skill, which may be offered by another tenant than the caller's."""
        skill = self.request.skill
        return skill.tenant if skill is not None else self.request.caller.tenant

    @property
    def move(self) -> Move[TaskState]:
        return states.SUBMIT if self.denial is None else states.REJECT

    def entry(self) -> Entry:
        """The rows that the draft becomes: a task, its first message, its first event."""
        task, principal = self._task(), self.request.caller.principal
        message = Message(
            message_id=self.submission.message_id or str(uuid4()),
            role=Role.USER,
            principal=str(principal),
            principal_name=principal.display_name,
            parts=self.submission.parts if self._may_be_kept else [NOT_KEPT],
            metadata={},
        )
        return Entry(task, message, principal, seals.canonical(_details(task)).decode())

    @property
    def _may_be_kept(self) -> bool:
        return self.denial is None or Scope.SUBMIT in self.request.caller.scopes

    def _answerers(self) -> list[str] | None:
        """Raises ``InvalidRequest`` for a name that cannot answer.

        Clients of another tenant name roles only: they must not find out who its people are. They
        add to its approvers and do not replace them: the tenant that does the work keeps its say.
        """
        named = self.submission.may_answer
        is_foreign = self.request.caller.tenant != self.tenant
        if is_foreign and any(":" in name for name in named):
            raise InvalidRequest(
                "For a skill of another tenant, may_answer takes approver, operator and client."
            )
        if not named:
            return None
        kept = [answerers.APPROVER] if is_foreign else []
        return answerers.resolved(self.tenant, [*named, *kept])

    @property
    def _revisable(self) -> Task | None:
        """The task to revise, if it can be, also where the draft is rejected for another reason."""
        revised = self.request.revised
        return None if envelope.why_not_revisable(revised, self.request.skill) else revised

    def _task(self) -> Task:
        submission, request = self.submission, self.request
        skill, caller, parent = request.skill, request.caller, request.parent
        revised = self._revisable
        is_duplicate = self.denial is not None and self.denial.code == Reason.DUPLICATE_MESSAGE
        return Task(
            id=new_id(),
            tenant=self.tenant,
            context_id=submission.context_id or _context_of(revised) or str(uuid4()),
            state=TaskState.SUBMITTED if self.denial is None else TaskState.REJECTED,
            skill=skill,
            skill_slug=submission.skill[:100],
            input=submission.input if self._may_be_kept else None,
            metadata=submission.metadata if self._may_be_kept else {},
            submitted_by=str(caller.principal),
            submitted_by_name=caller.principal.display_name,
            parent=parent,
            depth=parent.depth + 1 if parent else 0,
            revises=revised,
            may_answer=self._answerers(),
            revision=(revised.revision or 0) + 1 if revised else None,
            lent_scopes=sorted(envelope.lent_scopes(request)),
            trace_id=_trace_id(submission, request),
            # The earlier task has both; they are unique.
            idempotency_key="" if is_duplicate else self.key,
            envelope_message_id="" if is_duplicate else self.envelope_message_id,
            payload_hash=submission.fingerprint(),
            card_version=submission.card_version,
            reads_text=submission.reads_text,
            expires_at=self.expires_at,
            retain_until=timezone.now() + retention_of(skill),
            **_owner(request),
            **_reason(self.denial),
        )

    @property
    def envelope_message_id(self) -> str:
        sent = self.request.envelope
        return (sent.message_id if sent else None) or ""


def _owner(request: envelope.Request) -> dict[str, str]:
    if request.skill is not None:
        agent = request.skill.agent
        return {"owner": str(agent.principal), "owner_name": agent.name}
    if request.own is not None:
        return {"owner": str(ASSENT), "owner_name": ASSENT.name}
    return {"owner": "", "owner_name": ""}


def _reason(denial: Denial | None) -> dict[str, Any]:
    if denial is None:
        return {"errors": []}
    return {
        "ended_at": timezone.now(),
        "reason_code": denial.code,
        "reason": denial.detail,
        "reason_source": source_of(denial.detail),
        "errors": denial.errors,
    }


def _context_of(revised: Task | None) -> str:
    return revised.context_id if revised is not None else ""


def _trace_id(submission: Submission, request: envelope.Request) -> str:
    sent, parent = request.envelope, request.parent
    own = (sent.trace_id if sent else None) or submission.trace_id
    return own or (parent.trace_id if parent else "")


def _details(task: Task) -> dict[str, Any]:
    """The details that the first event seals."""
    details = {
        "skill": task.skill_slug,
        "owner": task.owner,
        "depth": task.depth,
        "trace_id": task.trace_id,
        "parent": str(task.parent_id or ""),
        "input_digest": records.digest_of(records.text_of(task.input)),
    }
    if task.revises_id is not None:
        details["revises"] = str(task.revises_id)
    if task.reason_code:
        details["code"] = task.reason_code
    if task.retain_until is not None:
        details["retain_until"] = as_text(task.retain_until)
    return details


def retention_of(skill: Skill | None) -> timedelta:
    """The time the content of a task is kept: the skill's own term, else the installation's."""
    if skill is not None and skill.retention is not None:
        return skill.retention
    return timedelta(days=settings.TASK_RETENTION_DAYS)


# --- from the submission to the draft ---------------------------------------------------------


def draft_of(submission: Submission, caller: Caller, find_skill: FindSkill) -> Draft:
    """Read and check a submission. Raises ``InvalidRequest`` for what cannot be stored."""
    _refuse_unstorable(submission)
    if submission.push is not None:
        push_configs.checked(submission.push)
    sent = envelope.read(submission.envelope)
    read = sent if isinstance(sent, Envelope) else None
    key = _idempotency_key(submission, read)
    if not submission.skill and (slug := addressing.skill_for(caller, submission.input)):
        submission = replace(submission, skill=slug)
    own = OWN_SKILLS.get(submission.skill)
    skill = None
    if own is None:
        skill = find_skill(submission.skill, caller.tenant, read.tenant if read else None)
    schema = addressing.schema_of(submission.skill, skill)
    is_text = isinstance(submission.input, addressing.PlainText)
    if is_text:
        submission = replace(submission, input=addressing.as_input(submission.input, schema))
        refuse_unstorable(submission.input)
    revised = _revised(submission, skill, caller)
    request = envelope.Request(
        caller=_lender(caller, skill, read),
        skill=skill,
        skill_slug=submission.skill,
        input=submission.input,
        envelope=read,
        parent=_parent(read, caller),
        own=own,
        revises=revised.pk if revised is not None else submission.revises,
        revised=revised,
    )
    denial = sent if isinstance(sent, Denial) else envelope.denial_of(request)
    if is_text and denial is not None and denial.code == Reason.SCHEMA_MISMATCH:
        detail = addressing.expected_input(submission.skill, schema)
        denial = replace(denial, detail=detail)
    return Draft(submission, request, key, _expires_at(request, denial), denial)


def _lender(caller: Caller, skill: Skill | None, sent: Envelope | None) -> Caller:
    """The caller with the scopes of its token that the request lends where it names none."""
    names_scopes = sent is not None and sent.scopes is not None
    if skill is None or names_scopes or not skill.agent.tenant.demands_scopes:
        return caller
    return replace(caller, scopes=caller.scopes & {Scope.SUBMIT.value})


def _refuse_unstorable(submission: Submission) -> None:
    refuse_unstorable(
        [
            submission.parts,
            submission.input,
            submission.metadata,
            submission.may_answer,
            submission.references,
            submission.envelope,
            submission.skill,
            submission.message_id,
            submission.context_id,
            submission.card_version,
            submission.idempotency_key,
            submission.trace_id,
        ]
    )
    for name, most in MOST_CHARACTERS.items():
        if len(getattr(submission, name)) > most:
            raise InvalidRequest(
                Sentence("{name} is longer than {most} characters.", name=name, most=most)
            )


def _idempotency_key(submission: Submission, sent: Envelope | None) -> str:
    key = submission.idempotency_key or (sent.idempotency_key if sent else None) or ""
    if len(key) > KEY_MAX:
        raise InvalidRequest(f"An idempotency key has at most {KEY_MAX} characters.")
    return key


def _parent(sent: Envelope | None, caller: Caller) -> Task | None:
    if sent is None or sent.parent_task is None:
        return None
    return Task.objects.visible_to(caller).filter(pk=sent.parent_task).first()


def _revised(submission: Submission, skill: Skill | None, caller: Caller) -> Task | None:
    """The task to revise, if the caller may read it: the one that is named, or referred to."""
    if submission.revises is not None:
        return Task.objects.visible_to(caller).filter(pk=submission.revises).first()
    named = {pk for text in submission.references[:MOST_REFERENCES] if (pk := id_or_none(text))}
    if not named:
        return None
    candidates = Task.objects.visible_to(caller).filter(pk__in=named)
    usable = [task for task in candidates if not envelope.why_not_revisable(task, skill)]
    return usable[0] if len(usable) == 1 else None


def _expires_at(request: envelope.Request, denial: Denial | None) -> datetime:
    if request.own is not None and denial is None:
        return timezone.now() + BEGINS_WITHIN
    sent, skill = request.envelope, request.skill
    latest = timezone.now() + (skill.timeout if skill else TASK_TTL)
    if sent is None or sent.timeout_s is None:
        return latest
    ends = envelope.ends_at(sent) or timezone.now() + timedelta(seconds=sent.timeout_s)
    return min(latest, ends)
