"""The tools there are: those of this process, and those that a tenant has registered.

A transaction is carried out with the version of the tool that it was prepared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache, partial
from typing import Any

from ledger import contracts
from ledger.contracts import Contract, ReadonlyTool, Tool
from ledger.errors import Sentence, UnknownTool
from ledger.foundation.http_out import Credentials
from ledger.models import RegisteredTool, ToolVersion, Transaction, TransactionRow
from ledger.tools import credentials, handed_over_calls, manifests, mcp_upstreams
from ledger.tools.http import HttpTool
from ledger.tools.manifests import (
    AgentManifest,
    HttpManifest,
    Manifest,
    ManifestRefused,
    ManifestTool,
    McpManifest,
)
from ledger.tools.mcp import McpReadonlyTool, McpTool, Upstream
from ledger.tools.permits import PermitTool


def tool_of(row: Transaction | TransactionRow) -> Tool[Any, Any] | None:
    """The tool of a transaction, as it was when that was prepared.

    ``None`` if it is a Python tool that this process does not have.
    """
    if row.tool_version is None:
        return contracts.tools.get(row.tool)
    if handed_over_calls.is_for_agent(row):
        return handed_over_calls.HandedOverTool(row.tool)
    return tool_version(row.tenant, row.tool, row.tool_version)


def permit_tool_of(row: Transaction | TransactionRow) -> PermitTool | None:
    """The tool, if the proposing agent carries the transaction out itself."""
    tool = tool_of(row) if row.tool_version is not None else None
    return tool if isinstance(tool, PermitTool) else None


def acts_itself(row: Transaction | TransactionRow) -> bool:
    """True if the proposing agent carries the transaction out itself, with a permit."""
    return permit_tool_of(row) is not None


def deployed_tool_of(row: Transaction) -> Tool[Any, Any]:
    """The same. Raises ``UnknownTool`` if this process does not have it."""
    tool = tool_of(row)
    if tool is None:
        raise UnknownTool(Sentence("There is no tool named {tool}.", tool=row.tool))
    return tool


def tool_named(tenant: str, name: str) -> Tool[Any, Any] | None:
    """The tool that agents of the tenant get by this name now."""
    return contracts.tools.get(name) or registered(tenant).get(name)


def contracts_of(tenant: str) -> Callable[[str], Contract | None]:
    """A function from the name of a tool to its present contract, each looked up once."""

    @cache
    def contract_of(name: str) -> Contract | None:
        tool = tool_named(tenant, name)
        return tool.contract if tool else None

    return contract_of


def tools_of(tenants: Iterable[str]) -> dict[str, Tool[Any, Any]]:
    """Every tool with effects of these tenants, by name; of equal names the first."""
    tools: dict[str, Tool[Any, Any]] = {
        name: tool for name, tool in contracts.tools.items() if tool.is_listed
    }
    for tenant in sorted(tenants):
        tools = {**registered(tenant), **tools}
    return tools


def registered(tenant: str) -> Mapping[str, ManifestTool]:
    """The tools with effects that the tenant has registered, and not withdrawn."""
    return {tool.name: tool for tool in _offered(tenant) if _readonly(tool) is None}


def readonly_named(tenant: str, name: str) -> ReadonlyTool | None:
    """The tool without effects that agents of the tenant get by this name."""
    return contracts.readonly_tools.get(name) or readonly_tools_of([tenant]).get(name)


def readonly_tools_of(tenants: Iterable[str]) -> dict[str, ReadonlyTool]:
    """Every tool without effects of these tenants, by name; of equal names the first."""
    tools: dict[str, ReadonlyTool] = dict(contracts.readonly_tools)
    for tenant in sorted(tenants):
        for tool in _offered(tenant):
            if (readonly := _readonly(tool)) is not None:
                tools.setdefault(tool.name, readonly)
    return tools


def _offered(tenant: str) -> list[ManifestTool]:
    rows = RegisteredTool.objects.filter(tenant=tenant, is_withdrawn=False)
    versions = [tool_version(tenant, *row) for row in rows.values_list("name", "version")]
    return [tool for tool in versions if tool is not None]


def _readonly(tool: ManifestTool) -> McpReadonlyTool | None:
    if isinstance(tool, McpTool) and tool.manifest.is_readonly:
        return McpReadonlyTool(tool.manifest, tool.upstream)
    return None


def tool_from(manifest: Manifest, tenant: str) -> ManifestTool:
    """The tool that a manifest of this tenant describes."""
    match manifest:
        case HttpManifest():
            return _http_tool(manifest, tenant)
        case McpManifest():
            return McpTool(manifest, _upstream_of(manifest, tenant))
        case AgentManifest():
            return PermitTool(manifest)
        case _:
            raise TypeError(f"Nothing carries out tools of the kind {manifest.kind}.")


def _http_tool(manifest: HttpManifest, tenant: str) -> HttpTool:
    finders: dict[str, Any] = {}
    if manifest.credential:
        finders["showing"] = partial(credentials.for_address, tenant, manifest.credential)
    if manifest.signing_secret:
        finders["secrets"] = partial(credentials.signing_secrets, tenant, manifest.signing_secret)
    return HttpTool(manifest, **finders)


def _upstream_of(manifest: McpManifest, tenant: str) -> Upstream:
    of_server = (tenant, manifest.upstream, manifest.address)
    released = partial(mcp_upstreams.released_sha256, *of_server)
    with_credential = partial(credentials.for_address, tenant, manifest.credential)
    return Upstream(
        f"{tenant}/{manifest.upstream}",
        released,
        showing=with_credential if manifest.credential else _no_credentials,
        revision=partial(mcp_upstreams.revision_of, *of_server),
        note_stderr=partial(mcp_upstreams.note_stderr, *of_server),
        hold_what_differs=partial(mcp_upstreams.hold_what_differs, *of_server),
    )


def _no_credentials(_: str) -> Credentials:
    return Credentials()


def last_named(tenant: str, name: str) -> Tool[Any, Any] | None:
    """The tool of this name as agents got it last, also where it is withdrawn by now."""
    rows = RegisteredTool.objects.filter(tenant=tenant, name=name)
    version = rows.values_list("version", flat=True).first()
    registered = None if version is None else tool_version(tenant, name, version)
    return contracts.tools.get(name) or registered


def registered_names() -> frozenset[str]:
    """The names of the tools that any tenant has registered."""
    return frozenset(RegisteredTool.objects.values_list("name", flat=True).distinct())


def tool_version(tenant: str, name: str, sha256: str) -> ManifestTool | None:
    """A version that was registered once."""
    try:
        return _kept(tenant, name, sha256)
    except ToolVersion.DoesNotExist:
        return None


@lru_cache(maxsize=1024)
def _kept(tenant: str, name: str, sha256: str) -> ManifestTool:
    """Versions never change, so one that was read stays good. Raises ``DoesNotExist``."""
    row = ToolVersion.objects.get(tenant=tenant, name=name, sha256=sha256)
    try:
        tool = tool_from(manifests.read(row.manifest), tenant)
    except ManifestRefused as refusal:
        raise ToolVersion.DoesNotExist from refusal
    if tool.version != sha256:
        raise ToolVersion.DoesNotExist  # somebody changed it in the database
    return tool
