"""Form fields from a JSON Schema, of a skill's input or an answer; a stranger may have written it.

Whatever cannot be drawn as fields (a schema too large, too deep, or of rarely used keywords) is one
field for JSON, so that every skill can be used and every question answered. ``values`` fills the
fields and reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from ledger.foundation.characters import cleaned

Schema = dict[str, Any]
Path = tuple[str, ...]

MOST_DEEP = 5  # groups within groups
MOST_HOPS = 16  # references that lead to references
BUDGET, OF_A_FIELD = 2_000, 10  # 200 fields, or 2,000 choices
RADIOS = 5  # choices that stand side by side; more go into a list to open
ONE_LINE = 200  # characters; a text that may be longer gets several lines
LABEL_MAX, HELP_MAX = 120, 1_000
CHOICE_MAX = 10_000  # as good as whole: who chooses has to see which is which
# Keywords whose meaning no field shows.
NOT_DRAWN = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "patternProperties", "prefixItems"})
# A number that is kept as text, so that none of its digits is lost: ``DECIMAL`` of our own schemas.
DECIMAL = "decimal"
ONE_LINE_FORMATS = {"date": "date", "email": "email", "uri": "url", "date-time": "text"}
EXAMPLES = {"date-time": "2026-11-30T17:00:00Z"}


@dataclass(frozen=True, slots=True)
class Choice:
    value: str  # as JSON, so that 1 and "1" differ
    label: str


@dataclass(slots=True)
class Node:
    """One field, or a ``group`` of them with ``children``.

    ``kind`` is group, text, date, email, url, lines, number, yes_no, choice, select, several, list
    (one value per line) or json. ``text`` and ``chosen`` are what the field shows.
    """

    path: Path
    schema: Schema
    kind: str
    label: str = ""
    help: str = ""
    is_required: bool = False
    takes_null: bool = False
    choices: list[Choice] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)
    suffix: str = ""  # of the name, where the field is for JSON or for further members
    text: str = ""
    chosen: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    number: int = 0  # within the page, for ids
    root: str = "input"  # begins the names of all inputs of the form

    @property
    def name(self) -> str:
        """The name of the input: a JSON pointer to the value."""
        steps = (step.replace("~", "~0").replace("/", "~1") for step in self.path)
        return "/".join((self.root, *steps)) + self.suffix

    @property
    def rows(self) -> int:
        return min(12, max(3 if self.kind != "lines" else 2, self.text.count("\n") + 2))

    @property
    def is_whole(self) -> bool:
        """True if a number has to be whole."""
        return self.schema.get("type") == "integer"

    @property
    def is_decimal(self) -> bool:
        """True for a text that has to be a number."""
        return self.kind == "text" and self.schema.get("format") == DECIMAL

    @property
    def placeholder(self) -> str:
        return EXAMPLES.get(str(self.schema.get("format")), "")

    @property
    def longest(self) -> int | None:
        """Characters that the text may have."""
        return whole_number(self.schema.get("maxLength"))

    @property
    def fields(self) -> list[Node]:
        return self.children if self.kind == "group" else [self]

    @property
    def is_faulty(self) -> bool:
        return any(node.errors for node in self.every())

    def every(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.every()

    def numbered(self) -> Node:
        """The form with a number in each field, for a page."""
        for number, node in enumerate(self.every()):
            node.number = number
        return self


class _NotDrawable(Exception):
    pass


def form_of(schema: Schema) -> Node:
    """The fields of a schema: a group for an object, else a single field."""
    if not schema:
        text = Node(
            ("text",), {"type": "string"}, "lines", _("What is to be done"), is_required=True
        )
        return Node((), {"type": "object", "properties": {"text": {}}}, "group", children=[text])
    return _drawn(schema, "input", _("Input"), MOST_DEEP)


def answer_form(schema: Schema, most_deep: int = MOST_DEEP) -> Node:
    """The fields of the answer to a question; one for any text where it asks for no form."""
    label = _("Your answer")
    if not schema:
        return Node((), schema, "lines", label, is_required=True, root="answer")
    return _drawn(schema, "answer", label, most_deep)


def _drawn(schema: Schema, root: str, label: str, most_deep: int) -> Node:
    try:
        form = _Drawing(schema, label, most_deep).node((), schema, is_required=True)
    except (_NotDrawable, RecursionError):
        form = Node((), schema, "json", label, is_required=True)
    for node in form.every():
        node.root = root
    return form


class _Drawing:
    def __init__(self, root: Schema, label: str, most_deep: int) -> None:
        self._root, self._label, self._most_deep = root, label, most_deep
        self._left = BUDGET

    def node(self, path: Path, schema: Any, *, is_required: bool) -> Node:
        plain, takes_null = self._plain(schema)
        self._spend(OF_A_FIELD)
        made = Node(path, plain, "json", is_required=is_required, takes_null=takes_null)
        made.label = text_of(plain.get("title"), LABEL_MAX) or _label_of(path, self._label)
        made.help = text_of(plain.get("description"), HELP_MAX)
        made.choices = self._choices(plain)
        made.kind = self._kind(made)
        if made.kind == "group":
            made.children = self._children(made)
        elif made.kind in {"several", "list"}:
            made.schema = {**plain, "items": self._items(plain)}
            made.choices = self._choices(made.schema["items"])
        return made

    def _spend(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            raise _NotDrawable

    def _children(self, group: Node) -> list[Node]:
        """Required members first, in that list's order: jsonb keeps none of the names'."""
        listed = group.schema.get("required")
        members: Schema = group.schema["properties"]
        first = (
            [each for each in listed if isinstance(each, str) and each in members]
            if isinstance(listed, list)
            else []
        )
        return [
            self.node((*group.path, name), members[name], is_required=name in first)
            for name in dict.fromkeys([*first, *members])
        ]

    def _kind(self, node: Node) -> str:
        schema, kind = node.schema, node.schema.get("type")
        if node.choices:
            return "choice" if len(node.choices) <= RADIOS else "select"
        if NOT_DRAWN & schema.keys() or not isinstance(kind, str | None):
            return "json"
        properties = schema.get("properties")
        if kind in {"object", None} and isinstance(properties, dict) and properties:
            return "group" if len(node.path) < self._most_deep else "json"
        if kind == "array":
            return self._kind_of_list(schema)
        if kind == "string" or (kind is None and "items" not in schema):
            return _kind_of_text(schema)
        return {"boolean": "yes_no", "number": "number", "integer": "number"}.get(
            kind or "", "json"
        )

    def _kind_of_list(self, schema: Schema) -> str:
        items = self._items(schema)
        if self._choices(items):
            return "several"
        is_plain = items.get("type") in {"string", "number", "integer"} and not NOT_DRAWN & set(
            items
        )
        return "list" if is_plain else "json"

    def _items(self, schema: Schema) -> Schema:
        return self._plain(schema.get("items"))[0]

    def _choices(self, schema: Schema) -> list[Choice]:
        """The values of ``enum`` or ``const``, or of a ``oneOf`` of ``const`` and ``title``."""
        values, options = schema.get("enum"), schema.get("oneOf")
        pairs: list[tuple[Any, Any]] = []
        if isinstance(values, list):
            pairs = [(value, value) for value in values]
        elif "const" in schema:
            pairs = [(schema["const"], schema["const"])]
        elif isinstance(options, list) and all(_is_option(option) for option in options):
            pairs = [(option["const"], option.get("title", option["const"])) for option in options]
        self._spend(len(pairs))
        return [Choice(as_json(value), text_of(label, CHOICE_MAX)) for value, label in pairs]

    def _plain(self, schema: Any) -> tuple[Schema, bool]:
        """The schema without references and wrappers, and whether it also takes null."""
        takes_null = False
        plain = schema if isinstance(schema, dict) else {}
        for _hop in range(MOST_HOPS):
            inner, allows_null = self._unwrapped(plain)
            takes_null = takes_null or allows_null
            if inner is plain:
                return plain, takes_null
            plain = inner
        raise _NotDrawable

    def _unwrapped(self, schema: Schema) -> tuple[Schema, bool]:
        """One wrapper less; the same object when there is none. True: null was an alternative."""
        if isinstance(reference := schema.get("$ref"), str):
            return {**self._at(reference), **_without(schema, "$ref")}, False
        kind = schema.get("type")
        if isinstance(kind, list) and len(rest := [each for each in kind if each != "null"]) == 1:
            return {**schema, "type": rest[0]}, len(rest) < len(kind)
        for word in ("anyOf", "oneOf", "allOf"):
            options = schema.get(word)
            if not isinstance(options, list) or not all(isinstance(each, dict) for each in options):
                continue
            real = [each for each in options if each.get("type") != "null"]
            if word == "anyOf" and (decimal := _decimal_of(real)):
                real = [decimal]
            if len(real) == 1:
                return {**real[0], **_without(schema, word)}, len(real) < len(options)
        return schema, False

    def _at(self, reference: str) -> Schema:
        """The schema that a reference within the document names."""
        if not reference.startswith("#"):
            raise _NotDrawable
        place: Any = self._root
        for step in reference[1:].split("/")[1:]:
            place = place.get(step.replace("~1", "/").replace("~0", "~")) if place else None
            if not isinstance(place, dict):
                raise _NotDrawable
        return dict(place)


def _without(schema: Schema, word: str) -> Schema:
    return {name: value for name, value in schema.items() if name != word}


def _decimal_of(options: list[Schema]) -> Schema | None:
    """One schema for what may be a number or a text, as pydantic writes a ``Decimal``."""
    kinds = {str(each.get("type")): each for each in options if "enum" not in each}
    if len(options) != 2 or kinds.keys() != {"number", "string"}:
        return None
    return {**kinds["number"], **kinds["string"], "format": DECIMAL}


def _is_option(option: Any) -> bool:
    return isinstance(option, dict) and "const" in option


def _kind_of_text(schema: Schema) -> str:
    form, longest = schema.get("format"), whole_number(schema.get("maxLength"))
    if isinstance(form, str) and form in ONE_LINE_FORMATS:
        return ONE_LINE_FORMATS[form]
    is_short = (longest or ONE_LINE + 1) <= ONE_LINE or "pattern" in schema or bool(form)
    return "text" if is_short else "lines"


def _label_of(path: Path, of_the_form: str) -> str:
    name = path[-1] if path else of_the_form
    return text_of(name.replace("_", " ").strip(), LABEL_MAX).capitalize() or _("(no name)")


def text_of(value: Any, most: int) -> str:
    """A text of a schema as people may see it: one line, cleaned, shortened."""
    if value is None:
        return ""
    plain = " ".join(cleaned(value if isinstance(value, str) else as_json(value)).split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def whole_number(value: Any) -> int | None:
    """The value, if it is a number that can limit something."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < 10**9 else None


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
