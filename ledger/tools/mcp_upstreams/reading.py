"""Reading the list of an MCP server again: new tools wait, changed ones are held.

What an operator has not seen is never offered. A tool that is held stays so, whatever the list says
next, so that a list which changes at every look is one event in the audit log and not thousands.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger.contracts.results import clean, storable
from ledger.events import brakes
from ledger.foundation.characters import cleaned
from ledger.foundation.http_out import Credentials, CredentialUnusable
from ledger.models import McpUpstream, UpstreamTool, UpstreamToolState, Watched
from ledger.principals import Surface, system
from ledger.tools import credentials, watched
from ledger.tools.mcp import Json, Listed, NothingSent, NotProved, Talk, client, definitions

KIND = "mcp"
TIMEOUT_S = 20.0
STDERR_MOST = 2048
WATCH = system("mcp", "Watch over MCP servers")
State = UpstreamToolState


def read(document: Watched) -> Listed:
    return listed_at(McpUpstream.objects.get(watched=document))


def listed_at(row: McpUpstream) -> Listed:
    """The revision that the server speaks and its tools. Raises ``NothingSent``."""

    async def say(talk: Talk) -> Listed:
        return talk.revision, await talk.tools()

    shown = Credentials()
    if row.credential:
        shown = credentials.for_address(row.tenant_id, row.credential, row.address)
    note = partial(note_stderr, row.tenant_id, row.name, row.address)
    owner = f"{row.tenant_id}/{row.name}"
    return client.talk(
        row.address, say, owner=owner, timeout_s=TIMEOUT_S, shown=shown, note_stderr=note
    )


def note_stderr(tenant: str, upstream: str, address: str, text: str) -> None:
    """Keep for operators what a program said of its failure. Agents never see it."""
    rows = McpUpstream.objects.filter(tenant=tenant, name=upstream, address=address)
    rows.update(stderr=cleaned(clean(text, most=STDERR_MOST)))


def revision_of(tenant: str, upstream: str, address: str) -> str:
    """The revision of MCP that it last spoke; empty if that is not known."""
    rows = McpUpstream.objects.filter(tenant=tenant, name=upstream, address=address)
    return rows.values_list("revision", flat=True).first() or ""


def hold_what_differs(tenant: str, name: str, address: str, listed: Listed) -> None:
    """Compare a list that was read for a call, as one that the watch has read."""
    with atomic():
        documents = Watched.objects.select_for_update()
        of_server = {"upstream__tenant": tenant, "upstream__name": name}
        document = documents.filter(**of_server, upstream__address=address).first()
        if document is not None:  # else it was moved or removed meanwhile
            compare(document, listed)


def compare(document: Watched, document_read: Listed) -> None:
    """Keep what the list says now; hold what is not as it was released."""
    revision, listed = document_read
    upstream = McpUpstream.objects.get(watched=document)
    McpUpstream.objects.filter(pk=upstream.pk).update(revision=revision)
    tools = UpstreamTool.objects.select_related("upstream").filter(upstream=upstream)
    rows = {row.name: row for row in tools}
    names = Counter(definitions.our_name(upstream.name, name) for name in listed)
    for name, definition in listed.items():
        if name != clean(name, most=128):
            continue  # it cannot even be kept
        row = rows.pop(name) if name in rows else UpstreamTool(upstream=upstream, name=name)
        _note(row, definition, is_alone=names[definitions.our_name(upstream.name, name)] == 1)
    for row in rows.values():
        _is_gone(row)
    for row in tools.filter(state=State.RELEASED).all():
        _check_its_others(row, listed)


def _note(row: UpstreamTool, definition: Json, *, is_alone: bool) -> None:
    """Keep what the list says of a tool now; write it only if it says something else."""
    before = (row.sha256, row.state, row.problem, row.tool)
    row.tool, row.problem, sha256 = _read(row, definition)
    if not row.problem and not is_alone:
        row.problem = f"Another of its tools would be called {row.tool} here too."
    if row._state.adding or row.sha256 != sha256:
        row.sha256, row.definition, row.changed_at = sha256, storable(definition), Now()
    if row.state == State.RELEASED and (row.problem or sha256 != row.released_sha256):
        hold_row(row, row.problem or "Its definition has changed.")
    elif row.state == State.GONE:
        row.state, row.why = State.HELD, "It was gone from the list, and is there again."
    if row._state.adding or before != (row.sha256, row.state, row.problem, row.tool):
        row.save()


def _read(row: UpstreamTool, definition: Json) -> tuple[str, str, str]:
    """Its name here, why it cannot be offered, and the hash of its definition."""
    upstream = row.upstream.name
    try:
        sha256 = definitions.digest_of(definition)
    except NotProved as failure:
        return row.tool, cleaned(clean(str(failure))), ""
    if problem := definitions.why_no_name(upstream, row.name):
        return row.tool, problem, sha256
    return definitions.our_name(upstream, row.name), "", sha256


def _is_gone(row: UpstreamTool) -> None:
    """Forget what nobody ever released; else names that change would fill the table."""
    if not row.released_sha256:
        row.delete()
    elif row.state != State.GONE:
        hold_row(row, "It is gone from the list of the server.", state=State.GONE)
        row.save()


def _check_its_others(row: UpstreamTool, listed: dict[str, Json]) -> None:
    """Hold a tool whose plan, look-up or compensation is not what the operator saw."""
    for name, sha256 in row.its_others.items():
        definition = listed.get(name)
        if definition is None or definitions.digest_of(definition) != sha256:
            hold_row(row, f"The definition of {name}, which it relies on, has changed.")
            row.save()


def hold_row(
    row: UpstreamTool,
    why: str,
    *,
    state: UpstreamToolState = State.HELD,
    by: Any = WATCH,
    via: Surface = Surface.SYSTEM,
) -> None:
    row.state, row.why, row.changed_at = state, why, Now()
    brakes.hold(row.upstream.tenant_id, row.tool, f"{row.name}: {why}", by=by, via=via)


def register() -> None:
    unreadable = (NothingSent, CredentialUnusable, NotProved)
    watched.register(KIND, watched.Kind(read, compare, unreadable))
