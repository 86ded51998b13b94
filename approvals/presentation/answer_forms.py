"""Form fields from the JSON Schema of a question, and the answer from the filled-in form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _

LONG_TEXT = 120  # characters; a text that may be longer gets a field of several lines


@dataclass(frozen=True, slots=True)
class Choice:
    value: str  # as JSON, so that 1 and "1" differ
    label: str


@dataclass(frozen=True, slots=True)
class Field:
    """One input of the form. ``kind`` is choice, several, yes_no, number, text, lines or json."""

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
    """One field for each property of an object schema; one field for any other schema."""
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
    choice_schema = items if kind == "several" and isinstance(items, dict) else schema
    label = str(schema.get("title") or name.replace("_", " ").capitalize() or _("Your answer"))
    default = schema.get("default")
    return Field(
        name=name,
        label=label[:200],
        kind=kind,
        help=str(schema.get("description") or "")[:500],
        is_required=is_required,
        choices=list(_choices(choice_schema)),
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
    """The values of ``enum``, and of a ``oneOf`` whose options have ``const`` and ``title``."""
    for value in schema.get("enum") or []:
        yield Choice(json.dumps(value), _plain(value))
    for option in schema.get("oneOf") or []:
        if isinstance(option, dict) and "const" in option:
            title = str(option.get("title") or _plain(option["const"]))
            yield Choice(json.dumps(option["const"]), title)


class Unreadable(Exception):
    """A field's input cannot be parsed as its kind. ``field`` is the field's name."""

    def __init__(self, text: str, field: str) -> None:
        super().__init__(text)
        self.field = field


def answer_from(form_data: QueryDict, schema: dict[str, Any]) -> Any:
    """The answer that the form data describe, not yet validated. Raises ``Unreadable``.

    Empty fields are left out of an object.
    """
    fields = fields_of(schema)
    if len(fields) == 1 and not fields[0].name:
        return _value(form_data, fields[0])
    values = {field.name: _value(form_data, field) for field in fields}
    return {name: value for name, value in values.items() if value is not None}


def _value(form_data: QueryDict, field: Field) -> Any:
    text = form_data.get(field.input_name, "").replace("\r\n", "\n").strip()
    if field.kind == "several":
        return [_parse(item, field) for item in form_data.getlist(field.input_name)]
    if not text:
        return "" if field.is_required and field.kind in {"text", "lines"} else None
    if field.kind == "yes_no":
        return text == "true"
    if field.kind in {"choice", "number", "json"}:
        return _parse(text, field)
    return text


def _parse(text: str, field: Field) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        is_number = field.kind == "number"
        says = _("{label}: this is not a number.") if is_number else _("{label}: this is not JSON.")
        raise Unreadable(says.format(label=field.label), field.name) from None
