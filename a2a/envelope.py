"""The envelope: who sends what to whom, on whose behalf. Checked before any work, fail-closed.

Travels as A2A metadata under ``EXTENSION``, or as ``envelope`` in the plain dialect. Every request
may carry one; those that cross tenants or are delegated must. Unknown members are ignored, so that
a sender of a later 1.x is understood; another major version is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from a2a import json_schemas
from a2a.errors import Reason
from a2a.models import Skill, Task
from a2a.own_skills import OwnSkill
from ledger.callers import Caller
from ledger.models import Scope

EXTENSION = "urn:assent:a2a:envelope:1"
VERSION = "1.0"
OUR_NAME = "assent"

Name = Annotated[str, Field(max_length=200)]


class Envelope(BaseModel):
    """Version 1. Times are RFC 3339, ``timeout_s`` is in seconds from ``sent_at``."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    version: Annotated[str, Field(pattern=r"^1\.\d+$", max_length=10)] = VERSION
    trace_id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    message_id: Name | None = None
    idempotency_key: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    from_agent: Name | None = Field(None, alias="from", description="Slug of the sending agent.")
    to_agent: Name | None = Field(None, alias="to", description="Slug of the agent addressed.")
    tenant: Name | None = Field(None, description="Tenant of the agent addressed.")
    capability: Name | None = Field(None, description="Id of the skill.")
    audience: Name | None = Field(None, description="“assent”, or the address of this Assent.")
    scopes: Annotated[list[Name], Field(max_length=50)] | None = Field(
        None, description="What the sender lends of its token's scopes; never more than these."
    )
    sent_at: datetime | None = None
    timeout_s: Annotated[float, Field(gt=0, le=31_536_000)] | None = None
    delegation_depth: Annotated[int, Field(ge=0, le=1000)] | None = None
    parent_task: UUID | None = None

    @property
    def is_delegated(self) -> bool:
        return self.parent_task is not None or bool(self.delegation_depth)


# What a request that crosses tenants or is delegated cannot do without.
CORRELATION = (
    "trace_id", "message_id", "idempotency_key", "from_agent", "to_agent", "tenant", "capability",
    "audience", "scopes", "timeout_s", "delegation_depth",
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


def read(said: Any) -> Envelope | Denial | None:
    """The envelope of a request, if it has one that can be read."""
    if said is None:
        return None
    try:
        return Envelope.model_validate(said)
    except ValidationError as refusal:
        errors = [
            {"field": ".".join(map(str, error["loc"])), "message": error["msg"]}
            for error in refusal.errors(include_url=False)[:20]
        ]
        return Denial(
            Reason.SCHEMA_MISMATCH, "The envelope does not fit its published schema.", errors
        )


def denial_of(request: Request) -> Denial | None:
    """The first thing that is wrong with a request, or nothing."""
    return next(_denials(request), None)


def _denials(request: Request) -> Iterator[Denial]:
    caller, envelope = request.caller, request.envelope
    if Scope.SUBMIT not in caller.scopes:
        yield Denial(Reason.MISSING_SCOPE, "The token lacks the scope 'submit'.")
    crosses = request.skill is not None and request.skill.tenant != caller.tenant
    if crosses or (envelope is not None and envelope.is_delegated):
        yield from _missing(envelope)
    if envelope is not None:
        yield from _misdirected(request, envelope)
        yield from _too_late(envelope)
    yield from _unsupported(request)
    if request.skill is not None and request.skill.drift:
        yield Denial(Reason.CARD_DRIFTED, f"The agent's card has changed: {request.skill.drift}")
    yield from _unscoped(request)
    if envelope is not None and envelope.is_delegated:
        yield from _wrongly_delegated(request, envelope)
    offered = request.skill or request.own
    schema = offered.input_schema if offered else {}
    if errors := json_schemas.misfits(schema, request.input):
        yield Denial(Reason.SCHEMA_MISMATCH, "The input does not fit the skill's schema.", errors)


def _missing(envelope: Envelope | None) -> Iterator[Denial]:
    names = [name for name in CORRELATION if envelope is None or getattr(envelope, name) is None]
    if envelope is not None and envelope.delegation_depth and envelope.parent_task is None:
        names.append("parent_task")
    if names:
        said = ", ".join(name.removesuffix("_agent") for name in names)
        yield Denial(
            Reason.MISSING_CORRELATION_FIELDS,
            f"A request that crosses tenants or is delegated carries an envelope with {said}.",
        )


def _misdirected(request: Request, envelope: Envelope) -> Iterator[Denial]:
    caller = request.caller
    if envelope.audience and envelope.audience.rstrip("/") not in _our_names():
        yield Denial(Reason.WRONG_AUDIENCE, f"It is meant for {envelope.audience}, not for us.")
    slug = caller.principal.id.partition("/")[2]
    if envelope.from_agent and envelope.from_agent not in {slug, caller.principal.id}:
        yield Denial(
            Reason.TENANT_BOUNDARY, f"It says it is from {envelope.from_agent}; the token is not."
        )
    skill = request.skill
    if envelope.tenant and envelope.tenant != (skill.tenant if skill else caller.tenant):
        yield Denial(
            Reason.TENANT_BOUNDARY, f"The skill is not offered by {envelope.tenant} to you."
        )
    names = {skill.agent.slug, f"{skill.tenant}/{skill.agent.slug}"} if skill else {OUR_NAME}
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
    sent = envelope.sent_at
    aware = sent if timezone.is_aware(sent) else timezone.make_aware(sent)
    return aware + timedelta(seconds=envelope.timeout_s)


def _unsupported(request: Request) -> Iterator[Denial]:
    envelope = request.envelope
    if request.skill is None and request.own is None:
        what = f"no skill {request.skill_slug!r}" if request.skill_slug else "no skill named"
        yield Denial(
            Reason.UNSUPPORTED_CAPABILITY,
            f"There is {what} for you. The extended agent card lists those there are.",
        )
    elif envelope and envelope.capability and envelope.capability != request.skill_slug:
        yield Denial(
            Reason.UNSUPPORTED_CAPABILITY,
            f"The envelope asks for {envelope.capability}, the message for {request.skill_slug}.",
        )


def _unscoped(request: Request) -> Iterator[Denial]:
    """Scopes come with the token; an envelope can only lend fewer."""
    envelope, offered = request.envelope, request.skill or request.own
    lent = request.caller.scopes
    if envelope is not None and envelope.scopes is not None:
        lent = lent & frozenset(envelope.scopes)
    wanted = offered.required_scope if offered else ""
    if wanted and wanted not in lent:
        yield Denial(Reason.MISSING_SCOPE, f"The skill asks for the scope {wanted!r}.")


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
    ancestor: Task | None = parent
    while ancestor is not None:
        if request.skill is not None and ancestor.skill_id == request.skill.pk:
            yield Denial(
                Reason.DELEGATION_LOOP, f"{request.skill_slug} is at work on {ancestor.pk} above."
            )
            return
        ancestor = ancestor.parent
