"""JSON Schemas that clients may rely on. A new minor version only adds optional members."""

from __future__ import annotations

from typing import Any

from a2a.errors import Reason
from a2a.states import TaskState
from a2a.submissions.envelope import Envelope
from a2a.validation import Cost
from ledger.transactions import OutcomeKind

_TASK_1: dict[str, Any] = {
    "title": "What Assent says about a task",
    "description": "Under urn:assent:a2a:task:1 in the metadata of a task. Ignore unknown members: "
    "a later 1.x may add some.",
    "type": "object",
    "properties": {
        "skill": {"type": "string"},
        "owner": {"type": "string", "description": "The principal that has it now."},
        "depth": {"type": "integer", "minimum": 0},
        "trace_id": {"type": "string"},
        "created_at": {"type": "string", "format": "date-time"},
        "expires_at": {"type": "string", "format": "date-time"},
        "parent_task": {"type": "string", "format": "uuid"},
        "revises": {"type": "string", "format": "uuid"},
        "progress": {"type": "object"},
        "reason": {
            "type": "object",
            "properties": {
                "code": {"enum": Reason.values},
                "detail": {"type": "string"},
                "errors": {"type": "array"},
            },
            "required": ["code", "detail"],
        },
        "cost": Cost.model_json_schema(),
        "outcome": {
            "type": "object",
            "description": "How the transaction that the task proposed stands.",
            "properties": {
                "kind": {"enum": [kind.value for kind in OutcomeKind]},
                "is_final": {"type": "boolean"},
                "sentence": {"type": "string", "description": "For the model, as it is."},
                "do_not_retry": {"type": "boolean"},
            },
            "required": ["kind", "is_final", "sentence", "do_not_retry"],
        },
        "proposal": {
            "type": "object",
            "description": "What people changed in that transaction, and what they want of the "
            "agent that proposed it.",
            "properties": {
                "transaction_id": {"type": "string", "format": "uuid"},
                "revision": {"type": "integer", "minimum": 1},
                "changed": {"type": "array", "items": {"type": "object"}},
                "question": {"type": ["object", "null"]},
                "change_request": {"type": ["object", "null"]},
                "replaces": {"type": ["string", "null"]},
                "replaced_by": {"type": ["string", "null"]},
            },
        },
    },
    "required": ["skill", "owner", "depth"],
    "x-states": {state.value: state.label for state in TaskState},
}


def _named(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:assent:schema:{name}",
        **schema,
    }


SCHEMAS = {
    "envelope-1.json": _named("envelope-1", Envelope.model_json_schema(by_alias=True)),
    "task-1.json": _named("task-1", _TASK_1),
}
