"""Tools that run elsewhere, what they ask for, MCP servers, and the rules about who signs what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from approvals.declared.kinds import (
    Edits,
    Reference,
    Refused,
    Run,
    Secret,
    Spec,
    checked,
)
from ledger import seals
from ledger.models import Credential, McpUpstream, RegisteredTool, ToolVersion
from ledger.sign_off import groups, rules
from ledger.tools import contracts_of, credentials, manifests, mcp_upstreams, registrations, watched
from ledger.tools.manifests import Manifest


class CredentialSpec(Spec):
    """The proof that a service asks for: a header, a certificate, or a signature."""

    kind = "credential"
    identity = ("name",)
    paths = {"shown_as": "kind"}

    name: Annotated[str, checked(credentials.check_name)]
    shown_as: Literal["header", "client_certificate", "signing_secret"] = "header"
    header: str = ""
    hosts: Annotated[list[str], checked(credentials.checked_hosts)]
    secret: Secret | None = None

    @model_validator(mode="after")
    def _can_be_kept(self) -> CredentialSpec:
        """Raises ``CredentialRefused``."""
        if self.hosts != credentials.checked_hosts(self.hosts):
            raise ValueError("hosts: in small letters, each once")
        if (self.shown_as == "header") != bool(self.header):
            raise ValueError("header: its name, where it is shown as a header, and else nothing")
        match self.secret, self.shown_as:
            case Secret(text=secret), "header":
                credentials.check_header(self.header, secret)
            case Secret(text=secret), "client_certificate":
                credentials.checked_certificate(secret)
            case Secret(text=secret), "signing_secret":
                credentials.check_signing_secret(secret)
        return self

    @classmethod
    def rows(cls, tenant: str) -> Any:
        return Credential.objects.filter(tenant=tenant).defer("secret").order_by("name")

    def make(self, run: Run) -> None:
        """Raises ``Refused, CredentialRefused``."""
        if self.secret is None:
            raise Refused("Name its secret: there is none here yet.")
        terms: dict[str, Any] = {"hosts": self.hosts, **run.origin}
        where, text = (self.tenant_row, self.name), self.secret.text
        match self.shown_as:
            case "header":
                credentials.set_header(*where, header=self.header, value=text, **terms)
            case "client_certificate":
                credentials.set_client_certificate(*where, pem=text, **terms)
            case _:
                credentials.set_signing_secret(*where, secret=text, **terms)

    def change(self, before: CredentialSpec, edits: Edits, run: Run) -> None:
        """A secret goes to other hosts only where somebody names it."""
        if self.secret is None:
            raise Refused("Name its secret: it is set together with the rest.")
        self.make(run)

    def remove(self, run: Run) -> None:
        credentials.remove(self.tenant_row, self.name, **run.origin)

    def kept(self, name: str) -> str | None:
        """Of signing secrets the newest; the one before may sign beside it for a day."""
        kept = super().kept(name)
        return kept.split()[0] if kept and self.row().kind == "signing_secret" else kept


# --- MCP servers ----------------------------------------------------------------------------------


class ServerSpec(Spec):
    """Each tool of a server is held until it is released: by its manifest, as a ``tool``."""

    kind = "mcp_server"
    identity = ("name",)
    reaches_out = True
    removal = "is removed, and its tools are withdrawn"

    name: str
    address: str
    credential: Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,63}$")] = ""

    @model_validator(mode="after")
    def _can_be_registered(self) -> ServerSpec:
        mcp_upstreams.check(self.name, self.address)
        return self

    @classmethod
    def rows(cls, tenant: str) -> Any:
        return McpUpstream.objects.filter(tenant=tenant).order_by("name")

    def needs(self) -> Iterable[Reference]:
        if self.credential:
            yield "credential", self.credential

    def make(self, run: Run) -> None:
        """A list that cannot be read now is read again every few minutes."""
        terms: dict[str, Any] = {"credential": self.credential, **run.origin}
        row = mcp_upstreams.add(self.tenant_row, self.name, self.address, **terms)
        watched.read_now(row.watched_id)

    def remove(self, run: Run) -> None:
        mcp_upstreams.remove(self.row(), **run.origin)


# --- tools ----------------------------------------------------------------------------------------


class ToolSpec(Spec):
    """A manifest, as ``tools apply`` takes it."""

    kind = "tool"
    identity = ("tool",)
    removal = "is withdrawn"

    manifest: Annotated[
        dict[str, Any], AfterValidator(lambda written: manifests.read(written).as_json())
    ]

    @property
    def tool(self) -> str:
        return str(self.manifest["name"])

    def read(self) -> Manifest:
        return manifests.read(self.manifest)

    def needs(self) -> Iterable[Reference]:
        kinds = {"credential": "credential", "signing_secret": "credential"}
        for member, kind in {**kinds, "upstream": "mcp_server"}.items():
            if self.manifest.get(member):
                yield kind, self.manifest[member]

    @classmethod
    def present(cls, tenant: str) -> Iterable[ToolSpec]:
        rows = RegisteredTool.objects.filter(tenant=tenant, is_withdrawn=False)
        versions = dict(rows.values_list("name", "version"))
        kept = ToolVersion.objects.filter(tenant=tenant, sha256__in=versions.values())
        for row in kept.order_by("name"):
            if versions.get(row.name) == row.sha256:
                yield cls.model_construct(tenant=tenant, manifest=row.manifest)

    def edits(self, before: ToolSpec) -> Edits:
        return registrations.differences(before.read(), self.read())

    def make(self, run: Run) -> None:
        """Raises ``registrations.Refused``."""
        registrations.register(self.tenant_row, self.read(), **run.origin)

    def remove(self, run: Run) -> None:
        registrations.withdraw(self.tenant_row, self.tool, **run.origin)


# --- rules ----------------------------------------------------------------------------------------


def _as_written(written: Any) -> list[Any]:
    """Raises ``RulesRefused``."""
    return [rule.as_json() for rule in rules.read(0, seals.normalised(written)).rules]


class RulesSpec(Spec):
    """The rules of a tenant as a whole, and cases that they have to fulfil."""

    kind = "rules"
    identity = ()

    rules: Annotated[list[Any], AfterValidator(_as_written)]
    cases: list[Any] = []

    def facts(self) -> dict[str, Any]:
        """Cases stand in files alone."""
        return {"rules": self.rules}

    def needs(self) -> Iterable[Reference]:
        for rule in rules.read(0, self.rules).rules:
            yield from (("group", name) for name in rule.then.groups if name not in rules.BUILT_IN)

    @classmethod
    def present(cls, tenant: str) -> Iterable[RulesSpec]:
        if active := rules.active(tenant):
            yield cls.model_construct(tenant=tenant, rules=_as_written(active.rules))

    def make(self, run: Run) -> None:
        """Raises ``LedgerError``, also for rules that end signing: those two people activate."""
        tenant = self.tenant
        groups.check_known(tenant, rules.read(0, self.rules).rules)
        if failing := [*rules.failing_cases(self.rules, self.cases, contracts_of(tenant))]:
            raise Refused(" ".join(failing))
        draft = rules.in_work(tenant)
        draft = rules.edit(tenant, self.rules, seen=draft.sha256 if draft else "", by=run.by)
        rules.activate(tenant, seen=draft.sha256, **run.origin)

    def is_removable(self) -> bool:
        return False
