"""Skills, and agents elsewhere whose cards offer some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from django.db.transaction import atomic
from pydantic import AfterValidator, Field

from a2a import remote
from a2a.models import RemoteAgent, Skill
from a2a.submissions import record_skill
from a2a.wire import CAPABILITIES
from approvals.declared.agents import AgentSlug, callable_address
from approvals.declared.kinds import (
    Edits,
    Kind,
    Reference,
    Refused,
    Run,
    Secret,
    Slug,
    Spec,
    set_columns,
    spans,
    tenant_of,
)
from approvals.web.settings.operators import TRIES
from ledger import seals
from ledger.agents import enrolment
from ledger.contracts import json_schemas
from ledger.errors import SchemaUnusable
from ledger.events import ChangeKind
from ledger.foundation.crypto.encryption import SecretUnreadable
from ledger.models import Agent

SAMPLE = "sample: write a skill of it, and an input that the skill takes."
OF_CARD = frozenset({"name", "description", "tags", "input_schema", "output_schema"})


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        json_schemas.check(schema)
    except SchemaUnusable as refusal:
        raise ValueError(refusal.detail) from None
    return _sealable(schema)


def _sealable(value: dict[str, Any]) -> dict[str, Any]:
    if not seals.is_sealable(value):
        raise ValueError("this is not JSON that can be kept")
    return value


Schema = Annotated[dict[str, Any], AfterValidator(_schema)]
Seconds = Annotated[float, Field(gt=0, le=100 * 365 * 86_400)]


class SkillSpec(Spec):
    """``agent`` never changes. Of a skill that a card offers, the card says the first five."""

    agent: AgentSlug
    slug: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,100}$")]
    name: Annotated[str, Field(max_length=200)] = ""
    description: Annotated[str, Field(max_length=10_000)] = ""
    tags: list[Annotated[str, Field(max_length=50)]] = []
    input_schema: Schema = {}
    output_schema: Schema = {}
    max_concurrency: Annotated[int, Field(ge=0, le=2_147_483_647)] | None = None
    timeout_s: Seconds = 86_400.0
    lease_s: Seconds = 60.0
    question_ttl_s: Seconds = 600.0
    retention_s: Seconds | None = None
    is_retry_safe: bool = False
    max_attempts: Annotated[int, Field(ge=0, le=32_767)] = 3
    required_scope: Annotated[str, Field(max_length=50)] = ""
    open_to: list[Slug] = []
    requires_envelope: bool = False
    is_active: bool = True

    def needs(self) -> Iterable[Reference]:
        yield "agent|remote_agent", self.agent


class Skills(Kind[SkillSpec]):
    name = "skill"
    spec = SkillSpec
    comes_with_another = True
    removal = "is switched off"

    def present(self, tenant: str) -> Iterator[SkillSpec]:
        for row in _skills(tenant).order_by("slug"):
            names = SkillSpec.model_fields.keys() - {"tenant", "agent", "slug"}
            names -= OF_CARD if _is_of_card(row) else set()
            yield SkillSpec.model_construct(
                tenant=tenant, agent=row.agent.slug, slug=row.slug, **spans(row, names)
            )

    def make(self, wanted: SkillSpec, run: Run) -> None:
        """Raises ``Refused, ValidationError``."""
        agent = Agent.objects.get(tenant=wanted.tenant, slug=wanted.agent)
        if hasattr(agent, "remote"):
            raise Refused(f"The card of {agent.slug} offers no skill {wanted.slug}.")
        row = Skill(agent=agent, slug=wanted.slug)
        columns = {**_columns(wanted), "name": wanted.name or wanted.slug}
        edits = set_columns(row, columns)
        record_skill(row, ChangeKind.SKILL_ADDED, edits, **run.origin)

    def change(self, before: SkillSpec, wanted: SkillSpec, edits: Edits, run: Run) -> None:
        """Raises ``Refused, ValidationError``."""
        row = _skills(wanted.tenant).select_for_update(of=("self",)).get(slug=wanted.slug)
        if "agent" in edits:
            raise Refused(f"It is a skill of {before.agent}, for good.")
        if _is_of_card(row) and OF_CARD & edits.keys():
            raise Refused(f"The card of {row.agent.slug} says what its skills are.")
        columns = {name: value for name, value in _columns(wanted).items() if _named(name, edits)}
        sealed = set_columns(row, columns)
        record_skill(row, ChangeKind.SKILL_CHANGED, sealed, **run.origin)

    def remove(self, before: SkillSpec, run: Run) -> None:
        row = _skills(before.tenant).select_for_update(of=("self",)).get(slug=before.slug)
        edits = set_columns(row, {"is_active": False})
        record_skill(row, ChangeKind.SKILL_CHANGED, edits, **run.origin)

    def is_removable(self, before: SkillSpec) -> bool:
        """Those of a card, which have no name here, come and go with it."""
        return before.is_active and bool(before.name)


def _skills(tenant: str) -> Any:
    rows = Skill.objects.filter(tenant=tenant).select_related("agent__remote")
    return rows.exclude(agent__slug__startswith=TRIES)


def _is_of_card(row: Skill) -> bool:
    return hasattr(row.agent, "remote")


def _named(column: str, edits: Edits) -> bool:
    return column in edits or f"{column}_s" in edits


def _columns(wanted: SkillSpec) -> dict[str, Any]:
    return wanted.columns(SkillSpec.model_fields.keys() - {"tenant", "agent", "slug"})


# --- agents elsewhere -----------------------------------------------------------------------------


def _known(capabilities: list[str]) -> list[str]:
    if unknown := sorted(set(capabilities) - set(CAPABILITIES)):
        raise ValueError(f"{unknown[0]!r:.50} is none of {', '.join(CAPABILITIES)}")
    return capabilities


class RemoteSpec(Spec):
    """``card`` is the SHA-256 of the card that somebody has looked at: another is refused."""

    slug: AgentSlug
    url: Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(callable_address)]
    token: Secret | None = None
    required_capabilities: Annotated[list[str], AfterValidator(_known)] = []
    wants_push: bool = False
    sample: Annotated[dict[str, Any], AfterValidator(_sealable)] = {}
    card: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = ""
    is_active: bool = True


class RemoteAgents(Kind[RemoteSpec]):
    name = "remote_agent"
    spec = RemoteSpec
    reaches_out = True
    removal = "is switched off"

    def present(self, tenant: str) -> Iterator[RemoteSpec]:
        rows = RemoteAgent.objects.filter(agent__tenant=tenant).defer("token")
        for row in rows.select_related("agent", "watched").order_by("agent__slug"):
            names = ("url", "required_capabilities", "wants_push", "sample")
            columns: dict[str, Any] = {name: getattr(row, name) for name in names}
            yield RemoteSpec.model_construct(
                tenant=tenant,
                slug=row.agent.slug,
                card=remote.fingerprint(row.card),
                is_active=row.agent.is_active,
                **columns,
            )

    def edits(self, before: RemoteSpec, wanted: RemoteSpec) -> Edits:
        """A card that is left out is the one that was accepted."""
        edits = super().edits(before, wanted)
        return edits if wanted.card else {n: each for n, each in edits.items() if n != "card"}

    def make(self, wanted: RemoteSpec, run: Run) -> None:
        """Raises ``Refused, CardRefused``."""
        token = wanted.token.text if wanted.token else ""
        self._register(wanted, token, wanted.card, "", run)
        before = self.find(wanted.tenant, wanted.key)
        assert before is not None
        self._set_terms(wanted, super().edits(before, wanted), run)

    def change(self, before: RemoteSpec, wanted: RemoteSpec, edits: Edits, run: Run) -> None:
        """Raises ``Refused, CardRefused``."""
        if edits.keys() & {"url", "token", "required_capabilities", "card"}:
            row = _remote(wanted)
            token = wanted.token.text if wanted.token else _kept_token(row, wanted.url)
            card = wanted.card or before.card
            self._register(wanted, token, card, remote.standing(row), run)
        self._set_terms(wanted, edits, run)

    def _register(
        self, wanted: RemoteSpec, token: str, card: str, in_place_of: str, run: Run
    ) -> None:
        read = remote.read_card(wanted.url, token, wanted.required_capabilities)
        offered = remote.skills_of(read.parsed)
        if read.sha256 != card:
            raise Refused(
                f"Its card offers {', '.join(offered) or 'no skill'}, and is {read.sha256}: look "
                "at it, and if it is as you want it, write that as card."
            )
        if wanted.sample and not _is_taken(wanted.sample, offered):
            raise Refused(SAMPLE)
        remote.register(
            tenant_of(wanted),
            slug=wanted.slug,
            url=wanted.url,
            token=token,
            required=wanted.required_capabilities,
            seen=card,
            in_place_of=in_place_of,
            sealed_by=(run.by, run.via),
            wants_push=wanted.wants_push,
        )

    def _set_terms(self, wanted: RemoteSpec, edits: Edits, run: Run) -> None:
        row = _remote(wanted)
        if wanted.sample and not remote.is_sample(row, wanted.sample):
            raise Refused(SAMPLE)
        with atomic():
            names = edits.keys() & {"wants_push", "sample"}
            if sealed := set_columns(row, wanted.columns(names)):
                remote.was_changed(row, sealed, **run.origin)
            if "is_active" in edits:
                self._switch(row.agent, wanted.is_active, run)

    def _switch(self, agent: Agent, value: bool, run: Run) -> None:
        with atomic():
            edits = set_columns(agent, {"is_active": value})
            enrolment.was_changed(agent, edits, **run.origin)

    def remove(self, before: RemoteSpec, run: Run) -> None:
        self._switch(_remote(before).agent, False, run)

    def is_removable(self, before: RemoteSpec) -> bool:
        return before.is_active

    def is_kept(self, wanted: RemoteSpec, name: str, secret: str) -> bool:
        try:
            return str(_remote(wanted).token) == secret
        except SecretUnreadable:
            return False


def _remote(spec: RemoteSpec) -> RemoteAgent:
    rows = RemoteAgent.objects.defer("token").select_related("agent", "watched")
    return rows.get(agent__tenant=spec.tenant, agent__slug=spec.slug)


def _is_taken(sample: dict[str, Any], offered: dict[str, Any]) -> bool:
    skill = offered.get(str(sample.get("skill", "")))
    if skill is None or set(sample) != {"skill", "input"}:
        return False
    return not json_schemas.misfits(skill.input_schema, sample["input"])


def _kept_token(row: RemoteAgent, url: str) -> str:
    """Raises ``Refused`` where it would go to another address than the one that it is for."""
    try:
        token = str(row.token)
    except SecretUnreadable:
        raise Refused("Its token can no longer be read: name it.") from None
    if token and row.url != url:
        raise Refused("Its token is for the address before: name the one for this address.")
    return token
