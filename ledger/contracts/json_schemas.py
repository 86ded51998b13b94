"""JSON Schema 2020-12: arguments of tools, inputs and outputs of skills, forms of questions.

Schemas are written by others, so nothing is fetched and every pattern matches in linear time.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import jsonschema_rs

from ledger.contracts import schema_errors, schema_visits
from ledger.contracts.schema_visits import ENDLESS, NotFollowed
from ledger.errors import SchemaUnusable, Sentence

MOST_ERRORS = 20
# Subschemas with every reference written out, where none leads back to itself.
MOST_UNFOLDED = 20_000
# Looks at parts of a value: to say what is wrong with it, and to say whether it fits.
MOST_TO_EXPLAIN, MOST_TO_CHECK = 50_000, 2_000_000
TOO_MUCH = Sentence("Checking it against its schema would take too long.")
DOES_NOT_FIT = Sentence("It does not fit its schema; it has too many parts to say where.")
Schema = dict[str, Any]


def check(schema: Schema) -> None:
    """Raise ``SchemaUnusable`` unless it is a JSON Schema without references to other documents."""
    if not isinstance(schema, dict):
        raise SchemaUnusable("A JSON Schema is an object.")
    text = json.dumps(schema)
    _validator(text)
    try:
        parts = schema_visits.unfolded(text)
    except NotFollowed as refusal:
        raise SchemaUnusable(str(refusal)) from None
    if MOST_UNFOLDED < parts < ENDLESS:
        raise SchemaUnusable(f"Its references unfold to more than {MOST_UNFOLDED} subschemas.")


def misfits(schema: Schema, value: Any) -> list[dict[str, str]]:
    """The errors of a value, ``[{"field": "dates.0", "message": …}]``; empty when it fits.

    Machines read the messages of the validator, people those of ``schema_errors``.
    """
    if not schema:
        return []
    text = json.dumps(schema)
    effort = _effort(text, value)
    if effort > MOST_TO_CHECK:
        return [{"field": "", "message": TOO_MUCH}]
    validator = _validator(text)
    if effort > MOST_TO_EXPLAIN:
        fits = validator.is_valid(value)
        return [] if fits else [{"field": "", "message": DOES_NOT_FIT}]
    return _explained(validator, value)


def _effort(text: str, value: Any) -> int:
    try:
        return schema_visits.visits(text, value)
    except NotFollowed:
        return ENDLESS


def _explained(validator: jsonschema_rs.Draft202012Validator, value: Any) -> list[dict[str, str]]:
    errors: list[dict[str, str]] = []
    for error in validator.iter_errors(value):
        place = ".".join(str(step) for step in error.instance_path)
        errors.append({"field": place, "message": schema_errors.message_of(error)})
        if len(errors) == MOST_ERRORS:
            break
    return errors


@lru_cache(maxsize=1024)
def _validator(text: str) -> jsonschema_rs.Draft202012Validator:
    try:
        return jsonschema_rs.Draft202012Validator(
            json.loads(text),
            offline=True,
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except (ValueError, jsonschema_rs.ReferencingError) as refusal:
        raise SchemaUnusable(str(refusal).splitlines()[0][:500]) from refusal
