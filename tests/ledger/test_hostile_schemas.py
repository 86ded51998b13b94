"""JSON Schemas of others: none keeps a process busy, whatever its references unfold to."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ledger.contracts import json_schemas
from ledger.errors import SchemaUnusable

TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "below": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}


def doubling(word: str, levels: int) -> dict[str, Any]:
    """Each definition refers twice to the one before."""
    parts: dict[str, Any] = {"part0": {"type": "integer"}}
    for level in range(1, levels):
        parts[f"part{level}"] = {word: [{"$ref": f"#/$defs/part{level - 1}"}] * 2}
    return {"properties": {"amount": {"$ref": f"#/$defs/part{levels - 1}"}}, "$defs": parts}


@pytest.mark.parametrize("word", ["anyOf", "allOf", "oneOf"])
def test_a_schema_whose_references_unfold_without_end_is_refused(word):
    with pytest.raises(SchemaUnusable, match="unfold"):
        json_schemas.check(doubling(word, 40))


@pytest.mark.parametrize("word", ["anyOf", "allOf", "oneOf"])
def test_a_kept_schema_that_unfolds_without_end_fits_nothing_and_takes_no_time(word):
    began = time.monotonic()

    found = json_schemas.misfits(doubling(word, 40), {"amount": "a text"})

    assert [misfit["message"] for misfit in found] == [json_schemas.TOO_MUCH]
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("depth", [8, 100])
def test_a_schema_that_branches_at_each_step_of_a_deep_value_takes_no_time(depth):
    step = {"type": "object", "properties": {"x": {"$ref": "#"}}}
    schema = {"anyOf": [step, dict(step)]}
    value: Any = "the end"
    for _ in range(depth):
        value = {"x": value}
    began = time.monotonic()

    found = json_schemas.misfits(schema, value)

    assert found
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#here"}}, "$defs": {"a": {"$anchor": "here"}}},
        {"$defs": {"a": {"$id": "urn:other", "$ref": "#/$defs/a"}}},
        {"$dynamicRef": "#all", "$dynamicAnchor": "all"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    ],
)
def test_a_reference_that_cannot_be_followed_is_refused_or_fits_nothing(schema):
    try:
        json_schemas.check(schema)
    except SchemaUnusable:
        return
    assert json_schemas.misfits(schema, {"a": 1})


def test_a_schema_of_a_tree_is_taken_and_says_where_a_value_is_wrong():
    json_schemas.check(TREE)
    fits = {"name": "root", "below": [{"name": f"leaf {n}", "below": []} for n in range(2000)]}

    assert json_schemas.misfits(TREE, fits) == []
    wrong = {"name": "root", "below": [{"name": "leaf", "below": [{"below": []}]}]}
    assert [misfit["field"] for misfit in json_schemas.misfits(TREE, wrong)] == ["below.0.below.0"]


def test_a_long_list_still_says_which_of_its_entries_are_wrong():
    schema = {"type": "array", "items": {"type": "integer"}}

    found = json_schemas.misfits(schema, [*range(200_000), "x"])

    assert [misfit["field"] for misfit in found] == ["200000"]
