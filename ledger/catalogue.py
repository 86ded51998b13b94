"""The tools there are: those of this process, and those that a tenant has registered.

A transaction is carried out with the version of the tool that it was prepared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

from ledger import contracts, credentials, handed_over, manifests
from ledger.contracts import Tool
from ledger.errors import UnknownTool
from ledger.handed_over import HandedOverTool
from ledger.http_tools import HttpTool
from ledger.manifests import HttpManifest, Manifest, ManifestRefused, ManifestTool
from ledger.models import RegisteredTool, ToolVersion, Transaction, TransactionRow
from ledger.sentences import Sentence


def tool_of(row: Transaction | TransactionRow) -> Tool[Any, Any] | None:
    """The tool of a transaction, as it was when that was prepared.

    ``None`` if it is a Python tool that this process does not have.
    """
    if row.tool_version is None:
        return contracts.tools.get(row.tool)
    if handed_over.is_for_agent(row):
        return HandedOverTool(row.tool)
    return _version(row.tenant, row.tool, row.tool_version)


def deployed_tool_of(row: Transaction) -> Tool[Any, Any]:
    """The same. Raises ``UnknownTool`` if this process does not have it."""
    tool = tool_of(row)
    if tool is None:
        raise UnknownTool(Sentence("There is no tool named {tool}.", tool=row.tool))
    return tool


def tool_named(tenant: str, name: str) -> Tool[Any, Any] | None:
    """The tool that agents of the tenant get by this name now."""
    return contracts.tools.get(name) or registered(tenant).get(name)


def tools_of(tenants: Iterable[str]) -> dict[str, Tool[Any, Any]]:
    """Every tool with effects of these tenants, by name; of equal names the first."""
    found: dict[str, Tool[Any, Any]] = dict(contracts.tools)
    for tenant in sorted(tenants):
        found = {**registered(tenant), **found}
    return found


def registered(tenant: str) -> Mapping[str, ManifestTool]:
    """The tools that the tenant has registered and not withdrawn."""
    rows = RegisteredTool.objects.filter(tenant=tenant, is_withdrawn=False)
    return {
        name: tool
        for name, version in rows.values_list("name", "version")
        if (tool := _version(tenant, name, version)) is not None
    }


def tool_from(manifest: Manifest, tenant: str) -> ManifestTool:
    """The tool that a manifest of this tenant describes."""
    match manifest:
        case HttpManifest(credential=""):
            return HttpTool(manifest)
        case HttpManifest():
            return HttpTool(manifest, partial(credentials.for_address, tenant, manifest.credential))
        case _:
            raise TypeError(f"Nothing carries out tools of the kind {manifest.kind}.")


def registered_names() -> frozenset[str]:
    """The names of the tools that any tenant has registered."""
    return frozenset(RegisteredTool.objects.values_list("name", flat=True).distinct())


def _version(tenant: str, name: str, sha256: str) -> ManifestTool | None:
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
