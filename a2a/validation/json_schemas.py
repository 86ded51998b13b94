"""JSON Schema 2020-12: the inputs and outputs of skills, the forms of questions.

Schemas are written by agents, so nothing is fetched and every pattern matches in linear time.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import jsonschema_rs

from a2a.errors import SchemaUnusable

MOST_ERRORS = 20
Schema = dict[str, Any]


def check(schema: Schema) -> None:
    """Raises ``SchemaUnusable`` when it is no schema, or one that refers to elsewhere."""
    if not isinstance(schema, dict):
        raise SchemaUnusable("A JSON Schema is an object.")
    _validator(json.dumps(schema))


def misfits(schema: Schema, value: Any) -> list[dict[str, str]]:
    """What is wrong with a value: ``[{"field": "dates.0", "message": …}]``; empty when it fits."""
    if not schema:
        return []
    found = []
    for error in _validator(json.dumps(schema)).iter_errors(value):
        place = ".".join(str(step) for step in error.instance_path)
        found.append({"field": place, "message": error.message[:500]})
        if len(found) == MOST_ERRORS:
            break
    return found


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
