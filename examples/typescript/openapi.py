"""The part of our OpenAPI document that the client in TypeScript uses: standard input to output."""

from __future__ import annotations

import json
import sys
from typing import Any

Json = dict[str, Any]
USED = [
    "/api/v1/tools",
    "/api/v1/tools/{name}/call",
    "/api/v1/transactions",
    "/api/v1/transactions/{transaction_id}",
    "/api/v1/transactions/{transaction_id}/cancel",
    "/api/v1/transactions/{transaction_id}/answer",
    "/api/v1/tasks",
    "/api/v1/tasks/{task_id}",
]
SCHEMA = "#/components/schemas/"


def part_of(document: Json) -> str:
    """The operations that the client calls, with all that their shapes refer to."""
    paths = {path: document["paths"][path] for path in USED}
    components = document["components"]
    kept: Json = {}
    _keep(paths, components["schemas"], kept)
    part = {
        "openapi": document["openapi"],
        "info": {name: document["info"][name] for name in ("title", "version")},
        "paths": paths,
        "components": {**components, "schemas": dict(sorted(kept.items()))},
    }
    return json.dumps(part, indent=1)


def _keep(part: Any, schemas: Json, kept: Json) -> None:
    if isinstance(part, list):
        for each in part:
            _keep(each, schemas, kept)
    elif isinstance(part, dict):
        name = str(part.get("$ref", "")).removeprefix(SCHEMA)
        if name in schemas and name not in kept:
            kept[name] = schemas[name]
            _keep(schemas[name], schemas, kept)
        for each in part.values():
            _keep(each, schemas, kept)


if __name__ == "__main__":
    sys.stdout.write(part_of(json.load(sys.stdin)))
