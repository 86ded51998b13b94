"""``McpTool`` and ``McpReadonlyTool``: tools that an MCP server carries out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from ledger import seals
from ledger.contracts import (
    Context,
    NothingHappened,
    NothingHappenedYet,
    Plan,
    ReadonlyTool,
    Role,
    key_fields,
)
from ledger.foundation.http_out import Credentials, CredentialUnusable
from ledger.foundation.telemetry import tracing
from ledger.tools.manifests import ManifestTool, McpManifest, UpstreamCall, filled_in, model_of
from ledger.tools.mcp import answers, client, definitions, wire
from ledger.tools.mcp.answers import TEXT_MOST
from ledger.tools.mcp.talks import Talk
from ledger.tools.mcp.wire import Json, NothingSent, ServerError

# May stand in an operation key: a hash of every argument. An argument of this name comes first.
ALL_ARGUMENTS = "all_arguments"
EVERY_CALL = "An operator has to look at the tool first"
# The revision that a server speaks, and its tools by name.
Listed = tuple[str, dict[str, Json]]


@dataclass(frozen=True, slots=True)
class Upstream:
    """Facts that are known of the server when a tool is called."""

    owner: str  # its tenant and name
    # The hash of the definition that operators have released; empty while the tool is held.
    released: Callable[[str], str]
    # Finds our credentials for an address; raises ``CredentialUnusable``.
    showing: Callable[[str], Credentials]
    # The revision of MCP that it last spoke; empty if that is not known.
    revision: Callable[[], str]
    # Keeps for operators what a program said of its failure.
    note_stderr: Callable[[str], None]
    # Holds what a list, read for a call, has otherwise than it was released.
    hold_what_differs: Callable[[Listed], None]


class McpTool(ManifestTool):
    """One version of a tool of an MCP server. Equal manifests are equal tools."""

    manifest: McpManifest

    def __init__(self, manifest: McpManifest, upstream: Upstream) -> None:
        roles = [role for role in McpManifest.others if getattr(manifest, role) is not None]
        super().__init__(manifest, companions=roles)
        self.upstream = upstream
        self.runs_at, self.asked_over = host_of(manifest.address), "mcp"

    @property
    def names_of_key(self) -> frozenset[str]:
        return super().names_of_key | {ALL_ARGUMENTS}

    def operation_key_for(self, tenant: str, arguments: Mapping[str, Any]) -> str:
        every = {ALL_ARGUMENTS: seals.digest_of(dict(arguments))[:32]}
        return super().operation_key_for(tenant, {**every, **arguments})

    @property
    def editable_arguments(self) -> list[str]:
        """None of them where all of them together identify the operation."""
        is_hash = ALL_ARGUMENTS not in self.arguments_model.model_fields
        if is_hash and ALL_ARGUMENTS in key_fields(self.contract.operation_key):
            return []
        return super().editable_arguments

    def run(self, role: Role, arguments: BaseModel, context: Context) -> Any:
        """Call the server. Raises ``NothingHappened`` where that is certain; anything else that
        it raises means that the outcome is not known."""
        given = arguments.model_dump(mode="json")
        if role == "execute":
            with _of_this_call_only(context.attempt > 1):
                return self._execute(given, context)
        other: Any = getattr(self.manifest, role)
        if role == "compensate" and not self.upstream.released(self.manifest.tool):
            raise NothingHappenedYet(f"{EVERY_CALL}: {self.manifest.tool} is held.")
        with _of_this_call_only(role == "find_receipt"):
            result = self._call_other(other, given, context)
        match role:
            case "plan":
                return self._plan_in(answers.done(result, errors_mean_nothing=True), arguments)
            case "still_valid":
                return answers.truth_at(answers.done(result), other.valid)
            case "compensate":
                return answers.kept(answers.done(result), other.receipt)["id"]
            case _:
                return _receipt_in(result, other.receipt, is_complete=other.is_complete)

    def _execute(self, given: Json, context: Context) -> Json:
        manifest = self.manifest
        result = self._call(manifest.tool, self.upstream.released(manifest.tool), given, context)
        result = answers.done(result, errors_mean_nothing=manifest.errors_mean_nothing_happened)
        return answers.kept(result, manifest.receipt)

    def _call_other(self, other: UpstreamCall, given: Json, context: Context) -> Json:
        values = {
            **given,
            "operation_key": context.operation_key,
            "tenant": context.tenant,
            "transaction_id": str(context.transaction_id),
            "receipt": context.receipt,
        }
        filled = filled_in(other.arguments, values)
        return self._call(other.tool, other.sha256, filled, context)

    def _call(self, tool: str, released: str, given: Json, context: Context) -> Json:
        meta: Json = {wire.OPERATION_KEY: context.operation_key, **tracing.headers()}
        if context.lease_until:
            meta[wire.LEASE_UNTIL] = context.lease_until.isoformat()
        timeout, address = context.timeout, self.manifest.address
        return call(address, self.upstream, tool, released, given, timeout, meta)

    def _plan_in(self, result: Json, arguments: BaseModel) -> Plan:
        """The server's own words, as ``plan`` of the manifest says where they stand."""
        plan: Any = self.manifest.plan
        path = plan.summary
        text = answers.receipt_at(result, path, TEXT_MOST) if path else answers.text_in(result)
        return Plan(summary=text) if text else self.plain_plan(arguments)


class McpReadonlyTool(ReadonlyTool):
    """A tool of an MCP server that operators have released as one without effects."""

    def __init__(self, manifest: McpManifest, upstream: Upstream) -> None:
        terms = manifest.contract
        super().__init__(_not_here, terms.owner_service, timedelta(seconds=terms.timeout_s))
        self.manifest, self.upstream = manifest, upstream
        self.name, self.description = manifest.name, manifest.description
        self.runs_at, self.asked_over = host_of(manifest.address), "mcp"

    @cached_property
    def arguments_model(self) -> type[BaseModel]:
        return model_of(self.manifest.arguments, self.name)

    def read(self, arguments: BaseModel) -> Any:
        """Raises for everything that is not a result."""
        tool = self.manifest.tool
        result = call(
            self.manifest.address,
            self.upstream,
            tool,
            self.upstream.released(tool),
            arguments.model_dump(mode="json"),
            self.timeout,
            {},
        )
        return answers.structured_or_text(answers.done(result))


def call(
    address: str,
    upstream: Upstream,
    tool: str,
    released: str,
    arguments: Json,
    timeout: timedelta,
    meta: Json,
) -> Json:
    """The result of a tool whose definition is still the released one.

    Raises ``NothingHappened`` where the call was not made, or was refused before it began. A tool
    that has changed is held before that is told.
    """
    if not released:
        raise NothingHappened(f"{EVERY_CALL}: {tool} is held.")

    async def say(talk: Talk) -> Json:
        listed = await talk.tools()
        definition = listed.get(tool)
        if definition is None or definitions.digest_of(definition) != released:
            what = "is not there any more" if definition is None else "has changed"
            why = f"{EVERY_CALL}: {tool} {what} at {host_of(address)}."
            raise _Differs(why, (talk.revision, listed))
        return await talk.call(tool, arguments, meta)

    try:
        shown = upstream.showing(address)
        return client.talk(
            address,
            say,
            owner=upstream.owner,
            timeout_s=timeout.total_seconds(),
            shown=shown,
            revision=upstream.revision(),
            note_stderr=upstream.note_stderr,
        )
    except _Differs as refusal:  # held here: database queries are refused inside the talk
        upstream.hold_what_differs(refusal.listed)
        raise NothingHappened(str(refusal)) from None
    except (NothingSent, CredentialUnusable) as failure:
        raise NothingHappenedYet(answers.shown(str(failure), most=1000)) from failure
    except ServerError as failure:
        answers.check_error(failure)
        raise


class _Differs(Exception):
    """The list that was read for a call has the tool otherwise than it was released."""

    def __init__(self, why: str, listed: Listed) -> None:
        super().__init__(why)
        self.listed = listed


@contextmanager
def _of_this_call_only(another_came_before: bool) -> Iterator[None]:
    """A call that was refused, or not made, proves nothing of one that was made before it."""
    try:
        yield
    except NothingHappened as refusal:
        if another_came_before:
            raise NothingHappenedYet(str(refusal)) from refusal
        raise


def host_of(address: str) -> str:
    """The place where it runs, as people are told: the host, or the program's name."""
    return urlsplit(address).netloc or address


def _receipt_in(result: Json, path: str, *, is_complete: bool) -> Json | None:
    """The value that ``find_receipt`` of a Python tool would return."""
    if result.get("isError") not in (None, False):
        return None
    path = path or "id"
    if answers.receipt_at(result, path):
        return answers.kept(result, path)
    if is_complete and isinstance(result.get("structuredContent"), Mapping):
        raise NothingHappened("The server has no such operation, and its records are complete.")
    return None


def _not_here(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("The tool is not a function of this process.")
