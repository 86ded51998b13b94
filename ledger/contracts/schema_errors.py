"""The errors of a value under its JSON Schema, in words for people who fill in a form."""

from __future__ import annotations

import json
from typing import Any

from jsonschema_rs import ValidationError

from ledger.errors import Sentence

LONGEST = 500  # characters of what the validator says
SHOWN = 100  # characters of a value of the schema

TYPES = {
    "array": Sentence("a list"),
    "boolean": Sentence("yes or no"),
    "integer": Sentence("a whole number"),
    "null": Sentence("nothing"),
    "number": Sentence("a number"),
    "object": Sentence("an object with names and values"),
    "string": Sentence("a text"),
}
# By the name of the keyword; the values are what the keyword says in the schema.
WORDS = {
    "required": Sentence("{name} is missing."),
    "minimum": Sentence("It has to be at least {limit}."),
    "maximum": Sentence("It has to be at most {limit}."),
    "exclusiveMinimum": Sentence("It has to be more than {limit}."),
    "exclusiveMaximum": Sentence("It has to be less than {limit}."),
    "multipleOf": Sentence("It has to be a multiple of {limit}."),
    "minLength": Sentence("It needs at least this many characters: {limit}."),
    "maxLength": Sentence("It has more characters than allowed: {limit} at most."),
    "minItems": Sentence("It needs at least this many entries: {limit}."),
    "maxItems": Sentence("It has more entries than allowed: {limit} at most."),
    "uniqueItems": Sentence("The same entry is there twice."),
    "pattern": Sentence("It does not have the form that is asked for: {limit}"),
    "format": Sentence("It does not have the form that is asked for: {limit}"),
    "enum": Sentence("It has to be one of these: {limit}."),
    "const": Sentence("It has to be exactly {limit}."),
    "type": Sentence("It has to be {name}."),
    "additionalProperties": Sentence("Nobody asked for {name}."),
}


def message_of(error: ValidationError) -> str:
    """The validator's message, with words for people beside it where there are some."""
    message, keyword = error.message[:LONGEST], error.kind.name
    values = _values(keyword, error.kind.as_dict())
    if keyword not in WORDS or values is None:
        return message
    return Sentence(WORDS[keyword].template, reads=message, **values)


def _values(keyword: str, terms: dict[str, Any]) -> dict[str, Any] | None:
    """Values that fill in the words; ``None`` where they would not say it."""
    match keyword:
        case "required":
            return {"name": str(terms["property"])[:SHOWN]}
        case "additionalProperties":
            return {"name": ", ".join(map(str, terms["unexpected"]))[:SHOWN]}
        case "type":
            names = [TYPES.get(name) for name in terms["types"] if name != "null"]
            return {"name": names[0]} if len(names) == 1 and names[0] else None
        case "enum":
            return {"limit": ", ".join(map(_shown, terms["options"]))[: 3 * SHOWN]}
        case "uniqueItems":
            return {}
        case "const" | "multipleOf" | "pattern" | "format":
            return {"limit": _shown(next(iter(terms.values())))}
    return {"limit": terms.get("limit")}


def _shown(value: Any) -> str:
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:SHOWN]
