"""Which skill a message is for, and what its words are to that skill.

Many clients can send nothing but text, and name no skill. The skill is then that of the address,
or of the token, or the only one that takes text, or ``ask_a_person``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

from a2a.models import Skill
from a2a.models.builtin_skills import ASK_A_PERSON, OWN_SKILLS
from a2a.validation import spellings
from ledger.agents.callers import Caller
from ledger.errors import InvalidRequest

Schema = dict[str, Any]
MOST_NAMED = 10  # members of an input that are named to who sent text


@dataclass(frozen=True, slots=True)
class PlainText:
    """An input that came as text only; what it is to a skill, the skill's schema says."""

    text: str


def read(parts: list[dict[str, Any]], metadata: dict[str, Any], envelope: Any) -> tuple[str, Any]:
    """The skill that a message names, if it names one, and the input.

    Either a data part ``{"skill": …, "input": …}``, or the same as text; or the skill in the
    metadata (or the envelope's ``capability``), and the input in the first data part, or the text.
    """
    data = next((part["data"] for part in parts if "data" in part), None)
    if _is_request(data):
        return data["skill"], data.get("input")
    named = metadata.get("skill") or metadata.get("skillId") or metadata.get("skill_id")
    if not named:
        named = spellings.capability_of(envelope)
    if data is not None:
        return str(named or ""), data
    text = "\n".join(part["text"] for part in parts if "text" in part)
    if not named and _is_request(said := _as_json(text)):
        return said["skill"], said.get("input")
    return str(named or ""), PlainText(text)


def _is_request(said: Any) -> TypeGuard[dict[str, Any]]:
    return (
        isinstance(said, dict)
        and isinstance(said.get("skill"), str)
        and set(said) <= {"skill", "input"}
    )


def at(address: str, named: str) -> str:
    """The skill of a message that came to an address. Raises ``InvalidRequest``."""
    if address and named and named != address:
        raise InvalidRequest(
            f"This is the address of {address!r}, and the message asks for {named!r}.",
            hint="Send it to the address of all skills, or to that skill's own.",
        )
    return named or address


def skill_for(caller: Caller, given: Any) -> str:
    """The skill of a message that names none, at the address of all; empty: there is none."""
    if caller.default_skill or not isinstance(given, PlainText):
        return caller.default_skill
    offered = Skill.objects.offered_to(caller.tenant).filter(tenant=caller.tenant, drift="")
    # Two are enough to know that it is not the only one.
    textual = [skill.slug for skill in offered.order_by("pk") if takes_text(skill.input_schema)]
    return textual[0] if len(textual) == 1 else ASK_A_PERSON.id


def takes_text(schema: Schema) -> bool:
    return _place_of_text(schema) is not None


def as_input(given: Any, schema: Schema) -> Any:
    """Text in the place that the schema has for it; or as JSON, where there is no such place."""
    if not isinstance(given, PlainText):
        return given
    said = _as_json(given.text)
    if schema and isinstance(said, dict):
        return said
    place = _place_of_text(schema)
    if place is None:
        return {"text": given.text} if said is None else said
    return place(given.text)


def what_it_takes(slug: str, schema: Schema) -> str:
    """For who sent text to a skill that takes something else."""
    required = schema.get("required", [])
    members = [
        f"{name} ({_kind_of(terms)}{', required' if name in required else ''})"
        for name, terms in list(schema.get("properties", {}).items())[:MOST_NAMED]
    ]
    said = f"an object with {', '.join(members)}" if members else f"a JSON {_kind_of(schema)}"
    return (
        f"The skill {slug!r} does not take plain text but {said}. Send that as JSON: as the text, "
        "or in a data part."
    )


def _place_of_text(schema: Schema) -> Callable[[str], Any] | None:
    """Where a text goes: it is the input, or its one required (or only) text; else nowhere."""
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
    """The object that the text is, if it is one."""
    plain = text.strip()
    if not plain.startswith("{"):
        return None
    try:
        said = json.loads(plain)
        json.dumps(said, allow_nan=False)  # NaN and 1e999 are no JSON that can be kept
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def schema_of(slug: str, skill: Skill | None) -> Schema:
    """The input schema of a skill of an agent, or of Assent itself."""
    own = OWN_SKILLS.get(slug)
    found: Schema = skill.input_schema if skill else own.input_schema if own else {}
    return found
