"""Git buses: the repository, its keys, who may ask there, and the methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from django.conf import settings
from django.db.models.functions import Now
from pydantic import Field, field_validator, model_validator

from a2a.doors.git_bus import changes
from a2a.doors.git_bus.changes import BusChange
from a2a.doors.git_bus.models import BusMethod, GitBus
from a2a.doors.git_bus.repository import access
from a2a.models import Skill
from approvals.declared.agents import AgentSlug
from approvals.declared.kinds import (
    NOT_SHOWN,
    Edits,
    Kind,
    Reference,
    Refused,
    Run,
    Secret,
    Spec,
    Strict,
    set_columns,
    spans,
)
from approvals.declared.skills import Seconds
from ledger.events import edits_between
from ledger.foundation.crypto.encryption import SecretUnreadable
from ledger.models import Agent

SECRETS = ("deploy_key", "signing_key", "password")
COLUMNS = (
    *("participant", "url", "branch", "known_hosts", "strangers", "allowed_signers"),
    *("poll_every_s", "stuck_after_s", "is_active"),
)


class MethodSpec(Strict):
    method: Annotated[str, Field(min_length=1, max_length=200)]
    skill: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,100}$")]
    is_ours: bool = True


class BusSpec(Spec):
    """``agent`` stands for the other side. A deploy key and a signing key that are not named are
    made with the bus; their private halves stay here."""

    identity = ("agent",)

    agent: AgentSlug
    participant: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    url: Annotated[str, Field(max_length=500)]
    branch: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$")] = "main"
    known_hosts: str = ""
    strangers: Literal["accept", "ask", "refuse"] = "ask"
    allowed_signers: str = ""
    poll_every_s: Annotated[Seconds, Field(ge=1)] = 30.0
    stuck_after_s: Seconds = 3_600.0
    is_active: bool = True
    deploy_key: Secret | None = None
    signing_key: Secret | None = None
    password: Secret | None = None
    methods: list[MethodSpec] = []

    @field_validator("deploy_key", "signing_key")
    @classmethod
    def _is_key(cls, key: Secret | None) -> Secret | None:
        if key is not None:
            access.check_key(key.text)
        return key

    @model_validator(mode="after")
    def _can_be_reached(self) -> BusSpec:
        access.check_address(self.url, allow_local=settings.GIT_BUS_LOCAL)
        access.check_known_hosts(self.known_hosts)
        access.check_signers(self.allowed_signers)
        if self.is_over_ssh and not self.known_hosts.strip():
            raise ValueError("known_hosts: over SSH the server has to prove who it is")
        names = [each.method for each in self.methods]
        if len(set(names)) < len(names):
            raise ValueError("methods: each has one line")
        return self

    @property
    def is_over_ssh(self) -> bool:
        return not self.url.startswith(("https://", "/", "file://"))

    def facts(self) -> dict[str, Any]:
        facts = super().facts()
        return {**facts, "methods": sorted(facts["methods"], key=lambda each: str(each["method"]))}

    def needs(self) -> Iterable[Reference]:
        yield "agent", self.agent
        yield from (("skill", each.skill) for each in self.methods)


class Buses(Kind[BusSpec]):
    name = "git_bus"
    spec = BusSpec
    removal = "is switched off"

    def present(self, tenant: str) -> Iterator[BusSpec]:
        rows = GitBus.objects.without_secrets().filter(agent__tenant=tenant)
        for row in rows.select_related("agent").order_by("agent__slug"):
            methods = BusMethod.objects.filter(bus=row).order_by("method")
            yield BusSpec.model_construct(
                tenant=tenant,
                agent=row.agent.slug,
                methods=[
                    MethodSpec(method=each.method, skill=each.skill, is_ours=each.is_ours)
                    for each in methods
                ],
                **spans(row, COLUMNS),
            )

    def make(self, wanted: BusSpec, run: Run) -> None:
        """Raises ``Refused, ValidationError``."""
        agent = Agent.objects.get(tenant=wanted.tenant, slug=wanted.agent)
        made = {"signing_key": access.new_key()}
        if wanted.is_over_ssh:
            made["deploy_key"] = access.new_key()
        given = {name: secret.text for name, secret in wanted.secrets().items()}
        row = GitBus(agent=agent, **{**made, **given})
        sealed = set_columns(row, wanted.columns(COLUMNS))
        _set_methods(row, wanted)
        sealed |= edits_between({"methods": []}, {"methods": changes.methods_in_words(row)})
        changes.record(row, BusChange.ADDED, sealed | _not_shown(given), **run.origin)
        if "deploy_key" in made.keys() - given.keys():
            line = access.public_line(made["deploy_key"], f"assent-{agent.slug}")
            run.made.append((f"public deploy key of {row}, for the git host", line))

    def change(self, before: BusSpec, wanted: BusSpec, edits: Edits, run: Run) -> None:
        """Only what differs: the process of the buses writes other columns meanwhile."""
        row = _bus(wanted)
        had = changes.methods_in_words(row)
        names = [name for name in COLUMNS if name in edits]
        secrets = {name: each.text for name, each in wanted.secrets().items() if name in edits}
        sealed = _not_shown(secrets) | set_columns(row, wanted.columns(names))
        if wanted.password is None and access.server_of(before.url) != access.server_of(wanted.url):
            secrets["password"] = ""  # another server must not get it
            sealed["new_password"] = ["not shown", ""]
        GitBus.objects.filter(pk=row.pk).update(look_at=Now(), **secrets)
        _set_methods(row, wanted)
        sealed |= edits_between({"methods": had}, {"methods": changes.methods_in_words(row)})
        changes.record(row, BusChange.CHANGED, sealed, **run.origin)

    def remove(self, before: BusSpec, run: Run) -> None:
        row = _bus(before)
        changes.record(row, BusChange.CHANGED, set_columns(row, {"is_active": False}), **run.origin)

    def is_removable(self, before: BusSpec) -> bool:
        return before.is_active

    def is_kept(self, wanted: BusSpec, name: str, secret: str) -> bool:
        try:
            return str(getattr(_bus(wanted), name)) == secret
        except SecretUnreadable:
            return False


def _bus(spec: BusSpec) -> GitBus:
    rows = GitBus.objects.without_secrets().select_related("agent__tenant")
    return rows.get(agent__tenant=spec.tenant, agent__slug=spec.agent)


def _not_shown(secrets: Iterable[str]) -> Edits:
    return {f"new_{name}": NOT_SHOWN for name in secrets}


def _set_methods(row: GitBus, wanted: BusSpec) -> None:
    """Raises ``Refused``: a method is a skill of another agent, or one of those done there."""
    for each in wanted.methods:
        skill = Skill.objects.get(tenant=wanted.tenant, slug=each.skill)
        if each.is_ours == (skill.agent_id == row.agent_id):
            whose = "is done there: is_ours is false" if each.is_ours else "is done here"
            raise Refused(f"{each.method}: the skill {each.skill} {whose}.")
        terms = {"skill": each.skill, "is_ours": each.is_ours}
        BusMethod.objects.update_or_create(bus=row, method=each.method, defaults=terms)
    names = [each.method for each in wanted.methods]
    BusMethod.objects.filter(bus=row).exclude(method__in=names).delete()
