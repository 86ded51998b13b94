"""The envelope of a request: sender, receiver, and the scopes and time it lends. Checked first.

It travels as A2A metadata (``ENVELOPE_EXTENSION``), or as ``envelope`` in the plain dialect. Any
request may carry one; requests across tenants, delegated ones and those to a skill that requires
it must.
Members are read in the spellings of ``a2a.validation.spellings``. Unknown members are ignored, so
that a sender of a later 1.x is understood; an envelope without any known member, and another major
version, are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from a2a import validation
from a2a.errors import Reason
from a2a.models import Skill, Task
from a2a.models.builtin_skills import OwnSkill
from a2a.states import TaskReasons
from ledger.agents import Caller, covers, narrowed
from ledger.contracts import json_schemas
from ledger.errors import Sentence
from ledger.models import Scope

VERSION = "1.0"
OUR_NAME = "assent"
MOST_REVISIONS = 100  # of which each revises the one before

Name = Annotated[str, Field(max_length=200)]


def _plausible(at: datetime) -> datetime:
    """Years like 1 and 9999 come from unset clocks, and adding a timeout to them overflows."""
    if not 2000 <= at.year <= 2200:
        raise ValueError("lies between the years 2000 and 2200")
    return at if at.tzinfo else at.replace(tzinfo=UTC)


class Envelope(BaseModel):
    """Version 1. Times are RFC 3339, ``timeout_s`` is in seconds from ``sent_at``."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    version: Annotated[str, Field(pattern=r"^1\.\d+$", max_length=10)] = VERSION
    trace_id: Annotated[str, Field(min_length=1, max_length=128)] | None = Field(
        None, description="32 hex digits as W3C has them; a UUID is read as these; or any text."
    )
    message_id: Name | None = None
    idempotency_key: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    from_agent: Name | None = Field(None, alias="from", description="Slug of the sending agent.")
    to_agent: Name | None = Field(None, alias="to", description="Slug of the agent addressed.")
    tenant: Name | None = Field(None, description="Tenant of the agent addressed.")
    capability: Name | None = Field(None, description="Id of the skill.")
    audience: Name | None = Field(
        None,
        description="“assent”, the address of this Assent, or the slug of the agent addressed.",
    )
    scopes: Annotated[list[Name], Field(max_length=50)] | None = Field(
        None, description="What the sender lends of its token's scopes; never more than these."
    )
    sent_at: Annotated[datetime, AfterValidator(_plausible)] | None = None
    timeout_s: Annotated[float, Field(gt=0, le=31_536_000)] | None = None
    delegation_depth: Annotated[int, Field(ge=0, le=1000)] | None = None
    parent_task: UUID | None = None

    @property
    def is_delegated(self) -> bool:
        return self.parent_task is not None or bool(self.delegation_depth)


# Members that a request which must carry an envelope has to set; a delegated one has further.
CORRELATION = (
    "trace_id",
    "message_id",
    "idempotency_key",
    "from_agent",
    "to_agent",
    "tenant",
    "capability",
    "audience",
    "scopes",
    "timeout_s",
)
DELEGATION = ("parent_task", "delegation_depth")
SENDER = ("from_agent", "sent_at")


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a request is rejected: a reason for machines, a sentence for people."""

    code: Reason
    detail: str
    errors: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Request:
    """The subject of the checks: the envelope, and what the request itself asks for."""

    caller: Caller
    skill: Skill | None
    skill_slug: str
    input: Any
    envelope: Envelope | None = None
    parent: Task | None = None
    own: OwnSkill | None = None  # a skill that Assent executes itself
    revises: UUID | None = None  # the task that it is a revision of
    revised: Task | None = None  # the same, if the caller may read it
    has_envelope: bool = False  # of a hand-over: the task came with an envelope


def read(sent: Any) -> Envelope | Denial | None:
    """The envelope; a ``Denial`` if it cannot be read; ``None`` if the request has none."""
    if sent is None:
        return None
    if not isinstance(sent, dict):
        return _unreadable([{"field": "", "message": "An envelope is an object."}])
    try:
        envelope = Envelope.model_validate(validation.envelope_as_ours(sent))
    except validation.MemberNotReadable as refusal:
        return _unreadable([{"field": refusal.member, "message": str(refusal)}])
    except ValidationError as refusal:
        return _unreadable(
            [
                {"field": ".".join(map(str, error["loc"])), "message": error["msg"]}
                for error in refusal.errors(include_url=False)[:20]
            ]
        )
    if not envelope.model_fields_set - {"version"}:
        return Denial(
            Reason.MISSING_CORRELATION_FIELDS, "The envelope has no member that is known here."
        )
    return envelope


def _unreadable(errors: list[dict[str, str]]) -> Denial:
    return Denial(Reason.SCHEMA_MISMATCH, "The envelope does not fit its published schema.", errors)


def over_capacity(skill: Skill) -> Denial:
    detail = TaskReasons.SKILL_IS_FULL(skill=skill.slug, number=skill.max_concurrency)
    return Denial(Reason.OVER_CAPACITY, detail)


def denial_of(request: Request) -> Denial | None:
    """The first reason to reject a submission, or ``None``."""
    return next(_denials(request), None)


def _denials(request: Request) -> Iterator[Denial]:
    yield from _token_without_scope(request)
    yield from _unknown_skill(request)
    yield from _incomplete(request)
    yield from _wrong_sender(request)
    yield from _wrong_receiver(request)
    yield from _expired(request)
    yield from _other_capability(request)
    yield from _skill_terms(request)
    yield from _wrong_delegation(request)
    yield from _wrong_revision(request)
    yield from _input_misfits(request)


def denial_of_hand_over(request: Request) -> Denial | None:
    """The first reason not to give a client's task to ``request.skill``, or ``None``.

    The terms of a submission, without those that only an envelope of its own could meet.
    """
    return next(_hand_over_denials(request), None)


def _hand_over_denials(request: Request) -> Iterator[Denial]:
    skill = request.skill
    if skill is None:
        yield Denial(
            Reason.TENANT_BOUNDARY, f"{request.skill_slug} is not offered to the task's client."
        )
    elif skill.requires_envelope and not request.has_envelope:
        yield Denial(
            Reason.MISSING_CORRELATION_FIELDS,
            f"{skill.slug} takes only tasks that came with an envelope; this one did not.",
        )
    yield from _skill_terms(request)
    yield from _looping(request)
    yield from _input_misfits(request)


# --- the checks, in the order of a submission -------------------------------------------------


def _token_without_scope(request: Request) -> Iterator[Denial]:
    if Scope.SUBMIT not in request.caller.scopes:
        yield Denial(Reason.MISSING_SCOPE, "The token lacks the scope 'submit'.")


def _unknown_skill(request: Request) -> Iterator[Denial]:
    """Checked early, so that the reason names the cause and not what follows from it.

    A skill of another tenant that is not open gets the same reason as one that does not exist.
    """
    if request.skill is not None or request.own is not None:
        return
    envelope, own_tenant = request.envelope, request.caller.tenant
    if envelope and envelope.tenant and envelope.tenant != own_tenant:
        yield _not_offered_by(envelope.tenant)
    name = f"no skill {request.skill_slug!r}" if request.skill_slug else "no skill named"
    yield Denial(
        Reason.UNSUPPORTED_CAPABILITY,
        f"There is {name} for you. The extended agent card lists those there are.",
    )


def _not_offered_by(tenant: str) -> Denial:
    detail = Sentence("The skill is not offered by {tenant} to you.", tenant=tenant)
    return Denial(Reason.TENANT_BOUNDARY, detail)


def _incomplete(request: Request) -> Iterator[Denial]:
    sent = request.envelope or Envelope()
    if names := [name for name in _required_members(request) if getattr(sent, name) is None]:
        listed = ", ".join(name.removesuffix("_agent") for name in names)
        yield Denial(
            Reason.MISSING_CORRELATION_FIELDS,
            f"This request has to carry an envelope, with {listed}.",
        )


def _required_members(request: Request) -> list[str]:
    """All of them across tenants, for delegated requests, and by the skill; the sender and the
    time where the tenant demands them of agents."""
    skill, envelope, caller = request.skill, request.envelope, request.caller
    is_delegated = envelope is not None and envelope.is_delegated
    is_by_skill = skill is not None and (skill.tenant != caller.tenant or skill.requires_envelope)
    names_sender = skill is not None and skill.agent.tenant.demands_sender
    required = (
        *(CORRELATION if is_by_skill or is_delegated else ()),
        *(DELEGATION if is_delegated else ()),
        *(SENDER if names_sender and caller.principal.is_agent else ()),
    )
    return list(dict.fromkeys(required))


def _wrong_sender(request: Request) -> Iterator[Denial]:
    envelope, caller = request.envelope, request.caller
    if envelope is None:
        return
    slug = caller.principal.slug
    names = {slug, caller.principal.id, str(caller.principal)}
    if envelope.from_agent and envelope.from_agent not in names:
        yield Denial(
            Reason.TENANT_BOUNDARY,
            f"`from` is {envelope.from_agent}, but the token belongs to another agent.",
        )


def _wrong_receiver(request: Request) -> Iterator[Denial]:
    envelope, skill = request.envelope, request.skill
    if envelope is None:
        return
    if envelope.tenant and envelope.tenant != (skill.tenant if skill else request.caller.tenant):
        yield _not_offered_by(envelope.tenant)
    names = {skill.agent.slug, f"{skill.tenant}/{skill.agent.slug}"} if skill else {OUR_NAME}
    if envelope.audience and envelope.audience.rstrip("/") not in names | _our_names():
        yield Denial(
            Reason.WRONG_AUDIENCE, f"The audience is {envelope.audience}, which is not this Assent."
        )
    if envelope.to_agent and envelope.to_agent not in names:
        yield Denial(
            Reason.WRONG_AUDIENCE, f"The skill is not one of the agent {envelope.to_agent}."
        )


def _our_names() -> set[str]:
    return {OUR_NAME, settings.PUBLIC_URL, settings.LIVE_URL}


def _expired(request: Request) -> Iterator[Denial]:
    ends = ends_at(request.envelope) if request.envelope is not None else None
    if ends is not None and ends <= timezone.now():
        yield Denial(Reason.EXPIRED, TaskReasons.SENT_TOO_LATE())


def ends_at(envelope: Envelope) -> datetime | None:
    """The time at which the sender gives up; ``None`` unless the envelope says it by itself."""
    if envelope.timeout_s is None or envelope.sent_at is None:
        return None
    return envelope.sent_at + timedelta(seconds=envelope.timeout_s)


def _other_capability(request: Request) -> Iterator[Denial]:
    capability = request.envelope.capability if request.envelope is not None else None
    if capability and capability != request.skill_slug:
        yield Denial(
            Reason.UNSUPPORTED_CAPABILITY,
            f"The envelope asks for {capability}, the message for {request.skill_slug}.",
        )


def _skill_terms(request: Request) -> Iterator[Denial]:
    if request.skill is not None and request.skill.drift:
        yield Denial(
            Reason.CARD_DRIFTED,
            TaskReasons.CARD_CHANGED(drift=request.skill.drift),
        )
    offered = request.skill or request.own
    scope = offered.required_scope if offered else ""
    if scope and not covers(lent_scopes(request), scope):
        detail = TaskReasons.NO_SCOPE(scope=repr(scope))
        yield Denial(Reason.MISSING_SCOPE, detail)


def lent_scopes(request: Request) -> frozenset[str]:
    """The scopes of the token, less those that the envelope does not lend."""
    envelope, lent = request.envelope, request.caller.scopes
    if envelope is not None and envelope.scopes is not None:
        return narrowed(lent, envelope.scopes)
    return lent


def _wrong_delegation(request: Request) -> Iterator[Denial]:
    envelope, parent = request.envelope, request.parent
    if envelope is None or not envelope.is_delegated:
        return
    if parent is None:
        yield Denial(Reason.TENANT_BOUNDARY, "The parent task is not one of yours.")
        return
    if parent.is_final:
        yield Denial(Reason.EXPIRED, "The parent task has ended.")
    depth = envelope.delegation_depth or 0
    if depth != parent.depth + 1:
        yield Denial(
            Reason.DELEGATION_BUDGET,
            f"A child of that task has delegation_depth {parent.depth + 1}, not {depth}.",
        )
    if depth > settings.DELEGATION_BUDGET:
        yield Denial(
            Reason.DELEGATION_BUDGET,
            f"Tasks are delegated {settings.DELEGATION_BUDGET} levels deep at most.",
        )
    yield from _looping(request)


def _wrong_revision(request: Request) -> Iterator[Denial]:
    if request.revises is None:
        return
    if detail := why_not_revisable(request.revised, request.skill):
        yield Denial(Reason.NOT_REVISABLE, detail)


def why_not_revisable(earlier: Task | None, skill: Skill | None) -> str:
    """Why a task of this skill cannot revise the earlier one; empty: it can.

    ``None`` as the earlier task: it is not there, or the caller may not read it.
    """
    if earlier is None:
        return Sentence("The task to revise is not one of yours.")
    if not earlier.is_final:
        state = earlier.get_state_display()
        return Sentence("The task to revise has not ended: it is {state}.", state=state)
    if skill is None or earlier.skill_id != skill.pk:
        return Sentence("The task to revise is one of the skill {skill}.", skill=earlier.skill_slug)
    if earlier.content_erased_at is not None:
        return Sentence("The content of the task to revise was erased when its retention was over.")
    if (earlier.revision or 0) >= MOST_REVISIONS:
        return Sentence(
            "A task has at most {number} revisions, one after the other.", number=MOST_REVISIONS
        )
    return ""


def _looping(request: Request) -> Iterator[Denial]:
    """The skill has a task above already: it would be asked for what it asks for itself."""
    ancestor: Task | None = request.parent
    while ancestor is not None:
        if request.skill is not None and ancestor.skill_id == request.skill.pk:
            yield Denial(
                Reason.DELEGATION_LOOP, f"{request.skill_slug} is at work on {ancestor.pk} above."
            )
            return
        ancestor = ancestor.parent


def _input_misfits(request: Request) -> Iterator[Denial]:
    offered = request.skill or request.own
    schema = offered.input_schema if offered else {}
    if errors := json_schemas.misfits(schema, request.input):
        detail = TaskReasons.INPUT_MISFIT()
        yield Denial(Reason.SCHEMA_MISMATCH, detail, errors)
