"""The skills that Assent executes itself: prepare a transaction, ask a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ledger.models import Scope

UUID_PATTERN = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


@dataclass(frozen=True, slots=True)
class OwnSkill:
    id: str
    name: str
    description: str
    tags: list[str]
    input_schema: dict[str, Any]
    required_scope: str = ""


PREPARE_TRANSACTION = OwnSkill(
    "prepare_transaction",
    "Prepare a transaction",
    "Propose the use of a tool that changes the world. The task waits for sign-off and completes "
    "with the receipt.",
    ["sign-off", "two-phase commit", "tools"],
    {
        "type": "object",
        "properties": {
            "tool": {"type": "string", "maxLength": 100},
            "arguments": {"type": "object"},
            "reason": {"type": "string", "maxLength": 2000},
            "run_id": {"type": "string", "maxLength": 200},
            "step_id": {"type": "string", "maxLength": 200},
            "replaces": {
                "type": "string",
                "pattern": UUID_PATTERN,
                "description": "The transaction that was sent back, where this follows it.",
            },
            "ttl_s": {"type": "integer", "minimum": 1, "maximum": 31_536_000},
        },
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    },
    required_scope=Scope.PROPOSE,
)
ASK_A_PERSON = OwnSkill(
    "ask_a_person",
    "Ask a person",
    "Put a question before the people of your tenant; the task completes with their answer.",
    ["question", "human in the loop"],
    {
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "maxLength": 10_000},
            "form": {"type": "object", "description": "JSON Schema of the answer."},
            "evidence": {"type": "array", "items": {"type": "object"}, "maxItems": 100},
            "ttl_s": {"type": "number", "exclusiveMinimum": 0, "maximum": 2_592_000},
        },
        "required": ["text"],
        "additionalProperties": False,
    },
)
OWN_SKILLS = {skill.id: skill for skill in (PREPARE_TRANSACTION, ASK_A_PERSON)}
