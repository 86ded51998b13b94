"""Git buses: the repository, its keys, who may ask there, and the methods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from django.conf import settings
from django.db.models.functions import Now
from pydantic import AfterValidator, Field, model_validator

from a2a.doors.git_bus import changes
from a2a.doors.git_bus.changes import BusChange
from a2a.doors.git_bus.models import BusMethod, GitBus
from a2a.doors.git_bus.repository import access
from a2a.models import Skill
from approvals.declared.agents import AgentSlug
from approvals.declared.kinds import (
    NOT_SHOWN,
    Edits,
    Reference,
    Refused,
    Run,
    Secret,
    Spec,
    Strict,
    checked,
    set_columns,
)
from approvals.declared.skills import Seconds
from ledger.events import edits_between
from ledger.models import Agent


class MethodSpec(Strict):
    method: Annotated[str, Field(min_length=1, max_length=200)]
    skill: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,100}$")]
    is_ours: bool = True


def _each_once(methods: list[MethodSpec]) -> list[MethodSpec]:
    by_name = {each.method: each for each in methods}
    if len(by_name) < len(methods):
        raise ValueError("each has one line")
    return [by_name[name] for name in sorted(by_name)]


Key = Annotated[Secret | None, checked(lambda key: access.check_key(key.text) if key else None)]


class BusSpec(Spec):
    """``agent`` stands for the other side. A deploy key and a signing key that are not named are
    made with the bus; their private halves stay here."""

    kind = "git_bus"
    identity = ("agent",)
    paths = {"tenant": "agent.tenant_id", "agent": "agent.slug"}
    removal = "is switched off"

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
    deploy_key: Key = None
    signing_key: Key = None
    password: Secret | None = None
    methods: Annotated[list[MethodSpec], AfterValidator(_each_once)] = []

    @model_validator(mode="after")
    def _can_be_reached(self) -> BusSpec:
        access.check_address(self.url, allow_local=settings.GIT_BUS_LOCAL)
        access.check_known_hosts(self.known_hosts)
        access.check_signers(self.allowed_signers)
        if self.is_over_ssh and not self.known_hosts.strip():
            raise ValueError("known_hosts: over SSH the server has to prove who it is")
        return self

    @property
    def is_over_ssh(self) -> bool:
        return not self.url.startswith(("https://", "/", "file://"))

    @classmethod
    def rows(cls, tenant: str) -> Any:
        rows = GitBus.objects.without_secrets().filter(agent__tenant=tenant)
        return rows.select_related("agent__tenant").order_by("agent__slug")

    @classmethod
    def of(cls, row: Any, **others: Any) -> BusSpec:
        kept = row.methods.values("method", "skill", "is_ours")
        return super().of(row, methods=_each_once([MethodSpec(**each) for each in kept]))

    def needs(self) -> Iterable[Reference]:
        yield "agent", self.agent
        yield from (("skill", each.skill) for each in self.methods)

    def make(self, run: Run) -> None:
        """Raises ``Refused, ValidationError``."""
        agent = Agent.objects.get(tenant=self.tenant, slug=self.agent)
        made = {"signing_key": access.new_key()}
        if self.is_over_ssh:
            made["deploy_key"] = access.new_key()
        given = {name: secret.text for name, secret in self.secrets().items()}
        row = GitBus(agent=agent, **{**made, **given})
        sealed = set_columns(row, self.columns(self.facts().keys() - {"agent", "methods"}))
        sealed |= self._set_methods(row) | _not_shown(given)
        changes.record(row, BusChange.ADDED, sealed, **run.origin)
        if "deploy_key" in made.keys() - given.keys():
            line = access.public_line(made["deploy_key"], f"assent-{agent.slug}")
            run.made.append((f"public deploy key of {row}, for the git host", line))

    def change(self, before: BusSpec, edits: Edits, run: Run) -> None:
        """Only what differs: the process of the buses writes other columns meanwhile."""
        row = self.row()
        secrets = {name: each.text for name, each in self.secrets().items() if name in edits}
        names = edits.keys() - secrets.keys() - {"methods"}
        sealed = _not_shown(secrets) | set_columns(row, self.columns(names))
        if self.password is None and access.server_of(before.url) != access.server_of(self.url):
            secrets["password"] = ""  # another server must not get it
            sealed["new_password"] = ["not shown", ""]
        GitBus.objects.filter(pk=row.pk).update(look_at=Now(), **secrets)
        if "methods" in edits:
            sealed |= self._set_methods(row)
        changes.record(row, BusChange.CHANGED, sealed, **run.origin)

    def _set_methods(self, row: GitBus) -> Edits:
        """Raises ``Refused``: a method is a skill of another agent, or one of those done there."""
        had = changes.methods_in_words(row)
        for each in self.methods:
            skill = Skill.objects.get(tenant=self.tenant, slug=each.skill)
            if each.is_ours == (skill.agent_id == row.agent_id):
                whose = "is done there: is_ours is false" if each.is_ours else "is done here"
                raise Refused(f"{each.method}: the skill {each.skill} {whose}.")
            terms = {"skill": each.skill, "is_ours": each.is_ours}
            BusMethod.objects.update_or_create(bus=row, method=each.method, defaults=terms)
        names = [each.method for each in self.methods]
        BusMethod.objects.filter(bus=row).exclude(method__in=names).delete()
        return edits_between({"methods": had}, {"methods": changes.methods_in_words(row)})


def _not_shown(secrets: Iterable[str]) -> Edits:
    return {f"new_{name}": NOT_SHOWN for name in secrets}
