"""The envelope: who sends what to whom, on whose behalf. Checked before any work, fail-closed.

Travels as A2A metadata under ``EXTENSION``, or as ``envelope`` in the plain dialect. Every request
may carry one; those that cross tenants, are delegated or go to a skill that requires it must.
Members are read in the spellings of ``a2a.validation.spellings``. Unknown ones are ignored, so that
a sender of a later 1.x is understood; an envelope without any known member, and another major
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

from a2a.errors import Reason
from a2a.models import Skill, Task
from a2a.models.builtin_skills import OwnSkill
from a2a.validation import json_schemas, spellings
from ledger.agents.allowances import covers, narrowed
from ledger.agents.callers import Caller
from ledger.models import Scope

EXTENSION = "urn:assent:a2a:envelope:1"
VERSION = "1.0"
OUR_NAME = "assent"

Name = Annotated[str, Field(max_length=200)]


def _in_living_memory(at: datetime) -> datetime:
    """The years 1 and 9999 are a clock that was never set: no arithmetic with them holds."""
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
    sent_at: Annotated[datetime, AfterValidator(_in_living_memory)] | None = None
    timeout_s: Annotated[float, Field(gt=0, le=31_536_000)] | None = None
    delegation_depth: Annotated[int, Field(ge=0, le=1000)] | None = None
    parent_task: UUID | None = None

    @property
    def is_delegated(self) -> bool:
        return self.parent_task is not None or bool(self.delegation_depth)


# What a request that has to carry an envelope says in it; a delegated one says also how deep.
CORRELATION = (
    "trace_id", "message_id", "idempotency_key", "from_agent", "to_agent", "tenant", "capability",
    "audience", "scopes", "timeout_s",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a request is turned away: a reason for machines, a sentence for people."""

    code: Reason
    detail: str
    errors: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Request:
    """What is checked: the envelope as sent, and what the request itself asks for."""

    caller: Caller
    skill: Skill | None
    skill_slug: str
    input: Any
    envelope: Envelope | None = None
    parent: Task | None = None
    own: OwnSkill | None = None  # a skill of Assent itself
    has_envelope: bool = False  # the task came with one, when it is handed over


def read(sent: Any) -> Envelope | Denial | None:
    """The envelope of a request, if it has one that can be read."""
    if sent is None:
        return None
    if not isinstance(sent, dict):
        return _unreadable([{"field": "", "message": "An envelope is an object."}])
    try:
        envelope = Envelope.model_validate(spellings.as_ours(sent))
    except spellings.NotReadable as refusal:
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


def denial_of(request: Request) -> Denial | None:
    """The first thing that is wrong with a request, or nothing."""
    return next(_denials(request), None)


def _denials(request: Request) -> Iterator[Denial]:
    envelope = request.envelope
    if Scope.SUBMIT not in request.caller.scopes:
        yield Denial(Reason.MISSING_SCOPE, "The token lacks the scope 'submit'.")
    yield from _unknown(request)
    if _has_to_carry_one(request):
        yield from _missing(envelope)
    if envelope is not None:
        yield from _misdirected(request, envelope)
        yield from _too_late(envelope)
        yield from _of_another_skill(request, envelope)
    yield from _unfit(request)
    if envelope is not None and envelope.is_delegated:
        yield from _wrongly_delegated(request, envelope)
    yield from _mismatched(request)


def denial_of_hand_over(request: Request) -> Denial | None:
    """What speaks against giving a client's task to ``request.skill``.

    The same terms as for a submission, but without what only an envelope of its own could say.
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
            f"{skill.slug} takes only what came with an envelope; the task did not.",
        )
    yield from _unfit(request)
    yield from _looping(request)
    yield from _mismatched(request)


def _unfit(request: Request) -> Iterator[Denial]:
    if request.skill is not None and request.skill.drift:
        yield Denial(Reason.CARD_DRIFTED, f"The agent's card has changed: {request.skill.drift}")
    yield from _unscoped(request)


def _mismatched(request: Request) -> Iterator[Denial]:
    offered = request.skill or request.own
    schema = offered.input_schema if offered else {}
    if errors := json_schemas.misfits(schema, request.input):
        yield Denial(Reason.SCHEMA_MISMATCH, "The input does not fit the skill's schema.", errors)


def _unknown(request: Request) -> Iterator[Denial]:
    """Asked before anything else, so that the answer names what is wrong and not what follows.

    For a skill of another tenant that is not open, the answer is the same as for none at all.
    """
    if request.skill is not None or request.own is not None:
        return
    envelope, own_tenant = request.envelope, request.caller.tenant
    if envelope and envelope.tenant and envelope.tenant != own_tenant:
        yield Denial(
            Reason.TENANT_BOUNDARY, f"The skill is not offered by {envelope.tenant} to you."
        )
    what = f"no skill {request.skill_slug!r}" if request.skill_slug else "no skill named"
    yield Denial(
        Reason.UNSUPPORTED_CAPABILITY,
        f"There is {what} for you. The extended agent card lists those there are.",
    )


def _has_to_carry_one(request: Request) -> bool:
    skill, envelope = request.skill, request.envelope
    crosses = skill is not None and skill.tenant != request.caller.tenant
    is_required = skill is not None and skill.requires_envelope
    return crosses or is_required or (envelope is not None and envelope.is_delegated)


def _missing(envelope: Envelope | None) -> Iterator[Denial]:
    names = [name for name in CORRELATION if envelope is None or getattr(envelope, name) is None]
    if envelope is not None and envelope.is_delegated:
        if envelope.parent_task is None:
            names.append("parent_task")
        if envelope.delegation_depth is None:
            names.append("delegation_depth")
    if names:
        listed = ", ".join(name.removesuffix("_agent") for name in names)
        yield Denial(
            Reason.MISSING_CORRELATION_FIELDS,
            f"This request has to carry an envelope, with {listed}.",
        )


def _misdirected(request: Request, envelope: Envelope) -> Iterator[Denial]:
    caller, skill = request.caller, request.skill
    slug = caller.principal.id.partition("/")[2]
    if envelope.from_agent and envelope.from_agent not in {slug, caller.principal.id}:
        yield Denial(
            Reason.TENANT_BOUNDARY, f"It says it is from {envelope.from_agent}; the token is not."
        )
    if envelope.tenant and envelope.tenant != (skill.tenant if skill else caller.tenant):
        yield Denial(
            Reason.TENANT_BOUNDARY, f"The skill is not offered by {envelope.tenant} to you."
        )
    names = {skill.agent.slug, f"{skill.tenant}/{skill.agent.slug}"} if skill else {OUR_NAME}
    if envelope.audience and envelope.audience.rstrip("/") not in names | _our_names():
        yield Denial(Reason.WRONG_AUDIENCE, f"It is meant for {envelope.audience}, not for us.")
    if envelope.to_agent and envelope.to_agent not in names:
        yield Denial(
            Reason.WRONG_AUDIENCE, f"The skill is not one of the agent {envelope.to_agent}."
        )


def _our_names() -> set[str]:
    return {OUR_NAME, settings.PUBLIC_URL, settings.LIVE_URL}


def _too_late(envelope: Envelope) -> Iterator[Denial]:
    ends = ends_at(envelope)
    if ends is not None and ends <= timezone.now():
        yield Denial(Reason.EXPIRED, "The time that its sender gave it is over.")


def ends_at(envelope: Envelope) -> datetime | None:
    if envelope.timeout_s is None or envelope.sent_at is None:
        return None
    return envelope.sent_at + timedelta(seconds=envelope.timeout_s)


def _of_another_skill(request: Request, envelope: Envelope) -> Iterator[Denial]:
    if envelope.capability and envelope.capability != request.skill_slug:
        yield Denial(
            Reason.UNSUPPORTED_CAPABILITY,
            f"The envelope asks for {envelope.capability}, the message for {request.skill_slug}.",
        )


def _unscoped(request: Request) -> Iterator[Denial]:
    offered = request.skill or request.own
    wanted = offered.required_scope if offered else ""
    if wanted and not covers(lent_scopes(request), wanted):
        yield Denial(Reason.MISSING_SCOPE, f"The skill asks for the scope {wanted!r}.")


def lent_scopes(request: Request) -> frozenset[str]:
    """Scopes come with the token; an envelope can only lend fewer."""
    envelope, lent = request.envelope, request.caller.scopes
    if envelope is not None and envelope.scopes is not None:
        return narrowed(lent, envelope.scopes)
    return lent


def _wrongly_delegated(request: Request, envelope: Envelope) -> Iterator[Denial]:
    parent, depth = request.parent, envelope.delegation_depth or 0
    if parent is None:
        yield Denial(Reason.TENANT_BOUNDARY, "The parent task is not one of yours.")
        return
    if parent.is_final:
        yield Denial(Reason.EXPIRED, "The parent task has ended.")
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


def _looping(request: Request) -> Iterator[Denial]:
    """The skill is at work above already, so that what it asks for would be asked of itself."""
    ancestor: Task | None = request.parent
    while ancestor is not None:
        if request.skill is not None and ancestor.skill_id == request.skill.pk:
            yield Denial(
                Reason.DELEGATION_LOOP, f"{request.skill_slug} is at work on {ancestor.pk} above."
            )
            return
        ancestor = ancestor.parent
