"""The skill that a message is for, and the input that its text is to that skill.

Many clients send nothing but text, and name no skill. The skill is then that of the address, or of
the token, or the only one that takes text, or ``ask_a_person``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

from a2a import validation
from a2a.models import Skill
from a2a.models.builtin_skills import ASK_A_PERSON, OWN_SKILLS
from ledger.agents import Caller
from ledger.errors import InvalidRequest

Schema = dict[str, Any]
MOST_NAMED = 10  # members of an input schema that an error message lists


@dataclass(frozen=True, slots=True)
class PlainText:
    """An input that came as text only; the skill's schema decides how it is read."""

    text: str


def read(parts: list[dict[str, Any]], metadata: dict[str, Any], envelope: Any) -> tuple[str, Any]:
    """The skill that a message names (empty: none), and the input.

    Either both in a data part ``{"skill": …, "input": …}`` or in a text of that form; or the skill
    in the metadata (else the envelope's ``capability``), and the input in the first data part, else
    in the texts.
    """
    data = next((part["data"] for part in parts if "data" in part), None)
    if _is_request(data):
        return data["skill"], data.get("input")
    named = metadata.get("skill") or metadata.get("skillId") or metadata.get("skill_id")
    if not named:
        named = validation.capability_of(envelope)
    if data is not None:
        return str(named or ""), data
    text = "\n".join(part["text"] for part in parts if "text" in part)
    if not named and _is_request(request := _as_json(text)):
        return request["skill"], request.get("input")
    return str(named or ""), PlainText(text)


def _is_request(value: Any) -> TypeGuard[dict[str, Any]]:
    return (
        isinstance(value, dict)
        and isinstance(value.get("skill"), str)
        and set(value) <= {"skill", "input"}
    )


def at(address: str, named: str) -> str:
    """The skill of a message that names ``named`` and was sent to the skill ``address``.

    Either may be empty. Raises ``InvalidRequest`` when they differ.
    """
    if address and named and named != address:
        raise InvalidRequest(
            f"This is the address of {address!r}, and the message asks for {named!r}.",
            hint="Send it to the address of all skills, or to that skill's own.",
        )
    return named or address


def skill_for(caller: Caller, given: Any) -> str:
    """The skill of a message that names none, at the address of all skills; empty: no skill."""
    if caller.default_skill or not isinstance(given, PlainText):
        return caller.default_skill
    offered = Skill.objects.offered_to(caller.tenant).filter(tenant=caller.tenant, drift="")
    textual = [skill.slug for skill in offered.order_by("pk") if takes_text(skill.input_schema)]
    return textual[0] if len(textual) == 1 else ASK_A_PERSON.id


def takes_text(schema: Schema) -> bool:
    """True if a plain text can be the input of a skill with this schema."""
    return _place_of_text(schema) is not None


def as_input(given: Any, schema: Schema) -> Any:
    """The input of a skill: a plain text as the schema takes it, else parsed as JSON."""
    if not isinstance(given, PlainText):
        return given
    value = _as_json(given.text)
    if schema and isinstance(value, dict):
        return value
    place = _place_of_text(schema)
    if place is None:
        return {"text": given.text} if value is None else value
    return place(given.text)


def expected_input(slug: str, schema: Schema) -> str:
    """Error text for a client that sent plain text to a skill that takes an object."""
    required = schema.get("required", [])
    members = [
        f"{name} ({_kind_of(terms)}{', required' if name in required else ''})"
        for name, terms in list(schema.get("properties", {}).items())[:MOST_NAMED]
    ]
    expected = f"an object with {', '.join(members)}" if members else f"a JSON {_kind_of(schema)}"
    return (
        f"The skill {slug!r} does not take plain text but {expected}. "
        "Send that as JSON: as the text, or in a data part."
    )


def _place_of_text(schema: Schema) -> Callable[[str], Any] | None:
    """The way a text becomes the input: as it is, or as its one required (or only) member.

    ``None`` when the schema has no such place.
    """
    if not schema:
        return lambda text: {"text": text}
    if schema.get("type") == "string":
        return lambda text: text
    properties = schema.get("properties", {})
    if schema.get("type", "object") != "object" or not isinstance(properties, dict):
        return None
    candidates = schema.get("required") or list(properties)
    if len(candidates) != 1:
        return None
    (name,) = candidates
    if _kind_of(properties.get(name, {})) != "string":
        return None
    return lambda text: {name: text}


def _kind_of(terms: Any) -> str:
    kind = terms.get("type") if isinstance(terms, dict) else None
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind or "value")


def _as_json(text: str) -> Any:
    """The JSON object in the text; ``None`` if it is none."""
    plain = text.strip()
    if not plain.startswith("{"):
        return None
    try:
        value = json.loads(plain)
        json.dumps(value, allow_nan=False)  # NaN and 1e999 cannot be stored
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def schema_of(slug: str, skill: Skill | None) -> Schema:
    """The input schema of an agent's skill, else of the built-in skill of that name."""
    own = OWN_SKILLS.get(slug)
    offered = skill or own
    return offered.input_schema if offered else {}
