"""Registering tools that are not Python: each version is kept, each change is sealed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.checks import Error
from django.db.transaction import atomic

from ledger import contracts
from ledger.errors import NotFound
from ledger.events import ChangeKind, brakes, record_change, sealable
from ledger.models import RegisteredTool, Tenant, ToolVersion
from ledger.principals import Principal, Surface
from ledger.tools import catalogue, manifests, mcp_upstreams
from ledger.tools.checks import changed_key, unsafe
from ledger.tools.manifests import Manifest, McpManifest
from ledger.tools.mcp_upstreams import UpstreamRefused


class Refused(Exception):
    """The tool cannot be registered, or not any more as it was looked at; nothing was changed."""


class NameTaken(Refused):
    """A Python tool or Assent itself has the name."""


class Unsafe(Refused):
    """Its contract breaks rules; the text has each as ``manage.py check`` says it."""


class Overtaken(Refused):
    """Somebody has changed the tool since it was looked at."""


def current(tenant: Tenant, name: str) -> Manifest | None:
    """The version that agents get now; ``None`` if there is none, or it was withdrawn."""
    return _latest(tenant, name, is_withdrawn=False)


def latest(tenant: Tenant, name: str) -> Manifest | None:
    """The version that agents get now, or got until it was withdrawn."""
    return _latest(tenant, name)


def _latest(tenant: Tenant, name: str, **only: bool) -> Manifest | None:
    row = RegisteredTool.objects.filter(tenant=tenant, name=name, **only).first()
    if row is None:
        return None
    kept = ToolVersion.objects.get(tenant=tenant, name=name, sha256=row.version)
    return manifests.read(kept.manifest)


def differences(old: Manifest | None, new: Manifest) -> dict[str, list[Any]]:
    """Differences: ``{"contract.risk_level": ["HIGH", "LOW"]}``; of a new tool everything."""
    before = _flat(old.as_json()) if old is not None else {}
    after = _flat(new.as_json())
    names = sorted({*before, *after})
    return {
        name: [before.get(name), after.get(name)]
        for name in names
        if before.get(name) != after.get(name)
    }


def _flat(manifest: Mapping[str, Any]) -> dict[str, Any]:
    contract = {f"contract.{name}": value for name, value in manifest["contract"].items()}
    return {**{name: value for name, value in manifest.items() if name != "contract"}, **contract}


def register(
    tenant: Tenant,
    manifest: Manifest,
    *,
    by: Principal,
    via: Surface,
    in_place_of: str | None = None,
    **told: Any,
) -> dict[str, list[Any]]:
    """Make this the version that agents get from now on; returns what differs from the last one.

    ``in_place_of`` is the version that was looked at, empty for none: another one by now is not
    replaced. ``told`` goes into the event. Transactions that were prepared before keep theirs.
    Nothing is written if nothing differs. Raises ``Refused``.
    """
    check(tenant, manifest)
    with atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        old = current(tenant, manifest.name)
        if in_place_of not in {None, old.sha256 if old else ""}:
            raise Overtaken("Somebody has changed the tool meanwhile: look at it as it is now.")
        changed = differences(old, manifest)
        if isinstance(manifest, McpManifest):
            _accept(tenant, manifest, by, via)
        if not changed:
            return {}
        _keep(tenant, manifest, by)
        RegisteredTool.objects.update_or_create(
            tenant=tenant,
            name=manifest.name,
            defaults={"version": manifest.sha256, "is_withdrawn": False},
        )
        kind = ChangeKind.TOOL_REGISTERED if old is None else ChangeKind.TOOL_CHANGED
        sealed = {} if old is None else {"changed": sealable(changed)}
        record(tenant, manifest.name, kind, by, via, version=manifest.sha256, **sealed, **told)
    return changed


def _accept(tenant: Tenant, manifest: McpManifest, by: Principal, via: Surface) -> None:
    """Whoever registers a tool of an MCP server has seen it, and ends its hold."""
    try:
        mcp_upstreams.accept(tenant.slug, manifest)
    except UpstreamRefused as refusal:
        raise Refused(str(refusal)) from refusal
    brakes.end_hold(tenant.slug, manifest.name, by=by, via=via)


def check(tenant: Tenant, manifest: Manifest) -> None:
    """The rules of Python tools, with the same messages. Raises ``NameTaken, Unsafe``."""
    check_name(manifest.name)
    _check_reads_like_no_other(tenant, manifest.name)
    tool = catalogue.tool_from(manifest, tenant.slug)
    errors: list[Error] = [*unsafe(tool), *changed_key(tool, tenant.slug)]
    if errors:
        raise Unsafe("\n".join(f"{error.id}: {error.msg} {error.hint}" for error in errors))


def check_name(name: str) -> None:
    """Raises ``NameTaken``."""
    if name in contracts.RESERVED:
        raise NameTaken(f"{name} is a tool of Assent itself: choose another name.")
    if name in contracts.tools or name in contracts.readonly_tools:
        raise NameTaken(f"{name} is a tool of this installation: choose another name.")


def _check_reads_like_no_other(tenant: Tenant, name: str) -> None:
    """Whoever signs off tells tools by their names. Raises ``NameTaken``."""
    offered = RegisteredTool.objects.filter(tenant=tenant, is_withdrawn=False)
    others = {*contracts.tools, *contracts.readonly_tools, *offered.values_list("name", flat=True)}
    for other in sorted(others - {name}):
        if _as_read(other) == _as_read(name):
            raise NameTaken(f"{name} reads like {other}: choose another name.")


def _as_read(name: str) -> str:
    """Equal for names that the eye takes for one another."""
    alike = name.translate(str.maketrans("01", "ol")).replace("rn", "m").replace("vv", "w")
    return "_".join(filter(None, alike.split("_")))


def withdraw(tenant: Tenant, name: str, *, by: Principal, via: Surface) -> None:
    """Let agents propose it no more; what is prepared goes on. Raises ``NotFound``."""
    with atomic():
        active = RegisteredTool.objects.filter(tenant=tenant, name=name, is_withdrawn=False)
        if not active.update(is_withdrawn=True):
            raise NotFound(f"{tenant.slug} has registered no tool named {name!r:.80}.")
        record(tenant, name, ChangeKind.TOOL_WITHDRAWN, by, via)


def _keep(tenant: Tenant, manifest: Manifest, by: Principal) -> None:
    version = ToolVersion(
        tenant=tenant,
        name=manifest.name,
        sha256=manifest.sha256,
        manifest=manifest.as_json(),
        added_by=str(by),
        added_by_name=by.display_name,
    )
    ToolVersion.objects.bulk_create([version], ignore_conflicts=True)


def record(
    tenant: Tenant, name: str, kind: ChangeKind, by: Principal, via: Surface, **details: Any
) -> None:
    """Append what was done to the tool to its chain."""
    record_change(
        f"tool:{tenant.slug}/{name}",
        kind,
        tenant=tenant.slug,
        by=by,
        via=via,
        name=name,
        details=details,
    )
