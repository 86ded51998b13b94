"""``manage.py mcp_upstream``: registers MCP servers of others, and releases their tools."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, BooleanOptionalAction
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError
from django.db.transaction import atomic

from ledger import seals
from ledger.errors import LedgerError
from ledger.events import command_principal
from ledger.foundation import characters
from ledger.models import McpUpstream, Tenant, UpstreamTool
from ledger.principals import Surface
from ledger.tools import mcp_upstreams, registrations, watched
from ledger.tools.manifests import McpManifest
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
                nargs = "?" if verb == "release" else None
                of_verb.add_argument("tool", nargs=nargs, help="as the server calls it")
            if verb in {"show", "release"}:
                of_verb.add_argument(
                    "--description", default="", help="for your agents, in place of the server's"
                )
                of_verb.add_argument(
                    "--read-only", action="store_true", help="runs at once, without sign-off"
                )
                of_verb.add_argument(
                    "--errors-mean-nothing-happened",
                    action=BooleanOptionalAction,
                    help="whether the tool, when it reports an error, has surely done nothing; "
                    "if not, each error is in doubt until a person has looked",
                )
            if verb == "release":
                of_verb.add_argument(
                    "--all-read-only",
                    action="store_true",
                    help="in place of a tool: every new one of which the server says that it "
                    "only reads; without --definition they are only listed",
                )
                of_verb.add_argument(
                    "--definition", default="", help="the hash that was shown: no other"
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

    def _show(self, *, name: str, tenant: str, tool: str, **options: Any) -> None:
        row = _tool(mcp_upstreams.upstream_named(tenant, name), tool)
        manifest = _draft(row, **options)
        whole = {"tenant": tenant, "tools": [manifest.as_json()]}
        self.stdout.write(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True))

    def _release(
        self,
        *,
        name: str,
        tenant: str,
        tool: str | None,
        definition: str,
        all_read_only: bool,
        **options: Any,
    ) -> None:
        upstream = mcp_upstreams.upstream_named(tenant, name)
        if all_read_only == (tool is not None):
            raise CommandError("Name a tool, or say --all-read-only.")
        if all_read_only:
            self._release_all_read_only(upstream, definition)
            return
        row = _tool(upstream, tool or "")
        if not row.sha256.startswith(definition):
            raise CommandError(f"{tool} is {row.sha256[:12]} by now: list it again.")
        is_open = options["errors_mean_nothing_happened"] is None and not row.released_sha256
        if is_open and not options["read_only"] and sys.stdin.isatty():
            options |= self._asked(row)
        self._register(row, _draft(row, **options))

    def _release_all_read_only(self, upstream: McpUpstream, definition: str) -> None:
        rows = mcp_upstreams.new_and_read_only(upstream)
        if not rows:
            raise CommandError(f"{upstream.name} has no new tool that says it only reads.")
        digest = seals.digest_of({row.name: row.sha256 for row in rows})
        if definition and digest.startswith(definition):
            with atomic():
                for row in rows:
                    self._register(row, mcp_upstreams.draft(row, is_readonly=True))
            return
        for row in rows:
            described = str(row.definition.get("description") or "")
            self.stdout.write(_plain(f"  {row.name}: {described[:200]}"))
        if definition:
            raise CommandError(f"The list is {digest[:12]} by now: look at it again.")
        self.stdout.write(
            f"Nothing was released. To release these {len(rows)}, which then run at once, add "
            f"--definition {digest[:12]}"
        )

    def _register(self, row: UpstreamTool, manifest: McpManifest) -> None:
        by, via = command_principal(), Surface.COMMAND
        registrations.register(row.upstream.tenant, manifest, by=by, via=via)
        how = "runs at once and is recorded" if manifest.is_readonly else "needs sign-off"
        self.stdout.write(f"{manifest.name}: released ({manifest.sha256[:12]}); it {how}.")
        self.stdout.write(
            _plain(f"  This text will be read by your agents: {manifest.description}")
        )

    def _asked(self, row: UpstreamTool) -> dict[str, bool]:
        """The answer of the operator at a terminal to what the server's list cannot say."""
        answer = input(
            f"When {row.name} reports an error, has it surely done nothing? If not, or if you do "
            "not know, each error is in doubt until a person has looked. [y/N] "
        )
        return {"errors_mean_nothing_happened": answer.strip().lower() in {"y", "yes"}}

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


def _draft(
    row: UpstreamTool,
    *,
    read_only: bool,
    errors_mean_nothing_happened: bool | None,
    description: str,
    **_: Any,
) -> McpManifest:
    terms: dict[str, Any] = {"description": description} if description else {}
    if errors_mean_nothing_happened is not None:
        terms["errors_mean_nothing_happened"] = errors_mean_nothing_happened
    return mcp_upstreams.draft(row, is_readonly=read_only, **terms)


def _tool(upstream: McpUpstream, name: str) -> UpstreamTool:
    row = upstream.tools.select_related("upstream__tenant").filter(name=name).first()
    if row is None:
        raise CommandError(f"{upstream.name} lists no tool named {name!r:.80}.")
    return row
