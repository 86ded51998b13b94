"""Fills the fields of a form with a value, and reads the value from what was sent.

What does not fit is an error beside its field, in plain words. Nothing that was typed is lost.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable
from datetime import date
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _, gettext_noop

from approvals.presentation.amounts import number_written
from approvals.presentation.forms.fields import Node, Schema, as_json, whole_number
from approvals.presentation.sentences import in_words
from ledger.contracts import json_schemas

JSON, FURTHER = "~json", "~more"  # suffixes of names; no JSON pointer ends so
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
NOTHING: Any = object()


# --- a value into the fields ------------------------------------------------------------------


def show_defaults(node: Node) -> None:
    """Fill in what the schema names as defaults."""
    for each in node.every():
        if each.kind != "group" and each.schema.get("default") is not None:
            show_value(each, each.schema["default"])


def show_value(node: Node, value: Any) -> None:
    """Fill in a value; a field that cannot show it becomes one for JSON."""
    if value is None and node.takes_null:
        return
    if node.kind == "group" and isinstance(value, dict):
        _show_members(node, value)
    elif not _is_shown(node, value):
        _as_json_field(node, json.dumps(value, ensure_ascii=False, indent=2))


def _show_members(group: Node, value: dict[str, Any]) -> None:
    for child in group.children:
        if child.path[-1] in value:
            show_value(child, value[child.path[-1]])
    known = {child.path[-1] for child in group.children}
    if further := {name: item for name, item in value.items() if name not in known}:
        _add_further(group, json.dumps(further, ensure_ascii=False, indent=2))


def _add_further(group: Node, text: str) -> None:
    """A field for members that the schema does not name."""
    label = _("Further values")
    group.children.append(
        Node(group.path, {}, "json", label, suffix=FURTHER, text=text, root=group.root)
    )


def _as_json_field(node: Node, text: str) -> None:
    node.kind, node.suffix, node.text, node.children = "json", JSON, text, []


def _is_shown(node: Node, value: Any) -> bool:
    """True if the field could show the value."""
    match node.kind:
        case "text" | "lines" | "email" | "url" | "date":
            is_number = node.is_decimal and _is_line(value)
            node.text = value if isinstance(value, str) else as_json(value) if is_number else ""
            return isinstance(value, str) or is_number
        case "number" if isinstance(value, int | float) and not isinstance(value, bool):
            node.text = as_json(value)
            return True
        case "yes_no" if isinstance(value, bool):
            node.text = as_json(value)
            return True
        case "choice" | "select":
            node.text = as_json(value)
            return any(choice.value == node.text for choice in node.choices)
        case "several" if isinstance(value, list):
            node.chosen = [as_json(item) for item in value]
            return set(node.chosen) <= {choice.value for choice in node.choices}
        case "list" if isinstance(value, list) and all(_is_line(item) for item in value):
            node.text = "\n".join(
                item if isinstance(item, str) else as_json(item) for item in value
            )
            return True
    return False


def _is_line(item: Any) -> bool:
    if isinstance(item, str):
        return bool(item.strip()) and item == item.strip() and "\n" not in item
    return isinstance(item, int | float) and not isinstance(item, bool)


# --- the fields into a value ------------------------------------------------------------------


def read_form(form: Node, data: QueryDict, schema: Schema) -> Any:
    """As ``taken``, with what does not fit the schema as well. Raises ``SchemaUnusable``."""
    value = taken_from(form, data)
    if not form.is_faulty:
        place_misfits(form, json_schemas.misfits(schema, value))
    return value


def taken_from(form: Node, data: QueryDict) -> Any:
    """The value that was sent, with the errors at their fields; ``None`` if there is no value."""
    _restore(form, data)
    value = _read(form, data)
    return None if value is NOTHING else value


def _restore(form: Node, data: QueryDict) -> None:
    """Fields that were for JSON, and fields for further members, as the page had them."""
    for node in list(form.every()):
        if f"{node.name}{JSON}" in data and not node.suffix:
            _as_json_field(node, "")
        if node.kind == "group" and f"{node.name}{FURTHER}" in data:
            _add_further(node, "")


def _read(node: Node, data: QueryDict) -> Any:
    if node.kind == "group":
        return _read_group(node, data)
    if node.kind == "several":
        return _read_several(node, data)
    node.text = data.get(node.name, "").replace("\r\n", "\n")
    text = node.text.strip()
    if not text:
        return _empty(node)
    try:
        return READERS.get(node.kind, _read_text)(node, text)
    except ValueError as refusal:
        node.errors.append(str(refusal))
        return NOTHING


def _read_group(group: Node, data: QueryDict) -> Any:
    values: dict[str, Any] = {}
    for child in group.children:
        value = _read(child, data)
        if child.suffix == FURTHER:
            values |= _further(child, value, group)
        elif value is not NOTHING:
            values[child.path[-1]] = value
    is_left_out = not group.is_required and not values and not _has_text(group)
    if is_left_out:
        for node in group.every():
            node.errors.clear()
        return NOTHING
    return values


def _further(node: Node, value: Any, group: Node) -> dict[str, Any]:
    if value is NOTHING:
        return {}
    known = {child.path[-1] for child in group.children if child is not node}
    if not isinstance(value, dict) or known & value.keys():
        node.errors.append(_("Enter a JSON object whose names have no field of their own."))
        return {}
    return value


def _has_text(group: Node) -> bool:
    return any(node.text.strip() or node.chosen for node in group.every())


def _empty(node: Node) -> Any:
    if not node.is_required:
        return NOTHING
    if node.takes_null:
        return None
    if node.kind == "list" and not whole_number(node.schema.get("minItems")):
        return []
    choose_one = _("Choose one.")
    wanted = {"yes_no": _("Choose yes or no."), "choice": choose_one, "select": choose_one}
    node.errors.append(wanted.get(node.kind, _("This is needed.")))
    return NOTHING


def _read_several(node: Node, data: QueryDict) -> Any:
    node.chosen = data.getlist(node.name)
    known = {choice.value for choice in node.choices}
    if not set(node.chosen) <= known:
        node.errors.append(_("Choose from the list."))
        return NOTHING
    if not node.chosen and not node.is_required:
        return NOTHING
    return [json.loads(item) for item in node.chosen]


def _read_text(node: Node, text: str) -> str:
    if node.is_decimal:
        _number(text, {**node.schema, "type": "number"})
        return text
    longest, shortest = node.longest, whole_number(node.schema.get("minLength"))
    if longest is not None and len(text) > longest:
        too_long = _("At most {most} characters; there are {number}.")
        raise ValueError(too_long.format(most=_grouped(longest), number=_grouped(len(text))))
    if shortest is not None and len(text) < shortest:
        raise ValueError(_("At least {least} characters.").format(least=_grouped(shortest)))
    return text


def _grouped(number: int) -> str:
    return number_written(number)


def _read_date(node: Node, text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError(_("Enter a date, like 2026-11-30.")) from None


def _read_number(node: Node, text: str) -> int | float:
    return _number(text, node.schema)


def _number(text: str, schema: Schema) -> int | float:
    if not NUMBER.fullmatch(text):
        says = _("“{text}” is not a number.")
        if NUMBER.fullmatch(text.replace(",", ".", 1)):
            says = _("“{text}” is not a number. Use a point, not a comma.")
        raise ValueError(says.format(text=text[:40]))
    if schema.get("type") == "integer" and not WHOLE.fullmatch(text):
        raise ValueError(_("Enter a whole number."))
    number = int(text) if WHOLE.fullmatch(text) else float(text)
    if not math.isfinite(number):
        raise ValueError(_("This number is too large."))
    for word, is_out, says in BOUNDS:
        limit: Any = schema.get(word)
        is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if is_number and is_out(number, limit):
            raise ValueError(_(says).format(limit=as_json(limit)))
    return number


BOUNDS: tuple[tuple[str, Callable[[float, float], bool], str], ...] = (
    ("minimum", operator.lt, gettext_noop("Enter a number not below {limit}.")),
    ("maximum", operator.gt, gettext_noop("Enter a number not above {limit}.")),
    ("exclusiveMinimum", operator.le, gettext_noop("Enter a number above {limit}.")),
    ("exclusiveMaximum", operator.ge, gettext_noop("Enter a number below {limit}.")),
)


def _read_yes_no(node: Node, text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(_("Choose yes or no."))
    return text == "true"


def _read_choice(node: Node, text: str) -> Any:
    if all(choice.value != text for choice in node.choices):
        raise ValueError(_("Choose from the list."))
    return json.loads(text)


def _read_list(node: Node, text: str) -> list[Any]:
    items: Schema = node.schema["items"]
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if items.get("type") not in {"number", "integer"}:
        return list(lines)
    return [_number(line, items) for line in lines]


def _read_json(node: Node, text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as failure:
        says = _("This is not JSON (line {line}, column {column}). Texts stand in double quotes.")
        raise ValueError(says.format(line=failure.lineno, column=failure.colno)) from None
    except (ValueError, RecursionError):
        raise ValueError(_("This is not JSON that can be kept.")) from None


def _no_constant(name: str) -> Any:
    raise ValueError(name)


READERS: dict[str, Callable[[Node, str], Any]] = {
    "date": _read_date,
    "number": _read_number,
    "yes_no": _read_yes_no,
    "choice": _read_choice,
    "select": _read_choice,
    "list": _read_list,
    "json": _read_json,
}


# --- what the schema says of the value --------------------------------------------------------


def place_misfits(form: Node, misfits: list[dict[str, str]]) -> None:
    """Put each error at the innermost field that holds its place, and was read whole."""
    nodes = {".".join(node.path): node for node in form.every() if node.suffix != FURTHER}
    unread = {id(node) for node in nodes.values() if node.errors}
    for misfit in misfits:
        place = misfit["field"]
        while place and place not in nodes:
            place = place.rpartition(".")[0]
        node = nodes.get(place, form)
        if unread.isdisjoint(map(id, node.every())):
            rest = misfit["field"][len(place) :].strip(".")
            node.errors.append(_in_words(node, misfit, rest))


def _in_words(node: Node, misfit: dict[str, str], rest: str) -> str:
    message = in_words(misfit["message"])[:300]
    if node.kind == "list" and rest.isdecimal():
        return _("Line {number}: {message}").format(number=int(rest) + 1, message=message)
    return message
