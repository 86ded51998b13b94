"""Cards of remote agents: fetched, validated, and read as the skills that they offer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

import httpx

from a2a import validation
from a2a.remote import outbound
from a2a.wire import BINDINGS, CAPABILITIES, RemoteCard, card_from_json
from ledger.errors import InvalidRequest, Sentence
from ledger.foundation.http_out import AddressRefused
from ledger.seals import can_be_kept

CARD_PATH = "/.well-known/agent-card.json"


class CardRefused(InvalidRequest):
    code = "card_refused"
    title = Sentence("The agent card cannot be used")
    hint = Sentence(
        "Nothing was registered or pinned. Check the address and what the agent offers."
    )


class Unreachable(Exception):
    """The remote agent did not respond, or not with an agent card."""


def fetch(url: str, token: str = "") -> dict[str, Any]:
    """The card as JSON; ``url`` is the agent's or the card's. Raises ``Unreachable``."""
    address = url if url.endswith(".json") else url.rstrip("/") + CARD_PATH
    try:
        return asyncio.run(_get(address, token))
    except AddressRefused as refusal:
        raise Unreachable(str(refusal)) from None
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, RecursionError) as failure:
        raise Unreachable(f"{address}: {str(failure) or type(failure).__name__}") from failure


def fetch_storable(url: str, token: str = "") -> dict[str, Any]:
    """As ``fetch``, and refuses a card that no column can have."""
    card = fetch(url, token)
    if not can_be_kept(card):
        raise Unreachable(f"{url}: its card cannot be stored: it is no plain JSON, or too deep.")
    return card


async def _get(address: str, token: str) -> dict[str, Any]:
    async with outbound.client(token) as http:
        response = await http.get(address)
        if response.status_code != 200:
            raise Unreachable(f"{address} answered {response.status_code}.")
        card = response.json()
        if not isinstance(card, dict):
            raise Unreachable(f"{address} is no agent card.")
        return card


@dataclass(frozen=True, slots=True)
class ReadCard:
    """A card that Assent can work with. Its ``sha256`` names what it says."""

    content: dict[str, Any]
    parsed: RemoteCard
    sha256: str


def read_card(url: str, token: str, required: list[str], *, seen: str = "") -> ReadCard:
    """Fetch and validate a card, and keep nothing of it. Raises ``CardRefused``.

    ``seen`` is the ``sha256`` of the card that a person has looked at: another one is refused.
    """
    try:
        content = fetch_storable(url, token)
    except Unreachable as failure:
        raise CardRefused(str(failure)) from failure
    card = ReadCard(content, validated(content, required), fingerprint(content))
    if seen and card.sha256 != seen:
        raise CardRefused("The card has changed since you looked at it: look again.")
    return card


def fingerprint(card: dict[str, Any]) -> str:
    """SHA-256 of the card without its signatures, which may differ at each reading."""
    content = {name: value for name, value in card.items() if name != "signatures"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def validated(card: dict[str, Any], required: list[str]) -> RemoteCard:
    """The parsed card, if Assent can work with the agent; else raises ``CardRefused``.

    ``required`` are capabilities that the agent must have. The error lists everything that is
    missing.
    """
    try:
        parsed = card_from_json(card)
    except Exception as failure:  # the parser raises any type for a stranger's JSON
        raise CardRefused(f"It is not an agent card: {str(failure)[:300]}") from failure
    if faults := _faults(parsed, required):
        name = parsed.name[:200] or "the agent"
        raise CardRefused(f"The card of {name} cannot be used: {'; '.join(faults)}.")
    return parsed


def _faults(card: RemoteCard, required: list[str]) -> list[str]:
    faults = []
    if not card.name:
        faults.append("it has no name")
    if not card.skills:
        faults.append("it offers no skills")
    if not card.bindings & set(BINDINGS):
        faults.append(f"it has no interface of {' or '.join(BINDINGS)}")
    lacking = [name for name in required if name not in card.capabilities & set(CAPABILITIES)]
    return [*faults, *(f"it lacks the capability {name}" for name in lacking)]


@dataclass(frozen=True, slots=True)
class OfferedSkill:
    """A skill of a remote agent, with what its card says about it; cut to what is stored."""

    remote_id: str
    name: str
    description: str
    tags: list[str]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    input_modes: list[str]
    output_modes: list[str]


def skills_of(card: RemoteCard) -> dict[str, OfferedSkill]:
    """The skills that the card offers, by the slug that each has here."""
    schemas = _object(card.extensions.get(validation.SKILLS_EXTENSION, {}).get("skills"))
    return {
        slug_of(skill.id): OfferedSkill(
            remote_id=skill.id,
            name=skill.name[:200] or skill.id[:200],
            description=skill.description[:2000],
            tags=[tag[:50] for tag in skill.tags[:20]],
            input_schema=_object(_object(schemas.get(skill.id)).get("input_schema")),
            output_schema=_object(_object(schemas.get(skill.id)).get("output_schema")),
            input_modes=sorted(skill.input_modes),
            output_modes=sorted(skill.output_modes),
        )
        for skill in card.skills
    }


def _object(value: Any) -> dict[str, Any]:
    """The value, if a stranger wrote an object there; else an empty one."""
    return value if isinstance(value, dict) else {}


def slug_of(skill_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", skill_id).strip("-")[:100] or "skill"
