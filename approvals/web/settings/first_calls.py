"""First calls of an agent: arguments from a tool's schema, with curl, MCP and Python."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from ledger.contracts import Tool, json_schemas
from ledger.errors import SchemaUnusable
from ledger.tools import tools_of

# Texts for a pattern: amounts, names, keys.
AMOUNT = "10.00"
CANDIDATES = (AMOUNT, "10", "example", "EUR", "pay_1042", "A1")
TELLING = frozenset({"examples", "enum", "const", "default"})
DEPTH = 12  # of schemas within schemas; what is deeper is left empty
MOST_ITEMS, LONGEST = 3, 200


@dataclass(frozen=True, slots=True)
class FirstCall:
    """One proposal in the three ways in which an agent can make it."""

    tool: str
    is_guess: bool  # the arguments are no examples that the tool gives
    curl: str
    mcp: str
    python: str


def first_call(tenant: str, token: str, allowed: list[str]) -> FirstCall | None:
    """With a tool that the agent may use, rather one with examples; ``None`` if there is none."""
    tools = tools_of({tenant})
    names = sorted(tools) if "*" in allowed else [name for name in sorted(allowed) if name in tools]
    if not names:
        return None
    name = next((name for name in names if gives_examples(tools[name])), names[0])
    arguments = example_for(tools[name])
    return FirstCall(
        tool=name,
        is_guess=not gives_examples(tools[name]),
        curl=_curl(token, name, arguments),
        mcp=_mcp(token),
        python=_python(token, name, arguments),
    )


def gives_examples(tool: Tool[Any, Any]) -> bool:
    """True if the schema has an example, or the only value, of every required argument."""
    try:
        schema = tool.arguments_model.model_json_schema()
        members, required = schema.get("properties", {}), schema.get("required", ())
        return all(_tells(members[name]) for name in required)
    except (AttributeError, KeyError, SchemaUnusable, TypeError):
        return False


def examples_of(tool: Tool[Any, Any]) -> dict[str, Any]:
    """The values that the schema itself gives, by argument: nothing is guessed."""
    made = example_for(tool)
    if not made or not isinstance(made, dict):
        return {}
    members = tool.arguments_model.model_json_schema()["properties"]
    return {name: value for name, value in made.items() if _tells(members[name])}


def _tells(schema: Any) -> bool:
    return isinstance(schema, dict) and not TELLING.isdisjoint(schema)


def example_for(tool: Tool[Any, Any]) -> Any:
    """Arguments of the tool; none where its schema allows no guess."""
    try:
        return example_of(tool.arguments_model.model_json_schema())
    except (ArithmeticError, AttributeError, KeyError, SchemaUnusable, TypeError, ValueError):
        return {}


def _curl(token: str, tool: str, arguments: Any) -> str:
    body = json.dumps({"tool": tool, "arguments": arguments, "reason": "A first try."})
    return (
        f"curl {settings.PUBLIC_URL.rstrip('/')}/api/v1/transactions \\\n"
        f"  -H 'Authorization: Bearer {token}' \\\n"
        f"  -H 'Idempotency-Key: first-{tool}' \\\n"
        f"  -H 'Content-Type: application/json' \\\n"
        f"  -d {shlex.quote(body)}"
    )


def _mcp(token: str) -> str:
    return (
        f"claude mcp add --transport http assent {settings.LIVE_URL.rstrip('/')}/mcp \\\n"
        f"  --header 'Authorization: Bearer {token}'"
    )


def _python(token: str, tool: str, arguments: Any) -> str:
    """With the client that examples/frameworks has, to be copied beside the program."""
    return (
        "from assent_client import Assent\n\n"
        f'assent = Assent("{settings.PUBLIC_URL.rstrip("/")}", "{token}")\n'
        f"intent = assent.prepare({tool!r}, {arguments!r}, reason='A first try.')\n"
        "outcome = assent.wait(intent.transaction_id, timeout=60)"
    )


def example_of(schema: Any) -> Any:
    """A value that fits a JSON Schema as well as can be guessed; optional members are left out."""
    return _value(schema, schema.get("$defs", {}) if isinstance(schema, dict) else {}, 0)


def _value(schema: Any, named: dict[str, Any], depth: int) -> Any:
    """``None`` where the schema is too deep, or no object: ``true`` lets anything in."""
    if not isinstance(schema, dict) or depth > DEPTH:
        return None
    if isinstance(schema.get("$ref"), str):
        return _value(named.get(schema["$ref"].rpartition("/")[2]), named, depth + 1)
    for member in ("examples", "enum"):
        if isinstance(schema.get(member), list) and schema[member]:
            return schema[member][0]
    for member in ("const", "default"):
        if member in schema:
            return schema[member]
    for member in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(member), list) and schema[member]:
            return _of_alternatives(schema[member], named, depth)
    return _of_type(schema, named, depth)


def _of_alternatives(every: list[Any], named: dict[str, Any], depth: int) -> Any:
    """A value that may be a number or a text is an amount, and those are written as texts."""
    types = {str(each.get("type")) for each in every if isinstance(each, dict)}
    return AMOUNT if {"number", "string"} <= types else _value(every[0], named, depth + 1)


def _of_type(schema: dict[str, Any], named: dict[str, Any], depth: int) -> Any:
    match schema.get("type"):
        case "object":
            members = schema.get("properties", {})
            required = [name for name in schema.get("required", ()) if name in members]
            return {name: _value(members[name], named, depth + 1) for name in required}
        case "array":
            number = min(int(schema.get("minItems", 0)), MOST_ITEMS)
            return [_value(schema.get("items", {}), named, depth + 1)] * number
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return False
        case "string":
            return _text(schema)
        case _:
            return None


def _number(schema: dict[str, Any]) -> Any:
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    return least + 1 if "exclusiveMinimum" in schema or not least else least


def _text(schema: dict[str, Any]) -> str:
    formats = {"date": "2027-01-15", "date-time": "2027-01-15T09:00:00Z", "email": "a@example.com"}
    text = formats.get(str(schema.get("format")), "example")
    least = min(int(schema.get("minLength", 0)), LONGEST)
    for candidate in (*CANDIDATES, text.ljust(least, "x")) if "pattern" in schema else ():
        if not json_schemas.misfits(schema, candidate):  # in linear time, whatever the pattern
            return candidate
    return text.ljust(least, "x")[: int(schema.get("maxLength", LONGEST))]
