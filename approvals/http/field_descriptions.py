"""Fields of a JSON Schema in words, for the page about REST: ``text, at most 2,000 characters``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "null": "null",
}
FORMATS = {"uuid": "an id (UUID)", "date-time": "a time (RFC 3339)", "uri": "an address"}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a request or an answer, as its author reads of it."""

    name: str
    asks: str
    is_required: bool
    description: str = ""


def fields_of(schema: Json, schemas: Json) -> Iterator[Field]:
    """The fields of an object; those that it must have come first."""
    schema = resolved(schema, schemas)
    required = schema.get("required", ())
    for name, field in sorted(
        schema.get("properties", {}).items(), key=lambda item: item[0] not in required
    ):
        described = field.get("description") or resolved(field, schemas).get("description", "")
        yield Field(name, words(field, schemas), name in required, described)


def resolved(schema: Json, schemas: Json) -> Json:
    """The schema, or the one of ``schemas`` that it refers to."""
    reference = schema.get("$ref", "")
    target: Json = schemas[reference.rpartition("/")[2]] if reference else schema
    return target


def words(schema: Json, schemas: Json) -> str:
    """A value that fits the schema, in words."""
    schema = resolved(schema, schemas)
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(words(choice, schemas) for choice in choices))
    if allowed := schema.get("enum"):
        return "one of " + ", ".join(map(str, allowed))
    if "const" in schema:
        return f"always {schema['const']}"
    if schema.get("type") == "array":
        items = f"a list; each: {words(schema.get('items', {}), schemas)}"
        return _with(items, bounds(schema, "Items", "entries"))
    kind = FORMATS.get(schema.get("format", "")) or KINDS.get(schema.get("type", ""), "any JSON")
    limits = [bounds(schema, "Length", "characters"), _range(schema), _pattern(schema)]
    return _with(kind, *limits)


def _with(kind: str, *limits: str) -> str:
    return ", ".join([kind, *filter(None, limits)])


def bounds(schema: Json, of: str, noun: str) -> str:
    """``1 to 100 characters``, ``at most 2,000 characters``, ``64 characters`` or nothing."""
    least, most = schema.get(f"min{of}", 0), schema.get(f"max{of}")
    if most is None:
        return f"at least {least:,}" if least else ""
    if least == most:
        return f"exactly {most:,} {noun}"
    return f"{least:,} to {most:,} {noun}" if least else f"at most {most:,} {noun}"


def _range(schema: Json) -> str:
    least, above, most = (schema.get(name) for name in ("minimum", "exclusiveMinimum", "maximum"))
    least_words = f"more than {above:,}" if above is not None else ""
    if least is not None:
        least_words = f"{least:,} or more"
    if most is None:
        return least_words
    if least is not None:
        return f"{least:,} to {most:,}"
    return " and ".join(filter(None, [least_words, f"at most {most:,}"]))


def _pattern(schema: Json) -> str:
    return f"of the form {schema['pattern']}" if "pattern" in schema else ""
