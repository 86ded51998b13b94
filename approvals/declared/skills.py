"""Skills, and agents elsewhere whose cards offer some."""

from __future__ import annotations

from collections.abc import Iterable
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
    Reference,
    Refused,
    Run,
    Secret,
    Slug,
    Spec,
    checked,
    set_columns,
)
from approvals.web.settings.operators import TRIES
from ledger import seals
from ledger.agents import enrolment
from ledger.contracts import json_schemas
from ledger.events import ChangeKind
from ledger.models import Agent

SAMPLE = "sample: write a skill of it, and an input that the skill takes."
OF_CARD = frozenset({"name", "description", "tags", "input_schema", "output_schema"})


def _sealable(value: dict[str, Any]) -> dict[str, Any]:
    if not seals.is_sealable(value):
        raise ValueError("this is not JSON that can be kept")
    return value


Sealable = Annotated[dict[str, Any], AfterValidator(_sealable)]
Schema = Annotated[Sealable, checked(json_schemas.check)]
Seconds = Annotated[float, Field(gt=0, le=100 * 365 * 86_400)]


class SkillSpec(Spec):
    """``agent`` never changes. Of a skill that a card offers, the card says what is ``OF_CARD``."""

    kind = "skill"
    paths = {"tenant": "tenant", "agent": "agent.slug"}
    comes_with_another = True
    removal = "is switched off"

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

    @classmethod
    def rows(cls, tenant: str) -> Any:
        rows = Skill.objects.filter(tenant=tenant).select_related("agent__remote")
        return rows.exclude(agent__slug__startswith=TRIES).order_by("slug")

    @classmethod
    def of(cls, row: Any, **others: Any) -> SkillSpec:
        fields = cls.model_fields
        by_card = OF_CARD if hasattr(row.agent, "remote") else ()
        return super().of(row, **{name: fields[name].default for name in by_card})

    def facts(self) -> dict[str, Any]:
        """Its slug is its name where it has none."""
        facts = super().facts()
        return facts | {"name": "" if self.name == self.slug else self.name}

    def needs(self) -> Iterable[Reference]:
        yield "agent|remote_agent", self.agent

    def make(self, run: Run) -> None:
        """Raises ``Refused, ValidationError``."""
        agent = Agent.objects.get(tenant=self.tenant, slug=self.agent)
        if hasattr(agent, "remote"):
            raise Refused(f"The card of {agent.slug} offers no skill {self.slug}.")
        row = Skill(agent=agent, slug=self.slug)
        columns = self.columns(self.facts().keys() - {"agent", "slug"})
        edits = set_columns(row, columns | {"name": self.name or self.slug})
        record_skill(row, ChangeKind.SKILL_ADDED, edits, **run.origin)

    def change(self, before: SkillSpec, edits: Edits, run: Run) -> None:
        """Raises ``Refused, ValidationError``."""
        row = self.rows(self.tenant).select_for_update(of=("self",)).get(slug=self.slug)
        if "agent" in edits:
            raise Refused(f"It is a skill of {before.agent}, for good.")
        if hasattr(row.agent, "remote") and OF_CARD & edits.keys():
            raise Refused(f"The card of {row.agent.slug} says what its skills are.")
        name = {"name": self.name or self.slug} if "name" in edits else {}
        sealed = set_columns(row, self.columns(edits) | name)
        record_skill(row, ChangeKind.SKILL_CHANGED, sealed, **run.origin)

    def is_removable(self) -> bool:
        """Those of a card, which have no name here, come and go with it."""
        return self.is_active and bool(self.name)


# --- agents elsewhere -----------------------------------------------------------------------------


def _known(capabilities: list[str]) -> list[str]:
    if unknown := sorted(set(capabilities) - set(CAPABILITIES)):
        raise ValueError(f"{unknown[0]!r:.50} is none of {', '.join(CAPABILITIES)}")
    return capabilities


class RemoteSpec(Spec):
    """``card`` is the SHA-256 of the card that somebody has looked at: another is refused."""

    kind = "remote_agent"
    paths = {"tenant": "agent.tenant_id", "slug": "agent.slug", "is_active": "agent.is_active"}
    stays = frozenset({"card"})
    reaches_out = True
    removal = "is switched off"

    slug: AgentSlug
    url: Annotated[str, Field(min_length=1, max_length=2_000), callable_address]
    token: Secret | None = None
    required_capabilities: Annotated[list[str], AfterValidator(_known)] = []
    wants_push: bool = False
    sample: Sealable = {}
    card: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    is_active: bool = True

    @classmethod
    def rows(cls, tenant: str) -> Any:
        rows = RemoteAgent.objects.filter(agent__tenant=tenant).defer("token")
        return rows.select_related("agent", "watched").order_by("agent__slug")

    @classmethod
    def of(cls, row: Any, **others: Any) -> RemoteSpec:
        return super().of(row, card=remote.fingerprint(row.card))

    def make(self, run: Run) -> None:
        self._register(self.token.text if self.token else "", self.card, "", run)
        if not self.is_active:
            self._switch(run)

    def change(self, before: RemoteSpec, edits: Edits, run: Run) -> None:
        row = self.row()
        if edits.keys() & {"url", "token", "required_capabilities", "card"}:
            token = self.token.text if self.token else self._kept_token(row)
            self._register(token, self.card or before.card, remote.standing(row), run)
        elif names := edits.keys() & {"wants_push", "sample"}:
            if self.sample and not remote.is_sample(row, self.sample):
                raise Refused(SAMPLE)
            with atomic():
                sealed = set_columns(row, self.columns(names))
                remote.was_changed(row, sealed, **run.origin)
        if "is_active" in edits:
            self._switch(run)

    def _register(self, token: str, card: str | None, in_place_of: str, run: Run) -> None:
        """Raises ``Refused, CardRefused``."""
        read = remote.read_card(self.url, token, self.required_capabilities)
        offered = remote.skills_of(read.parsed)
        if read.sha256 != card:
            raise Refused(
                f"Its card offers {', '.join(offered) or 'no skill'}, and is {read.sha256}: look "
                "at it, and if it is as you want it, write that as card."
            )
        if self.sample and not _is_taken(self.sample, offered):
            raise Refused(SAMPLE)
        remote.register(
            self.tenant_row,
            slug=self.slug,
            url=self.url,
            token=token,
            required=self.required_capabilities,
            seen=card,
            in_place_of=in_place_of,
            sealed_by=(run.by, run.via),
            **self.columns(["wants_push", "sample"]),
        )

    def _switch(self, run: Run) -> None:
        with atomic():
            agent = self.row().agent
            edits = set_columns(agent, {"is_active": self.is_active})
            enrolment.was_changed(agent, edits, **run.origin)

    def _kept_token(self, row: RemoteAgent) -> str:
        """Raises ``Refused`` where it would go to another address than the one that it is for."""
        token = self.kept("token")
        if token is None:
            raise Refused("Its token can no longer be read: name it.")
        if token and row.url != self.url:
            raise Refused("Its token is for the address before: name the one for this address.")
        return token


def _is_taken(sample: dict[str, Any], offered: dict[str, Any]) -> bool:
    skill = offered.get(str(sample.get("skill", "")))
    if skill is None or set(sample) != {"skill", "input"}:
        return False
    return not json_schemas.misfits(skill.input_schema, sample["input"])
