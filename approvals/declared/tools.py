"""Tools that run elsewhere, what they ask for, MCP servers, and the rules about who signs what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from approvals.declared.kinds import Edits, Kind, Reference, Refused, Run, Secret, Spec, tenant_of
from ledger import seals
from ledger.foundation.crypto.encryption import SecretUnreadable
from ledger.models import Credential, McpUpstream, RegisteredTool, ToolVersion
from ledger.sign_off import groups, rules
from ledger.tools import contracts_of, credentials, manifests, mcp_upstreams, registrations, watched
from ledger.tools.credentials import CredentialRefused
from ledger.tools.manifests import Manifest, ManifestRefused
from ledger.tools.mcp_upstreams import UpstreamRefused


class CredentialSpec(Spec):
    """The proof that a service asks for: a header, a certificate, or a signature."""

    identity = ("name",)

    name: str
    shown_as: Literal["header", "client_certificate", "signing_secret"] = "header"
    header: str = ""
    hosts: Annotated[list[str], Field(min_length=1)]
    secret: Secret | None = None

    @model_validator(mode="after")
    def _can_be_kept(self) -> CredentialSpec:
        try:
            credentials.check_name(self.name)
            if self.hosts != credentials.checked_hosts(self.hosts):
                raise ValueError("hosts: in small letters, each once")
            if self.secret is not None:
                self._check(self.secret.text)
        except CredentialRefused as refusal:
            raise ValueError(str(refusal)) from None
        if (self.shown_as == "header") != bool(self.header):
            raise ValueError("header: its name, where it is shown as a header, and else nothing")
        return self

    def _check(self, secret: str) -> None:
        match self.shown_as:
            case "header":
                credentials.check_header(self.header, secret)
            case "client_certificate":
                credentials.checked_certificate(secret)
            case _:
                credentials.check_signing_secret(secret)


class Credentials(Kind[CredentialSpec]):
    name = "credential"
    spec = CredentialSpec

    def present(self, tenant: str) -> Iterator[CredentialSpec]:
        for row in Credential.objects.filter(tenant=tenant).defer("secret").order_by("name"):
            shown: Any = row.kind
            yield CredentialSpec.model_construct(
                tenant=tenant, name=row.name, shown_as=shown, header=row.header, hosts=row.hosts
            )

    def make(self, wanted: CredentialSpec, run: Run) -> None:
        """Raises ``Refused, CredentialRefused``."""
        if wanted.secret is None:
            raise Refused("Name its secret: there is none here yet.")
        terms: dict[str, Any] = {"hosts": wanted.hosts, **run.origin}
        where, text = (tenant_of(wanted), wanted.name), wanted.secret.text
        match wanted.shown_as:
            case "header":
                credentials.set_header(*where, header=wanted.header, value=text, **terms)
            case "client_certificate":
                credentials.set_client_certificate(*where, pem=text, **terms)
            case _:
                credentials.set_signing_secret(*where, secret=text, **terms)

    def change(
        self, before: CredentialSpec, wanted: CredentialSpec, edits: Edits, run: Run
    ) -> None:
        self.make(wanted, run)

    def remove(self, before: CredentialSpec, run: Run) -> None:
        credentials.remove(tenant_of(before), before.name, **run.origin)

    def is_kept(self, wanted: CredentialSpec, name: str, secret: str) -> bool:
        """Of signing secrets the newest; the one before may sign beside it for a day."""
        try:
            kept = Credential.objects.get(tenant=wanted.tenant, name=wanted.name).secret
        except SecretUnreadable:
            return False
        if wanted.shown_as == "signing_secret":
            return bool(kept) and kept.split()[0] == secret
        return bool(kept == secret)


# --- MCP servers ----------------------------------------------------------------------------------


class ServerSpec(Spec):
    identity = ("name",)

    name: str
    address: str
    credential: Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,63}$")] = ""

    @model_validator(mode="after")
    def _can_be_registered(self) -> ServerSpec:
        try:
            mcp_upstreams.check(self.name, self.address)
        except UpstreamRefused as refusal:
            raise ValueError(str(refusal)) from None
        return self

    def needs(self) -> Iterable[Reference]:
        if self.credential:
            yield "credential", self.credential


class Servers(Kind[ServerSpec]):
    """Each tool of a server is held until it is released: by its manifest, as a ``tool``."""

    name = "mcp_server"
    spec = ServerSpec
    reaches_out = True
    removal = "is removed, and its tools are withdrawn"

    def present(self, tenant: str) -> Iterator[ServerSpec]:
        rows = McpUpstream.objects.filter(tenant=tenant).order_by("name")
        for name, address, credential in rows.values_list("name", "address", "credential"):
            yield ServerSpec.model_construct(
                tenant=tenant, name=name, address=address, credential=credential
            )

    def make(self, wanted: ServerSpec, run: Run) -> None:
        """A list that cannot be read now is read again every few minutes."""
        row = mcp_upstreams.add(
            tenant_of(wanted),
            wanted.name,
            wanted.address,
            credential=wanted.credential,
            **run.origin,
        )
        watched.read_now(row.watched_id)

    def change(self, before: ServerSpec, wanted: ServerSpec, edits: Edits, run: Run) -> None:
        self.make(wanted, run)

    def remove(self, before: ServerSpec, run: Run) -> None:
        mcp_upstreams.remove(mcp_upstreams.upstream_named(before.tenant, before.name), **run.origin)


# --- tools ----------------------------------------------------------------------------------------


class ToolSpec(Spec):
    """A manifest, as ``tools apply`` takes it."""

    identity = ("tool",)

    manifest: dict[str, Any]

    @field_validator("manifest")
    @classmethod
    def _is_whole(cls, written: dict[str, Any]) -> dict[str, Any]:
        try:
            return manifests.read(written).as_json()
        except ManifestRefused as refusal:
            raise ValueError(str(refusal)) from None

    @property
    def tool(self) -> str:
        return str(self.manifest["name"])

    def read(self) -> Manifest:
        return manifests.read(self.manifest)

    def needs(self) -> Iterable[Reference]:
        for member in ("credential", "signing_secret"):
            if self.manifest.get(member):
                yield "credential", self.manifest[member]
        if "upstream" in self.manifest:
            yield "mcp_server", self.manifest["upstream"]


class Tools(Kind[ToolSpec]):
    name = "tool"
    spec = ToolSpec
    removal = "is withdrawn"

    def present(self, tenant: str) -> Iterator[ToolSpec]:
        rows = RegisteredTool.objects.filter(tenant=tenant, is_withdrawn=False).order_by("name")
        versions = dict(rows.values_list("name", "version"))
        kept = ToolVersion.objects.filter(tenant=tenant, sha256__in=versions.values())
        for row in kept.order_by("name"):
            if versions.get(row.name) == row.sha256:
                yield ToolSpec.model_construct(tenant=tenant, manifest=row.manifest)

    def edits(self, before: ToolSpec, wanted: ToolSpec) -> Edits:
        return registrations.differences(before.read(), wanted.read())

    def make(self, wanted: ToolSpec, run: Run) -> None:
        """Raises ``registrations.Refused``."""
        registrations.register(tenant_of(wanted), wanted.read(), **run.origin)

    def change(self, before: ToolSpec, wanted: ToolSpec, edits: Edits, run: Run) -> None:
        self.make(wanted, run)

    def remove(self, before: ToolSpec, run: Run) -> None:
        registrations.withdraw(tenant_of(before), before.tool, **run.origin)


# --- rules ----------------------------------------------------------------------------------------


class RulesSpec(Spec):
    """The rules of a tenant as a whole, and cases that they have to fulfil."""

    identity = ()
    only_in_file = frozenset({"cases"})

    rules: list[Any]
    cases: list[Any] = []

    @field_validator("rules")
    @classmethod
    def _can_be_read(cls, written: list[Any]) -> list[Any]:
        return _as_written(seals.normalised(written))

    @property
    def key(self) -> str:
        return self.tenant

    def needs(self) -> Iterable[Reference]:
        for rule in rules.read(0, self.rules).rules:
            yield from (("group", name) for name in rule.then.groups if name not in rules.BUILT_IN)


class RuleSets(Kind[RulesSpec]):
    name = "rules"
    spec = RulesSpec

    def present(self, tenant: str) -> Iterator[RulesSpec]:
        active = rules.active(tenant)
        if active is not None:
            yield RulesSpec.model_construct(tenant=tenant, rules=_as_written(active.rules))

    def make(self, wanted: RulesSpec, run: Run) -> None:
        """Raises ``LedgerError``, also for rules that end signing: those two people activate."""
        tenant = wanted.tenant
        groups.check_known(tenant, rules.read(0, wanted.rules).rules)
        failing = [*rules.failing_cases(wanted.rules, wanted.cases, contracts_of(tenant))]
        if failing:
            raise Refused(" ".join(failing))
        draft = rules.in_work(tenant)
        draft = rules.edit(tenant, wanted.rules, seen=draft.sha256 if draft else "", by=run.by)
        rules.activate(tenant, seen=draft.sha256, **run.origin)

    def change(self, before: RulesSpec, wanted: RulesSpec, edits: Edits, run: Run) -> None:
        self.make(wanted, run)

    def is_removable(self, before: RulesSpec) -> bool:
        return False


def _as_written(written: Any) -> list[Any]:
    """Raises ``RulesRefused``."""
    return [rule.as_json() for rule in rules.read(0, written).rules]
