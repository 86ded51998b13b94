"""From the JSON Schema of a question to the fields that a person fills in, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

LONG_TEXT = 120  # characters; from here on a field has several lines


@dataclass(frozen=True, slots=True)
class Choice:
    value: str  # as JSON, so that 1 and "1" differ
    label: str


@dataclass(frozen=True, slots=True)
class Field:
    """One input. ``kind`` is choice, several, yes_no, number, text, lines or json."""

    name: str
    label: str
    kind: str
    help: str = ""
    is_required: bool = True
    choices: list[Choice] = field(default_factory=list)
    step: str = "any"
    default: str = ""

    @property
    def input_name(self) -> str:
        return f"answer.{self.name}" if self.name else "answer"


def fields_of(schema: dict[str, Any]) -> list[Field]:
    """An object gives a field for each property; anything else is one field."""
    properties = schema.get("properties")
    if schema.get("type") == "object" and isinstance(properties, dict) and properties:
        required = set(schema.get("required") or [])
        return [
            _field(name, part if isinstance(part, dict) else {}, name in required)
            for name, part in properties.items()
        ]
    return [_field("", schema, True)]


def _field(name: str, schema: dict[str, Any], is_required: bool) -> Field:
    kind = _kind(schema)
    items = schema.get("items")
    of_choice = items if kind == "several" and isinstance(items, dict) else schema
    said = str(schema.get("title") or name.replace("_", " ").capitalize() or "Your answer")
    default = schema.get("default")
    return Field(
        name=name,
        label=said[:200],
        kind=kind,
        help=str(schema.get("description") or "")[:500],
        is_required=is_required,
        choices=list(_choices(of_choice)),
        step="1" if schema.get("type") == "integer" else "any",
        default="" if default is None else _plain(default),
    )


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _kind(schema: dict[str, Any]) -> str:
    if any(_choices(schema)):
        return "choice"
    match schema.get("type"):
        case "boolean":
            return "yes_no"
        case "number" | "integer":
            return "number"
        case "array" if isinstance(schema.get("items"), dict) and any(_choices(schema["items"])):
            return "several"
        case "string" if int(schema.get("maxLength") or 0) in range(1, LONG_TEXT):
            return "text"
        case "string" | None if not schema.get("properties"):
            return "lines"
    return "json"


def _choices(schema: dict[str, Any]) -> Iterator[Choice]:
    """``enum``, or ``oneOf`` with a ``const`` and a ``title`` each."""
    for value in schema.get("enum") or []:
        yield Choice(json.dumps(value), _plain(value))
    for option in schema.get("oneOf") or []:
        if isinstance(option, dict) and "const" in option:
            title = str(option.get("title") or _plain(option["const"]))
            yield Choice(json.dumps(option["const"]), title)


class Unreadable(Exception):
    """A field holds what cannot be what it asks for. ``field`` is its name."""

    def __init__(self, text: str, field: str) -> None:
        super().__init__(text)
        self.field = field


def answer_from(said: QueryDict, schema: dict[str, Any]) -> Any:
    """What a person filled in, in the shape of the schema. Raises ``Unreadable``."""
    fields = fields_of(schema)
    if len(fields) == 1 and not fields[0].name:
        return _value(said, fields[0])
    found = {}
    for one in fields:
        value = _value(said, one)
        if value is not None or one.is_required:
            found[one.name] = value
    return {name: value for name, value in found.items() if value is not None}


def _value(said: QueryDict, one: Field) -> Any:
    text = said.get(one.input_name, "").replace("\r\n", "\n").strip()
    if one.kind == "several":
        return [_read(item, one) for item in said.getlist(one.input_name)]
    if not text:
        return "" if one.is_required and one.kind in {"text", "lines"} else None
    if one.kind == "yes_no":
        return text == "true"
    if one.kind in {"choice", "number", "json"}:
        return _read(text, one)
    return text


def _read(text: str, one: Field) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        what = "a number" if one.kind == "number" else "JSON"
        raise Unreadable(f"{one.label}: this is not {what}.", one.name) from None
