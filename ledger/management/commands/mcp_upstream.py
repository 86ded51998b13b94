"""``manage.py mcp_upstream``: registers MCP servers of others, and releases their tools."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError

from ledger.errors import LedgerError
from ledger.events import command_principal
from ledger.foundation import characters
from ledger.models import McpUpstream, Tenant, UpstreamTool
from ledger.principals import Surface
from ledger.tools import mcp_upstreams, registrations, watched
from ledger.tools.mcp_upstreams import UpstreamRefused

VERBS = {
    "add": "register a server, or change where it is, and read its list of tools",
    "sync": "read its list of tools again now",
    "list": "say what each of its tools is here",
    "show": "print the manifest of a tool, for `tools apply`",
    "release": "offer a tool with the strictest contract, or with the one that it had",
    "hold": "offer a tool no more, and let nobody sign off what is pending",
    "remove": "forget the server; its tools are withdrawn",
}


class Command(BaseCommand):
    help = "Registers MCP servers; each of their tools is held until an operator has released it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        for verb, what in VERBS.items():
            of_verb = verbs.add_parser(verb, help=what)
            of_verb.add_argument("name", help="of the server; its tools' names begin with it")
            if verb in {"show", "release", "hold"}:
                of_verb.add_argument("tool", help="as the server calls it")
            if verb in {"show", "release"}:
                of_verb.add_argument(
                    "--read-only", action="store_true", help="runs at once, without sign-off"
                )
            if verb == "release":
                of_verb.add_argument(
                    "--definition", default="", help="the hash that `list` has shown: no other"
                )
            if verb == "add":
                of_verb.add_argument("address", help="http(s)://… or stdio:NAME of the settings")
                of_verb.add_argument("--credential", default="", help="what it asks for, by name")
            of_verb.add_argument("--tenant", required=True)

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        try:
            getattr(self, f"_{verb}")(**options)
        except (LedgerError, UpstreamRefused, registrations.Refused) as refusal:
            raise CommandError(f"{refusal} Nothing was changed.") from refusal

    def _add(self, *, name: str, address: str, credential: str, tenant: str, **_: Any) -> None:
        tenant_row = Tenant.objects.filter(slug=tenant).first()
        if tenant_row is None:
            raise CommandError(f"There is no tenant {tenant!r:.80}.")
        by, via = command_principal(), Surface.COMMAND
        mcp_upstreams.add(tenant_row, name, address, credential=credential, by=by, via=via)
        self._sync(name=name, tenant=tenant)

    def _sync(self, *, name: str, tenant: str, **_: Any) -> None:
        row = mcp_upstreams.upstream_named(tenant, name)
        if problem := watched.read_now(row.watched_id):
            row.refresh_from_db()
            written = f"\nIts standard error:\n{row.stderr}" if row.stderr else ""
            why = f"its list could not be read: {problem}{written}"
            raise CommandError(f"{name} is registered; {why}")
        self._list(name=name, tenant=tenant)

    def _list(self, *, name: str, tenant: str, **_: Any) -> None:
        row = mcp_upstreams.upstream_named(tenant, name)
        spoken = f"MCP {row.revision}" if row.revision else "not read yet"
        self.stdout.write(f"{row.name}: {row.address}, {spoken}. {row.watched.error}".rstrip())
        for tool in row.tools.order_by("name"):
            hints = ", ".join(f"{hint} {value}" for hint, value in tool.hints.items())
            line = f"  {tool.name}: {tool.get_state_display()}. {tool.problem or tool.why}"
            hint_sentence = f" It says: {hints}." if hints else ""
            definition = f" Definition {tool.sha256[:12]}." if tool.sha256 else ""
            self.stdout.write(_plain(f"{line.rstrip()}{hint_sentence}{definition}"))
            for member, (before, now) in tool.differences.items():
                self.stdout.write(f"    {member}: {json.dumps(before)} → {json.dumps(now)}")
        if row.stderr:
            self.stdout.write(f"Its standard error when it last failed:\n{row.stderr}")

    def _show(self, *, name: str, tenant: str, tool: str, read_only: bool, **_: Any) -> None:
        row = _tool(mcp_upstreams.upstream_named(tenant, name), tool)
        manifest = mcp_upstreams.draft(row, is_readonly=read_only).as_json()
        whole = {"tenant": tenant, "tools": [manifest]}
        self.stdout.write(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True))

    def _release(
        self, *, name: str, tenant: str, tool: str, read_only: bool, definition: str, **_: Any
    ) -> None:
        row = _tool(mcp_upstreams.upstream_named(tenant, name), tool)
        if not row.sha256.startswith(definition):
            raise CommandError(f"{tool} is {row.sha256[:12]} by now: list it again.")
        manifest = mcp_upstreams.draft(row, is_readonly=read_only)
        by, via = command_principal(), Surface.COMMAND
        registrations.register(row.upstream.tenant, manifest, by=by, via=via)
        how = "runs at once and is recorded" if read_only else "needs sign-off"
        self.stdout.write(f"{manifest.name}: released ({manifest.sha256[:12]}); it {how}.")

    def _hold(self, *, name: str, tenant: str, tool: str, **_: Any) -> None:
        row = _tool(mcp_upstreams.upstream_named(tenant, name), tool)
        by, via = command_principal(), Surface.COMMAND
        mcp_upstreams.hold(row, "", by=by, via=via)
        self.stdout.write(f"{tool} is held.")

    def _remove(self, *, name: str, tenant: str, **_: Any) -> None:
        row = mcp_upstreams.upstream_named(tenant, name)
        mcp_upstreams.remove(row, by=command_principal(), via=Surface.COMMAND)
        self.stdout.write(f"{name} was removed; its tools are withdrawn.")


def _plain(text: str) -> str:
    """Text that a server wrote, in one line and without what a terminal would obey."""
    indent = len(text) - len(text.lstrip(" "))
    return " " * indent + characters.cleaned(characters.one_line(text))


def _tool(upstream: McpUpstream, name: str) -> UpstreamTool:
    row = upstream.tools.select_related("upstream__tenant").filter(name=name).first()
    if row is None:
        raise CommandError(f"{upstream.name} lists no tool named {name!r:.80}.")
    return row
