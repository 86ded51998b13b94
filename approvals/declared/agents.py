"""Agents of a tenant, and the tokens with which they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Annotated, Any

from django.contrib.auth.models import User
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from pydantic import AfterValidator, AwareDatetime, Field, model_validator

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
    tenant_of,
)
from approvals.declared.people import person_named
from approvals.declared.tenants import Limits, ToolName, flat, tools_needed
from approvals.people import principal_of
from approvals.web.settings.operators import TRIES
from ledger.agents import ONE_TOOL, enrolment
from ledger.delivery.webhooks import form_choices
from ledger.foundation import http_out
from ledger.foundation.crypto import standard_webhooks
from ledger.foundation.crypto.encryption import SecretUnreadable
from ledger.models import Agent, AgentToken, Scope
from ledger.principals import USERS, Principal


def _no_try(slug: str) -> str:
    if slug.startswith(TRIES):
        raise ValueError("names that begin so are for trying tools: choose another")
    return slug


def callable_address(url: str) -> str:
    if url:
        try:
            http_out.parse(url)
        except http_out.AddressRefused as refusal:
            raise ValueError(str(refusal)) from None
    return url


def _offered(form: str) -> str:
    offered = dict(form_choices())
    if form not in offered:
        raise ValueError(f"it is none of {', '.join(name or 'empty' for name in offered)}")
    return form


def signing_secret(secret: Secret | None) -> Secret | None:
    if secret is not None:
        try:
            standard_webhooks.check_secret(secret.text)
        except standard_webhooks.SecretRefused as refusal:
            raise ValueError(str(refusal)) from None
    return secret


AgentSlug = Annotated[Slug, AfterValidator(_no_try)]
Address = Annotated[str, Field(max_length=200), AfterValidator(callable_address)]
SigningSecret = Annotated[Secret | None, AfterValidator(signing_secret)]


class AgentSpec(Spec):
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

    def needs(self) -> Iterable[Reference]:
        row = Agent.objects.filter(tenant=self.tenant, slug=self.slug).first()
        yield from tools_needed(set(self.tools) - set(row.tools if row else []))
        if self.kept_by and not self.kept_by.startswith(USERS):
            yield "person", self.kept_by


class Agents(Kind[AgentSpec]):
    """Without those elsewhere, whose cards say what they are, and those by which people try."""

    name = "agent"
    spec = AgentSpec
    removal = "is switched off"

    def present(self, tenant: str) -> Iterator[AgentSpec]:
        names = dict(User.objects.values_list("pk", "username"))
        rows = Agent.objects.filter(tenant=tenant, remote=None).exclude(slug__startswith=TRIES)
        for row in rows.defer("webhook_secret").order_by("slug"):
            keeper = Principal.parse(row.kept_by).user_key
            columns = {name: getattr(row, name) for name in _columns()}
            columns["kept_by"] = names.get(keeper or 0, row.kept_by)
            yield AgentSpec.model_construct(tenant=tenant, slug=row.slug, **columns)

    def make(self, wanted: AgentSpec, run: Run) -> None:
        tenant = tenant_of(wanted)
        if Agent.objects.filter(tenant=tenant, slug=wanted.slug).exists():
            raise Refused(f"{wanted.slug} is an agent elsewhere: its kind is remote_agent.")
        enrolment.agent_named(tenant, wanted.slug, wanted.name, **run.origin)
        before = next(each for each in self.present(tenant.pk) if each.key == wanted.key)
        if edits := self.edits(before, wanted):
            self.change(before, wanted, edits, run)

    def change(self, before: AgentSpec, wanted: AgentSpec, edits: Edits, run: Run) -> None:
        row = _locked(wanted)
        sealed = {name: edit for name, edit in edits.items() if name != "webhook_secret"}
        columns: dict[str, Any] = {name: getattr(wanted, name) for name in sealed}
        if "limits" in columns:
            columns["limits"] = wanted.facts()["limits"]
        if "kept_by" in columns:
            columns["kept_by"] = _keeper(wanted)
            sealed["kept_by"] = [row.kept_by, columns["kept_by"]]
        set_columns(row, columns)
        enrolment.was_changed(row, flat(sealed), **run.origin)
        given = wanted.webhook_secret.text if "webhook_secret" in edits else ""  # type: ignore[union-attr]
        if given or (row.webhook_url and not _has_secret(row)):
            enrolment.renew_secret(row, secret=given, **run.origin)
            if not given:
                run.made.append((f"webhook_secret of {row.principal}", str(row.webhook_secret)))

    def remove(self, before: AgentSpec, run: Run) -> None:
        row = _locked(before)
        Agent.objects.filter(pk=row.pk).update(is_active=False)
        row.is_active = False
        enrolment.was_changed(row, {"is_active": [True, False]}, **run.origin)

    def is_removable(self, before: AgentSpec) -> bool:
        return before.is_active

    def is_kept(self, wanted: AgentSpec, name: str, secret: str) -> bool:
        try:
            row = Agent.objects.get(tenant=wanted.tenant, slug=wanted.slug)
            return str(row.webhook_secret) == secret
        except SecretUnreadable:
            return False


def _columns() -> list[str]:
    return [n for n in AgentSpec.model_fields if n not in {"tenant", "slug", "webhook_secret"}]


def _locked(spec: AgentSpec) -> Agent:
    return Agent.objects.select_for_update().get(tenant=spec.tenant, slug=spec.slug)


def _has_secret(row: Agent) -> bool:
    try:
        return bool(row.webhook_secret)
    except SecretUnreadable:
        return False


def _keeper(wanted: AgentSpec) -> str:
    return str(principal_of(person_named(wanted.tenant, wanted.kept_by))) if wanted.kept_by else ""


# --- tokens ---------------------------------------------------------------------------------------

ScopeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9:._-]{1,120}$")]


class TokenSpec(Spec):
    """Tokens of an agent with the same rights and the same end; they have no names."""

    identity = ("agent", "scopes_in_order", "default_skill", "until")

    agent: AgentSlug
    scopes: Annotated[list[ScopeName], Field(min_length=1, max_length=25)]
    default_skill: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{0,100}$")] = ""
    expires_at: AwareDatetime | None = None
    copies: Annotated[int, Field(ge=0, le=20)] = 1

    @model_validator(mode="after")
    def _is_of_every_tool_or_of_some(self) -> TokenSpec:
        of_some = any(each.startswith(ONE_TOOL) for each in self.scopes)
        if of_some and Scope.PROPOSE in self.scopes:
            raise ValueError("scopes: propose is for every tool, so not beside propose:<tool>")
        return self

    @property
    def scopes_in_order(self) -> str:
        return ",".join(sorted(set(self.scopes)))

    @property
    def until(self) -> str:
        return f"until {self.expires_at.isoformat()}" if self.expires_at else "without an end"

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "scopes": sorted(set(self.scopes))}

    def needs(self) -> Iterable[Reference]:
        yield "agent", self.agent
        tools = [each.removeprefix(ONE_TOOL) for each in self.scopes if each.startswith(ONE_TOOL)]
        yield from tools_needed(tools)


class Tokens(Kind[TokenSpec]):
    """Two that have the same rights and the same end are two copies: so one is replaced."""

    name = "token"
    spec = TokenSpec
    removal = "is revoked"

    def present(self, tenant: str) -> Iterator[TokenSpec]:
        rows = AgentToken.objects.filter(agent__tenant=tenant, revoked_at=None)
        rows = rows.filter(Q(expires_at=None) | Q(expires_at__gt=Now()))
        rows = rows.exclude(agent__slug__startswith=TRIES).select_related("agent")
        ordered = sorted((_as_spec(row) for row in rows), key=lambda each: each.key)
        for _key, same in groupby(ordered, key=lambda each: each.key):
            specs = list(same)
            yield specs[0].model_copy(update={"copies": len(specs)})

    def is_moot(self, wanted: TokenSpec) -> bool:
        """One that has ended, as those in old files have, is not made again."""
        is_over = wanted.expires_at is not None and wanted.expires_at <= timezone.now()
        return is_over or not wanted.copies

    def make(self, wanted: TokenSpec, run: Run) -> None:
        self._issue(wanted, wanted.copies, run)

    def change(self, before: TokenSpec, wanted: TokenSpec, edits: Edits, run: Run) -> None:
        """More are issued; of too many the oldest are revoked."""
        self._issue(wanted, wanted.copies - before.copies, run)
        self._revoke(before, before.copies - wanted.copies, run)

    def remove(self, before: TokenSpec, run: Run) -> None:
        self._revoke(before, before.copies, run)

    def _issue(self, wanted: TokenSpec, number: int, run: Run) -> None:
        owner = Agent.objects.get(tenant=wanted.tenant, slug=wanted.agent)
        terms: dict[str, Any] = {"default_skill": wanted.default_skill}
        terms |= {"scopes": wanted.facts()["scopes"], "expires_at": wanted.expires_at}
        for _ in range(number):
            row, token = enrolment.issue(owner, **terms, **run.origin)
            run.made.append((f"token {row.hint} of {owner.principal}", token))

    def _revoke(self, spec: TokenSpec, number: int, run: Run) -> None:
        rows = AgentToken.objects.filter(
            agent__tenant=spec.tenant, agent__slug=spec.agent, revoked_at=None
        )
        same = [row for row in rows.order_by("pk") if _as_spec(row).key == spec.key]
        for row in same[: max(number, 0)]:
            enrolment.revoke(row, reason="Revoked: the files declare it no more.", **run.origin)


def _as_spec(row: AgentToken) -> TokenSpec:
    return TokenSpec.model_construct(
        tenant=row.agent.tenant_id,
        agent=row.agent.slug,
        scopes=sorted(set(row.scopes)),
        default_skill=row.default_skill,
        expires_at=row.expires_at,
        copies=1,
    )
