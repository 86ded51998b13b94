"""Counts how often a validator looks at something: schemas of others could make that endless.

A few lines of references unfold to billions of subschemas. What would be visited is counted here
without visiting it, each pair of a subschema and a part of the value once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

REFERENCE = "$ref"
# They change what a reference means, so that it could not be followed here.
REBASING = frozenset(
    {"$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"}
)
REFERENCES = (REFERENCE, "$dynamicRef", "$recursiveRef")
# Words whose failures are long to explain: each branch is looked at again.
BRANCHING = ("anyOf", "oneOf")
OF_THE_SAME = ("not", "if", "then", "else")
LISTS_OF_THE_SAME = ("allOf", "anyOf", "oneOf")
NAMED_OF_THE_SAME = ("dependentSchemas", "dependencies")
OF_MEMBERS = ("additionalProperties", "unevaluatedProperties", "propertyNames")
OF_ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")
SMALL = 50_000
MOST_PAIRS = 500_000  # that are counted
TOO_MANY, ENDLESS = 10**12, 10**13

Node = tuple[int, dict[str, Any] | list[Any] | None]


class NotFollowed(Exception):
    """A reference that cannot be followed; the text says which."""


def unfolded(text: str) -> int:
    """The number of subschemas once every reference is written out; ``ENDLESS`` if one leads back
    to itself. Raises ``NotFollowed``."""
    return _unfolded(text)


@lru_cache(maxsize=1024)
def _unfolded(text: str) -> int:
    schema = json.loads(text)
    if not _has(text, REFERENCES):
        return text.count("{") + 1
    _refuse_rebasing(schema, is_root=True)
    counted: dict[int, int] = {}

    def count(part: Any) -> int:
        if not isinstance(part, dict):
            return 1
        if (known := counted.get(id(part))) is not None:
            return known
        counted[id(part)] = ENDLESS  # until it is known: whoever meets it again comes from itself
        counted[id(part)] = _together([count(below) for below in _all_below(schema, part)])
        return counted[id(part)]

    try:
        return count(schema)
    except RecursionError:
        return ENDLESS


def visits(text: str, value: Any) -> int:
    """Times a validator looks at parts of the value at most; ``ENDLESS`` if that takes too
    long to count. Raises ``NotFollowed``."""
    if not _has(text, REFERENCES) and not _has(text, BRANCHING):
        return 0  # no more often than its length tells
    tree = _Tree(value)
    if (most := unfolded(text) * tree.size) <= SMALL:
        return most
    try:
        return _counted(json.loads(text), tree)
    except RecursionError:
        return ENDLESS


def _counted(schema: Any, tree: _Tree) -> int:
    counted: dict[tuple[int, int], int] = {}

    def count(part: Any, place: int) -> int:
        if not isinstance(part, dict):
            return 1
        pair = (id(part), place)
        if (known := counted.get(pair)) is not None:
            return known
        if len(counted) >= MOST_PAIRS:
            raise RecursionError
        counted[pair] = ENDLESS
        visited = _visited_below(schema, part, place, tree)
        counted[pair] = _together([count(*each) for each in visited])
        return counted[pair]

    return count(schema, 0)


def _together(counts: list[int]) -> int:
    if max(counts, default=0) >= ENDLESS:
        return ENDLESS
    return min(1 + sum(counts), TOO_MANY)


def _has(text: str, words: tuple[str, ...]) -> bool:
    """True if a keyword, or a member of that name, stands in the text."""
    return any(f'"{word}"' in text for word in words)


class _Tree:
    """The parts of a value by number; 0 is the whole."""

    def __init__(self, value: Any) -> None:
        self.parts: list[Any] = [value]
        self.below: list[dict[Any, int]] = []
        while len(self.below) < len(self.parts):
            part = self.parts[len(self.below)]
            names = part if isinstance(part, dict) else range(_length(part))
            first = len(self.parts)
            self.parts += [part[name] for name in names]
            self.below.append({name: first + number for number, name in enumerate(names)})
        self.size = len(self.parts)


def _length(part: Any) -> int:
    return len(part) if isinstance(part, list) else 0


def _visited_below(
    schema: Any, part: dict[str, Any], place: int, tree: _Tree
) -> Iterator[tuple[Any, int]]:
    """Pairs of subschema and place that a validator visits after this subschema at this place."""
    yield from ((same, place) for same in _same_place(schema, part))
    members = tree.below[place]
    if isinstance(tree.parts[place], dict):
        named = _named(part, "properties")
        yield from ((named[name], at) for name, at in members.items() if name in named)
        every = [*_named(part, "patternProperties").values(), *_at(part, OF_MEMBERS)]
    else:
        first = part.get("prefixItems")
        yield from zip(first if isinstance(first, list) else (), members.values(), strict=False)
        every = _at(part, OF_ITEMS)
    yield from ((each, at) for at in members.values() for each in every)


def _all_below(schema: Any, part: dict[str, Any]) -> Iterator[Any]:
    yield from _same_place(schema, part)
    yield from _named(part, "properties").values()
    yield from _named(part, "patternProperties").values()
    yield from _at(part, (*OF_MEMBERS, *OF_ITEMS, "prefixItems"))


def _same_place(schema: Any, part: dict[str, Any]) -> Iterator[Any]:
    if isinstance(reference := part.get(REFERENCE), str):
        yield _target(schema, reference)
    yield from _at(part, (*OF_THE_SAME, *LISTS_OF_THE_SAME))
    for word in NAMED_OF_THE_SAME:
        yield from _named(part, word).values()


def _at(part: dict[str, Any], words: tuple[str, ...]) -> list[Any]:
    """The subschemas that stand at these words, one or a list of them."""
    values: list[Any] = []
    for word in words:
        value = part.get(word)
        values += value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, dict)]


def _named(part: dict[str, Any], word: str) -> dict[str, Any]:
    value = part.get(word)
    return value if isinstance(value, dict) else {}


def _target(schema: Any, reference: str) -> Any:
    head, slash, pointer = reference.partition("/")
    if head != "#":
        raise NotFollowed(f"{reference!r:.80} is no reference of the form #/$defs/name.")
    for step in pointer.split("/") if slash else ():
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        try:
            schema = schema[int(name) if isinstance(schema, list) else name]
        except (LookupError, ValueError, TypeError):
            raise NotFollowed(f"{reference!r:.80} leads nowhere.") from None
    return schema


def _refuse_rebasing(value: Any, *, is_root: bool = False) -> None:
    if isinstance(value, dict):
        for name in REBASING.intersection(value):
            if not (is_root and name == "$id"):
                raise NotFollowed(f"{name} cannot stand in a schema that has references.")
    for below in value.values() if isinstance(value, dict) else value:
        if isinstance(below, dict | list):
            _refuse_rebasing(below)
