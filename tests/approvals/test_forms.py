"""Forms from JSON Schemas that strangers wrote: drawn where possible, as JSON otherwise."""

from __future__ import annotations

import json

import pytest
from django.http import QueryDict
from django.utils.http import urlencode

from approvals.presentation.forms import fields, values

ADDRESS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
    "required": ["city"],
}


def an_object(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def read(schema, **sent):
    """The value and the errors by path, of what a browser sends; names after ``input/``."""
    form = fields.form_of(schema)
    data = [("input/" + name if name else "input", value) for name, value in sent.items()]
    value = values.read_form(form, QueryDict(urlencode(data, doseq=True)), schema)
    errors = {"/".join(node.path): node.errors for node in form.every() if node.errors}
    return value, errors


def kinds(schema):
    form = fields.form_of(schema)
    return {"/".join(node.path): node.kind for node in form.every() if node.path}


def test_each_type_has_its_field():
    schema = an_object(
        name={"type": "string", "maxLength": 80},
        text={"type": "string"},
        day={"type": "string", "format": "date"},
        many={"type": "integer"},
        much={"type": "number"},
        sure={"type": "boolean"},
        tone={"enum": ["warm", "cold"]},
        country={"enum": [f"C{number}" for number in range(30)]},
        days={"type": "array", "items": {"enum": ["Mon", "Tue"]}},
        tags={"type": "array", "items": {"type": "string"}},
        people={"type": "array", "items": ADDRESS},
        home=ADDRESS,
        either={"anyOf": [{"type": "string"}, {"type": "integer"}]},
        anything={},
    )

    assert kinds(schema) == {
        "name": "text",
        "text": "lines",
        "day": "date",
        "many": "number",
        "much": "number",
        "sure": "yes_no",
        "tone": "choice",
        "country": "select",
        "days": "several",
        "tags": "list",
        "people": "json",
        "home": "group",
        "home/city": "lines",
        "home/zip": "text",
        "either": "json",
        "anything": "lines",
    }


def test_what_is_typed_becomes_the_value():
    schema = an_object(
        ["name", "many", "home"],
        name={"type": "string"},
        many={"type": "integer"},
        sure={"type": "boolean"},
        tone={"enum": ["warm", 1]},
        tags={"type": "array", "items": {"type": "string"}},
        sizes={"type": "array", "items": {"type": "number"}},
        days={"type": "array", "items": {"enum": ["Mon", "Tue"]}},
        home=ADDRESS,
        left={"type": "string"},
    )
    sent = {
        "name": " Ana\r\nRuiz ",
        "many": "42",
        "sure": "false",
        "tone": "1",
        "tags": "a\r\n\r\n b ",
        "sizes": "1.5\n2",
        "days": ['"Tue"'],
        "home/city": "Lima",
        "left": "",
    }

    value, errors = read(schema, **sent)

    assert errors == {}
    assert value == {
        "name": "Ana\nRuiz",
        "many": 42,
        "sure": False,
        "tone": 1,
        "tags": ["a", "b"],
        "sizes": [1.5, 2],
        "days": ["Tue"],
        "home": {"city": "Lima"},
    }


@pytest.mark.parametrize(
    ("terms", "typed", "says"),
    [
        ({"type": "integer"}, "4.5", "whole number"),
        ({"type": "number"}, "48,20", "Use a point"),
        ({"type": "number"}, "1e999", "too large"),
        ({"type": "number"}, "NaN", "is not a number"),
        ({"type": "number", "minimum": 5}, "4", "not below 5"),
        ({"type": "string", "maxLength": 3}, "abcd", "At most 3 characters; there are 4"),
        ({"type": "string", "minLength": 3}, "a", "At least 3"),
        ({"type": "string", "pattern": "^x"}, "a", "the form that is asked for: ^x"),
        ({"type": "string", "format": "date"}, "May 3", "like 2026-11-30"),
        ({"type": "string", "format": "email"}, "nobody", "email"),
        ({"enum": ["a", "b"]}, '"c"', "from the list"),
        ({"type": "boolean"}, "maybe", "yes or no"),
        ({"type": "array", "items": {"type": "integer"}}, "1\nb", "“b” is not a number"),
        ({"type": "array", "items": {"type": "string", "maxLength": 2}}, "ab\nabc", "Line 2: "),
        ({"type": "array", "items": {}, "minItems": 2}, "[1]", "at least this many entries: 2"),
        ({"anyOf": [{"type": "integer"}, {"type": "array"}]}, '{"a": }', "not JSON (line 1"),
        ({"anyOf": [{"type": "integer"}, {"type": "array"}]}, "[NaN]", "not JSON"),
        ({"anyOf": [{"type": "integer"}, {"type": "array"}]}, "[" * 100_000, "not JSON"),
        ({"type": "string"}, "", "This is needed"),
        ({"type": "boolean"}, "", "Choose yes or no"),
    ],
)
def test_what_does_not_fit_is_said_beside_its_field_in_plain_words(terms, typed, says):
    _, errors = read(an_object(["field"], field=terms), field=typed)

    assert list(errors) == ["field"]
    assert says in errors["field"][0]


def test_an_optional_group_is_left_out_or_whole():
    schema = an_object(home=ADDRESS)

    assert read(schema, **{"home/city": "", "home/zip": ""}) == ({}, {})
    assert read(schema, **{"home/city": "", "home/zip": "12345"})[1] == {
        "home/city": ["This is needed."]
    }


def test_references_within_the_document_and_optional_members_are_drawn():
    schema = {
        **an_object(
            home={"$ref": "#/$defs/address"}, note={"anyOf": [{"type": "string"}, {"type": "null"}]}
        ),
        "$defs": {"address": ADDRESS},
    }

    assert kinds(schema) == {
        "home": "group",
        "home/city": "lines",
        "home/zip": "text",
        "note": "lines",
    }


def circle(name="self"):
    return {**an_object(**{name: {"$ref": "#"}}), "required": []}


def a_bomb():
    """Each level has five members of the next one."""
    levels = {
        f"level{number}": an_object(
            **{name: {"$ref": f"#/$defs/level{number + 1}"} for name in "abcde"}
        )
        for number in range(30)
    }
    levels["level30"] = {"type": "string"}
    return {"$ref": "#/$defs/level0", "$defs": levels}


@pytest.mark.parametrize(
    "schema",
    [
        a_bomb(),
        an_object(**{f"f{number}": {"type": "string"} for number in range(500)}),
        an_object(a={"enum": list(range(5_000))}),
        {"$ref": "https://elsewhere.example/schema.json"},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"type": "array", "items": {"type": "object"}},
        {"type": ["string", "integer"]},
    ],
    ids=["bomb", "500 fields", "huge enum", "elsewhere", "nowhere", "itself", "array", "types"],
)
def test_what_cannot_be_drawn_is_a_field_for_json(schema):
    form = fields.form_of(schema)

    assert (form.kind, form.name, list(form.every())) == ("json", "input", [form])


def test_a_schema_that_contains_itself_is_drawn_to_a_depth():
    found = kinds(circle())

    assert found["self"] == "group"
    assert found["/".join(["self"] * fields.MOST_DEEP)] == "json"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": 7, "b": None, "c": True}},
        {"type": "object", "properties": {"a": {"type": 7}}},
        {"type": "object", "properties": {"a": {"enum": "no list"}}, "required": "a"},
        {
            "type": "object",
            "properties": {"a": {"title": {}, "description": [1]}},
            "required": [{}],
        },
        {"type": "object", "properties": {"a": {"type": "string", "maxLength": "x"}}},
        {"type": "object", "properties": {"a": {"oneOf": [1]}, "b": {"allOf": "x"}}},
        {"type": "object", "properties": {"": {}, "a/b": {}, "a~json": {}, "a.b": {}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": [1]}}},
    ],
)
def test_a_schema_of_the_wrong_form_breaks_no_page(schema):
    form = fields.form_of(schema)
    names = [node.name for node in form.every()]

    assert len(names) == len(set(names))
    values.show_defaults(form)


def test_labels_of_strangers_are_cleaned_and_short():
    title = "A\u202egood\x00 \n title" + "x" * 500
    node = fields.form_of(an_object(a={"title": title})).children[0]

    assert len(node.label) == fields.LABEL_MAX
    assert not {"\u202e", "\x00", "\n"} & set(node.label)


EARLIER = an_object(
    name={"type": "string"},
    tone={"enum": ["warm", "cold"]},
    days={"type": "array", "items": {"enum": ["Mon", "Tue"]}},
    tags={"type": "array", "items": {"type": "string"}},
    home=ADDRESS,
    sure={"type": "boolean"},
    many={"type": "number"},
)


@pytest.mark.parametrize(
    "value",
    [
        {"name": "a", "tone": "warm", "days": ["Mon"], "tags": ["x"], "home": {"city": "L"}},
        {"sure": False, "many": 0},
        {"sure": True, "many": 1.25, "further": {"a": [1]}, "home": {"city": "L", "also": None}},
        {"tags": ["two\nlines", " spaces "], "home": {"city": "Lima"}},
        {},
    ],
)
def test_an_earlier_input_comes_back_as_it_was(value):
    form = fields.form_of(EARLIER)
    values.show_value(form, value)
    sent = QueryDict(mutable=True)
    for node in form.every():
        if node.kind != "group":
            sent.setlist(node.name, node.chosen if node.kind == "several" else [node.text])

    again = values.read_form(fields.form_of(EARLIER), sent, EARLIER)

    assert again == value


@pytest.mark.parametrize("value", [{"name": 7}, {"tone": "loud"}, {"home": "Lima"}, ["a"], "text"])
def test_an_earlier_input_that_no_field_can_show_is_shown_as_json(value):
    form = fields.form_of(EARLIER)
    values.show_value(form, value)
    shown = [node for node in form.every() if node.suffix == values.JSON]

    (field,) = shown
    expected = next(iter(value.values())) if isinstance(value, dict) else value
    assert json.loads(field.text) == expected


def test_a_skill_without_a_schema_takes_a_text():
    assert read({}, text="Water the plants.") == ({"text": "Water the plants."}, {})


def test_further_members_do_not_replace_those_with_a_field():
    schema = an_object(name={"type": "string"})

    _, errors = read(schema, name="a", **{"~more": "x"})
    assert errors == {}  # there is no such field unless the page had it
    form = fields.form_of(schema)
    data = QueryDict(urlencode({"input/name": "a", "input~more": '{"name": "b"}'}))
    values.read_form(form, data, schema)
    assert any(
        "have no field of their own" in error for node in form.every() for error in node.errors
    )
