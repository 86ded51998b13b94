"""JSON Schema 2020-12: arguments of tools, inputs and outputs of skills, forms of questions.

Schemas are written by others, so nothing is fetched and every pattern matches in linear time.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import jsonschema_rs

from ledger import schema_words
from ledger.errors import SchemaUnusable

MOST_ERRORS = 20
Schema = dict[str, Any]


def check(schema: Schema) -> None:
    """Raise ``SchemaUnusable`` unless it is a JSON Schema without references to other documents."""
    if not isinstance(schema, dict):
        raise SchemaUnusable("A JSON Schema is an object.")
    _validator(json.dumps(schema))


def misfits(schema: Schema, value: Any) -> list[dict[str, str]]:
    """The errors of a value, ``[{"field": "dates.0", "message": …}]``; empty when it fits.

    Machines read the messages of the validator, people those of ``schema_words``.
    """
    if not schema:
        return []
    errors: list[dict[str, str]] = []
    for error in _validator(json.dumps(schema)).iter_errors(value):
        place = ".".join(str(step) for step in error.instance_path)
        errors.append({"field": place, "message": schema_words.message_of(error)})
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
