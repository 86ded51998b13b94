"""The manifest of a tool of an MCP server (docs/mcp-gateway.md): which one, and what it answers."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from ledger.foundation import http_out
from ledger.tools.manifests.base import Manifest, Strict, check_host

STDIO = "stdio:"
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,127}$")]
# Names of members, one below the other: "refund.id".
Path = Annotated[str, Field(pattern=r"^([A-Za-z0-9_-]{1,100}(\.[A-Za-z0-9_-]{1,100}){0,9})?$")]
# What templates may name besides the arguments.
OF_THE_CALL = frozenset({"operation_key", "tenant", "transaction_id"})


class UpstreamCall(Strict):
    """Another tool of the same server, and what it is asked: ``{"invoice": "{invoice}"}``."""

    tool: ToolName
    sha256: Sha256
    arguments: dict[str, Any] = {}


class PlanCall(UpstreamCall):
    """Called before sign-off, so it must have no effect. ``summary`` is where its text stands in
    the structured content; else the text of the answer is shown."""

    summary: Path = ""


class ReceiptCall(UpstreamCall):
    """Finds what became of an operation in doubt."""

    receipt: Path = ""  # empty: "id"
    # An answer without a receipt proves that it was not carried out and never will be.
    is_complete: bool = False


class ValidityCall(UpstreamCall):
    """Called before what was signed off is carried out, so it must have no effect. ``valid`` is
    where it says true or false in the structured content."""

    valid: Path = "still_valid"


class McpManifest(Manifest):
    """A tool of an MCP server, as it was when an operator released it."""

    added_later: ClassVar[frozenset[str]] = frozenset({"still_valid"})

    kind: Literal["mcp"] = "mcp"
    upstream: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,30}$")]
    address: Annotated[str, Field(max_length=500)]
    credential: Annotated[str, Field(max_length=63)] = ""
    tool: ToolName
    # Of the definition that the operator saw: name, description, schema and annotations.
    sha256_of_definition: Sha256
    # Runs at once, without sign-off, and is recorded.
    is_readonly: bool = False
    # Where the receipt stands in the structured content; empty: "id", or else the answer's hash.
    receipt: Path = ""
    # The server's word that a tool which reports an error has done nothing.
    errors_mean_nothing_happened: bool = False
    plan: PlanCall | None = None
    find_receipt: ReceiptCall | None = None
    compensate: ReceiptCall | None = None
    still_valid: ValidityCall | None = None

    others: ClassVar[tuple[Literal["plan", "find_receipt", "compensate", "still_valid"], ...]] = (
        "plan",
        "find_receipt",
        "compensate",
        "still_valid",
    )

    @field_validator("address")
    @classmethod
    def _can_be_called(cls, address: str) -> str:
        check_upstream_address(address)
        return address

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        calls = {role: call for role in self.others if (call := getattr(self, role)) is not None}
        if self.is_readonly and calls:
            raise ValueError("a tool without effects needs no plan, find_receipt and the like")
        named = {*self.arguments["properties"], *OF_THE_CALL}
        for role, call in calls.items():
            allowed = named | ({"receipt"} if role == "compensate" else set())
            for name in names_in(call.arguments):
                if name not in allowed:
                    raise ValueError(f"{role}: {{{name}}} is not an argument")
        return self


def check_upstream_address(address: str) -> None:
    """Raises ``ValueError`` for what is neither an http(s) address nor ``stdio:<name>``."""
    if address.startswith(STDIO):
        if not address.removeprefix(STDIO).replace("-", "_").isidentifier():
            raise ValueError("stdio: is followed by a name of ASSENT_MCP_COMMANDS")
        return
    try:
        http_out.check_form(address)
    except http_out.AddressRefused as refusal:
        raise ValueError(f"the address cannot be called: {str(refusal).rstrip('.')}") from None
    check_host(address)
    if "#" in address:
        raise ValueError("the address has no fragment")


def names_in(value: Any) -> Iterator[str]:
    """The names in every text of a template. Raises ``ValueError`` for a broken one."""
    if isinstance(value, str):
        for _, name, spec, conversion in string.Formatter().parse(value):
            if spec or conversion or (name is not None and not name.isidentifier()):
                raise ValueError(f"{{{name}}} must be the plain name of an argument")
            if name is not None:
                yield name
    elif isinstance(value, dict):
        for item in value.values():
            yield from names_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from names_in(item)


def filled_in(value: Any, values: dict[str, Any]) -> Any:
    """A template with its names replaced; a text that is one name becomes its value, of any type.

    Members whose value was not given are left out.
    """
    if isinstance(value, dict):
        filled = {name: filled_in(item, values) for name, item in value.items()}
        return {name: item for name, item in filled.items() if item is not None}
    if isinstance(value, list):
        return [filled_in(item, values) for item in value]
    if not isinstance(value, str):
        return value
    names = [*names_in(value)]
    if len(names) == 1 and value == f"{{{names[0]}}}":
        return values.get(names[0])
    return value.format(**{name: values.get(name, "") for name in names})
