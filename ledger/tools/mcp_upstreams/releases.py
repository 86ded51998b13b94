"""Actions of operators on MCP servers: register, release a tool as they saw it, hold, remove."""

from __future__ import annotations

import re
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger.errors import NotFound
from ledger.events import ChangeKind, brakes, record_change, sealable
from ledger.models import (
    McpUpstream,
    RegisteredTool,
    Tenant,
    ToolVersion,
    UpstreamTool,
    UpstreamToolState,
    Watched,
)
from ledger.principals import Principal, Surface
from ledger.tools import watched
from ledger.tools.manifests import ManifestRefused, McpManifest, check_upstream_address
from ledger.tools.mcp import ALL_ARGUMENTS, definitions
from ledger.tools.mcp_upstreams.reading import KIND, hold_row

NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
DESCRIPTION_MOST = 3000
# A tag, or whatever could be the beginning of one once something within it is gone.
TAG = re.compile(r"</?[A-Za-z][^<>]*>|<+(?=[A-Za-z/!?])")
State = UpstreamToolState


class UpstreamRefused(Exception):
    """It cannot be done; the text says why. Nothing was changed."""


def add(
    tenant: Tenant, name: str, address: str, *, credential: str = "", by: Principal, via: Surface
) -> McpUpstream:
    """Register a server, or change where it is: then what it had released is held.

    Raises ``UpstreamRefused``.
    """
    check(name, address)
    where = {"address": address, "credential": credential}
    with atomic():
        row = _locked(tenant=tenant, name=name)
        if row is not None and (row.address, row.credential) == (address, credential):
            return row
        for tool in UpstreamTool.objects.filter(upstream=row, state=State.RELEASED):
            hold_row(tool, "The address of the server was changed.", by=by, via=via)
            tool.save()
        kind = ChangeKind.MCP_SERVER_CHANGED if row else ChangeKind.MCP_SERVER_ADDED
        if row is None:
            row = McpUpstream(tenant=tenant, name=name, watched=Watched.objects.create(kind=KIND))
        else:
            watched.begin_anew(row.watched_id)
        row.address, row.credential = address, credential
        row.revision = row.stderr = ""
        row.save()
        _record(row, kind, by, via, **where)
    return row


def _locked(**which: Any) -> McpUpstream | None:
    """The server; its list is not compared until commit, so that neither overwrites the other."""
    rows = McpUpstream.objects.select_related("watched").select_for_update(of=("watched",))
    return rows.filter(**which).first()


def check(name: str, address: str) -> None:
    """Raises ``UpstreamRefused`` for what cannot be registered."""
    if not NAME.fullmatch(name):
        raise UpstreamRefused("A name is a-z, 0-9 and _, a letter first, 31 characters at most.")
    try:
        check_upstream_address(address)
    except ValueError as refusal:
        raise UpstreamRefused(f"{address:.200}: {refusal}.") from refusal


def remove(row: McpUpstream, *, by: Principal, via: Surface) -> None:
    """Forget the server. Its tools are withdrawn: what is signed off is not carried out."""
    with atomic():
        _locked(pk=row.pk)
        names = list(row.tools.exclude(released_sha256="").values_list("tool", flat=True))
        its_tools = RegisteredTool.objects.filter(tenant=row.tenant_id, name__in=names)
        its_tools.update(is_withdrawn=True)
        for name in names:  # nothing of it is called any more, and nobody could accept it
            brakes.end_hold(row.tenant_id, name, by=by, via=via)
        _record(row, ChangeKind.MCP_SERVER_REMOVED, by, via, withdrawn=names)
        row.delete()
        Watched.objects.filter(pk=row.watched_id).delete()


def upstream_named(tenant: str, name: str) -> McpUpstream:
    """Raises ``NotFound``."""
    row = McpUpstream.objects.filter(tenant=tenant, name=name).first()
    if row is None:
        raise NotFound(f"{tenant} has no MCP server named {name!r:.80}.")
    return row


def new_and_read_only(upstream: McpUpstream) -> list[UpstreamTool]:
    """The tools never released of which the server says that they only read, by name."""
    rows = upstream.tools.select_related("upstream__tenant").filter(state=State.NEW, problem="")
    return [row for row in rows.order_by("name") if row.hints.get("readOnlyHint") is True]


def draft(row: UpstreamTool, *, is_readonly: bool = False, **terms: Any) -> McpManifest:
    """The manifest of a tool as its list has it now: the strictest contract there is, or, where
    it was released before, the terms of then; ``terms`` take their place, a ``description`` that
    of the server.

    Raises ``UpstreamRefused``.
    """
    _check_is_there(row)
    kept = _kept(row) or {"contract": _strictest(row)}
    try:
        return McpManifest.read(
            {
                **kept,
                "description": _description_of(row),
                **terms,
                "kind": "mcp",
                "name": row.tool,
                "upstream": row.upstream.name,
                "address": row.upstream.address,
                "credential": row.upstream.credential,
                "tool": row.name,
                "arguments": closed(row.definition.get("inputSchema")),
                "sha256_of_definition": row.sha256,
                "is_readonly": is_readonly or kept.get("is_readonly", False),
            }
        )
    except ManifestRefused as refusal:
        raise UpstreamRefused(f"{row.name} cannot be offered: {refusal}") from refusal


def _kept(row: UpstreamTool) -> dict[str, Any] | None:
    """The version before, whose terms operators have set; ``None`` if there was none."""
    return _kept_of(row.upstream.tenant_id, row.tool) if row.released_sha256 else None


def _kept_of(tenant: str, name: str) -> dict[str, Any] | None:
    registered = RegisteredTool.objects.filter(tenant=tenant, name=name).first()
    if registered is None:
        return None
    kept = ToolVersion.objects.get(tenant=tenant, name=name, sha256=registered.version)
    return dict(kept.manifest)


def _strictest(row: UpstreamTool) -> dict[str, Any]:
    key = f"{row.tool}:{{tenant}}:{{{ALL_ARGUMENTS}}}"
    return {"owner_service": row.upstream.name, "operation_key": key}


def _description_of(row: UpstreamTool) -> str:
    """The server's own, without tags: agents would read them as the frame of their instructions."""
    text = row.definition.get("description")
    text = TAG.sub("", text).strip() if isinstance(text, str) else ""
    return text if len(text) <= DESCRIPTION_MOST else f"{text[: DESCRIPTION_MOST - 1]}…"


def closed(schema: Any) -> dict[str, Any]:
    """The schema of the arguments, which nothing may be added to."""
    if not isinstance(schema, dict):
        return {}
    return {"properties": {}, **schema, "additionalProperties": False}


def accept(tenant: str, manifest: McpManifest) -> None:
    """Note that an operator registers the tool as its list has it now: this releases it.

    Raises ``UpstreamRefused`` for a definition or an address that is not the present one.
    """
    upstream = _locked(tenant=tenant, name=manifest.upstream)
    row = _tools_of(upstream).filter(name=manifest.tool).first()
    if row is None:
        raise UpstreamRefused(f"{manifest.upstream} lists no tool named {manifest.tool!r:.80}.")
    _check(row, manifest)
    row.state, row.why, row.changed_at = State.RELEASED, "", Now()
    row.released_sha256, row.released_definition = row.sha256, row.definition
    row.its_others = {
        call.tool: call.sha256
        for role in McpManifest.others
        if (call := getattr(manifest, role)) is not None
    }
    row.save()


def _tools_of(locked: McpUpstream | None) -> QuerySet[UpstreamTool]:
    return UpstreamTool.objects.select_related("upstream").filter(upstream=locked)


def _check_is_there(row: UpstreamTool) -> None:
    if row.state == State.GONE or row.problem:
        raise UpstreamRefused(f"{row.name} cannot be offered. {row.problem or row.why}")


def _check(row: UpstreamTool, manifest: McpManifest) -> None:
    _check_is_there(row)
    if row.sha256 != manifest.sha256_of_definition:
        raise UpstreamRefused(
            f"{row.name} is not as it was when this was written down: look at it again "
            f"(its definition is {row.sha256[:12]} now)."
        )
    upstream = row.upstream
    kept = _kept_of(upstream.tenant_id, manifest.name)
    if kept and (kept.get("upstream"), kept.get("tool")) != (manifest.upstream, manifest.tool):
        raise UpstreamRefused(f"{manifest.name} is a tool of another server, or of none.")
    if (manifest.address, manifest.credential) != (upstream.address, upstream.credential):
        raise UpstreamRefused(f"{upstream.name} is at {upstream.address}, with another credential.")
    if manifest.name != definitions.our_name(upstream.name, row.name):
        raise UpstreamRefused(f"Its name here is {definitions.our_name(upstream.name, row.name)}.")
    if manifest.arguments != closed(row.definition.get("inputSchema")):
        raise UpstreamRefused("Its arguments are those of the server's own schema.")
    for role in McpManifest.others:
        call = getattr(manifest, role)
        if (
            call is not None
            and not row.upstream.tools.filter(name=call.tool, sha256=call.sha256).exists()
        ):
            raise UpstreamRefused(f"{role}: {call.tool} is not listed with this definition.")


def hold(row: UpstreamTool, why: str, *, by: Principal, via: Surface) -> None:
    """Hold a released tool by hand."""
    with atomic():
        row = _tools_of(_locked(pk=row.upstream_id)).get(pk=row.pk)
        if row.state == State.RELEASED:
            hold_row(row, why or "An operator holds it.", by=by, via=via)
            row.save()


def released_sha256(tenant: str, upstream: str, address: str, name: str) -> str:
    """The hash of the definition that may be called there; empty while the tool is held."""
    of_upstream = {"upstream__tenant": tenant, "upstream__name": upstream}
    rows = UpstreamTool.objects.filter(
        **of_upstream, upstream__address=address, name=name, state=State.RELEASED
    )
    return rows.values_list("released_sha256", flat=True).first() or ""


def _record(row: McpUpstream, kind: ChangeKind, by: Principal, via: Surface, **told: Any) -> None:
    record_change(
        f"mcp_server:{row.tenant_id}/{row.name}",
        kind,
        tenant=row.tenant_id,
        by=by,
        via=via,
        name=row.name,
        details={name: sealable(value) for name, value in told.items()},
    )
