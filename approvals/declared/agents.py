"""Agents of a tenant, the tokens with which they come, and owners of tools who are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any

from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from pydantic import AfterValidator, Field, model_validator

from approvals.declared.kinds import (
    Edits,
    Moment,
    Reference,
    Run,
    Secret,
    Slug,
    Spec,
    checked,
    set_columns,
)
from approvals.declared.people import person_named, usernames
from approvals.declared.tenants import Limits, ToolName, flat, tools_needed
from approvals.people import principal_of
from approvals.web.settings.operators import TRIES
from ledger.agents import ONE_TOOL, enrolment
from ledger.delivery.webhooks import form_choices
from ledger.foundation import http_out
from ledger.foundation.crypto import standard_webhooks
from ledger.models import Agent, AgentToken, Owner, Scope
from ledger.principals import USERS


def _no_try(slug: str) -> str:
    if slug.startswith(TRIES):
        raise ValueError("names that begin so are for trying tools: choose another")
    return slug


def _offered(form: str) -> str:
    offered = dict(form_choices())
    if form not in offered:
        raise ValueError(f"it is none of {', '.join(name or 'empty' for name in offered)}")
    return form


callable_address = checked(lambda url: http_out.parse(url) if url else None)
AgentSlug = Annotated[Slug, AfterValidator(_no_try)]
Address = Annotated[str, Field(max_length=200), callable_address]
SigningSecret = Annotated[
    Secret | None,
    checked(lambda secret: standard_webhooks.check_secret(secret.text) if secret else None),
]


class AgentSpec(Spec):
    """Without those elsewhere, whose cards say what they are, and those by which people try."""

    kind = "agent"
    removal = "is switched off"

    slug: AgentSlug
    name: Annotated[str, Field(min_length=1, max_length=200)]
    is_active: bool = True
    tools: list[ToolName] = []
    kept_by: Annotated[str, Field(max_length=150)] = ""
    review_percent: Annotated[int, Field(ge=0, le=100)] = 10
    webhook_url: Address = ""
    webhook_form: Annotated[str, AfterValidator(_offered)] = ""
    webhook_secret: SigningSecret = None
    limits: Limits = {}

    @classmethod
    def rows(cls, tenant: str) -> Any:
        rows = Agent.objects.filter(tenant=tenant, remote=None).exclude(slug__startswith=TRIES)
        return rows.defer("webhook_secret").order_by("slug")

    @classmethod
    def present(cls, tenant: str) -> Iterable[AgentSpec]:
        names = usernames()
        rows = cls.rows(tenant)
        return (cls.of(row, kept_by=names.get(row.kept_by, row.kept_by)) for row in rows)

    def needs(self) -> Iterable[Reference]:
        yield from tools_needed(self.tools)
        if self.kept_by and not self.kept_by.startswith(USERS):
            yield "person", self.kept_by

    def make(self, run: Run) -> None:
        """Raises ``Refused`` where it is an agent elsewhere."""
        enrolment.agent_named(self.tenant_row, self.slug, self.name, **run.origin)
        self.bring_in_line(run)

    def change(self, before: AgentSpec, edits: Edits, run: Run) -> None:
        row = Agent.objects.select_for_update().get(tenant=self.tenant, slug=self.slug)
        columns = self.columns(edits.keys() - {"webhook_secret"})
        if self.kept_by and "kept_by" in columns:
            columns["kept_by"] = str(principal_of(person_named(self.tenant, self.kept_by)))
        enrolment.was_changed(row, flat(set_columns(row, columns)), **run.origin)
        if self.webhook_secret and "webhook_secret" in edits:
            enrolment.renew_secret(row, secret=self.webhook_secret.text, **run.origin)
        elif self.webhook_url and "webhook_url" in edits and not self.kept("webhook_secret"):
            enrolment.renew_secret(row, **run.origin)
            run.made.append((f"webhook_secret of {row.principal}", str(row.webhook_secret)))


# --- tokens ---------------------------------------------------------------------------------------

ScopeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9:._-]{1,120}$")]


class TokenSpec(Spec):
    """Tokens have no names: those of an agent with the same rights and the same end are copies of
    one document, so one is replaced by having two for a while."""

    kind = "token"
    identity = ("agent", "rights", "default_skill", "until")
    paths = {"tenant": "agent.tenant_id", "agent": "agent.slug"}
    removal = "is revoked"

    agent: AgentSlug
    scopes: Annotated[
        list[ScopeName],
        Field(min_length=1, max_length=25),
        AfterValidator(lambda scopes: sorted(set(scopes))),
    ]
    default_skill: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{0,100}$")] = ""
    expires_at: Moment | None = None
    copies: Annotated[int, Field(ge=0, le=20)] = 1

    @model_validator(mode="after")
    def _is_of_every_tool_or_of_some(self) -> TokenSpec:
        if Scope.PROPOSE in self.scopes and self._tools():
            raise ValueError("scopes: propose is for every tool, so not beside propose:<tool>")
        return self

    def _tools(self) -> list[str]:
        return [each.removeprefix(ONE_TOOL) for each in self.scopes if each.startswith(ONE_TOOL)]

    @property
    def rights(self) -> str:
        return ",".join(self.scopes)

    @property
    def until(self) -> str:
        return f"until {self.expires_at.isoformat()}" if self.expires_at else "without an end"

    @classmethod
    def rows(cls, tenant: str) -> Any:
        rows = AgentToken.objects.filter(agent__tenant=tenant, revoked_at=None, is_temporary=False)
        rows = rows.filter(Q(expires_at=None) | Q(expires_at__gt=Now()))
        rows = rows.exclude(agent__slug__startswith=TRIES)
        return rows.select_related("agent").order_by("pk")

    @classmethod
    def of(cls, row: Any, **others: Any) -> TokenSpec:
        return super().of(row, scopes=sorted(set(row.scopes)), copies=1)

    @classmethod
    def present(cls, tenant: str) -> Iterable[TokenSpec]:
        every = [cls.of(row) for row in cls.rows(tenant)]
        copies, specs = Counter(each.key for each in every), {each.key: each for each in every}
        return (specs[key].model_copy(update={"copies": copies[key]}) for key in sorted(specs))

    def needs(self) -> Iterable[Reference]:
        yield "agent", self.agent
        yield from tools_needed(self._tools())

    def is_moot(self) -> bool:
        """One that has ended, as those in old files have, is not made again."""
        is_over = self.expires_at is not None and self.expires_at <= timezone.now()
        return is_over or not self.copies

    def make(self, run: Run) -> None:
        self.change(self.model_copy(update={"copies": 0}), {}, run)

    def remove(self, run: Run) -> None:
        self.model_copy(update={"copies": 0}).change(self, {}, run)

    def change(self, before: TokenSpec, edits: Edits, run: Run) -> None:
        """Of too many the oldest are revoked."""
        owner = Agent.objects.get(tenant=self.tenant, slug=self.agent)
        terms: dict[str, Any] = self.columns(["scopes", "default_skill"])
        for _ in range(self.copies - before.copies):
            row, token = enrolment.issue(owner, expires_at=self.expires_at, **terms, **run.origin)
            run.made.append((f"token {row.hint} of {owner.principal}", token))
        same = [row for row in self.rows(self.tenant) if self.of(row).key == self.key]
        for row in same[: max(before.copies - self.copies, 0)]:
            enrolment.revoke(row, reason="Revoked: the files declare it no more.", **run.origin)


# --- owners of tools ------------------------------------------------------------------------------


class OwnerSpec(Spec):
    kind = "owner"
    identity = ("service",)

    service: Annotated[str, Field(min_length=1, max_length=100)]
    webhook_url: Annotated[Address, Field(min_length=1)]
    webhook_secret: SigningSecret = None

    @classmethod
    def rows(cls, tenant: str) -> Any:
        rows = Owner.objects.filter(tenant=tenant).select_related("tenant")
        return rows.defer("webhook_secret").order_by("service")

    def make(self, run: Run) -> None:
        row = enrolment.add_owner(self.tenant_row, self.service, self.webhook_url, **run.origin)
        if self.webhook_secret:
            self.bring_in_line(run)
        else:
            run.made.append((f"webhook_secret of owner {row}", str(row.webhook_secret)))

    def change(self, before: OwnerSpec, edits: Edits, run: Run) -> None:
        enrolment.set_owner_address(self.row(), self.webhook_url, **run.origin)
        if self.webhook_secret and "webhook_secret" in edits:
            secret = self.webhook_secret.text
            enrolment.renew_owner_secret(self.row(), secret=secret, **run.origin)

    def remove(self, run: Run) -> None:
        enrolment.remove_owner(self.row(), **run.origin)
