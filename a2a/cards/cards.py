"""Assent's agent cards: built from the skills, versioned and signed."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from a2a import states
from a2a.cards import signatures
from a2a.models import Skill, builtin_skills
from a2a.models.builtin_skills import OWN_SKILLS, OwnSkill
from a2a.states import TaskState
from a2a.validation import ENVELOPE_EXTENSION, SKILLS_EXTENSION
from a2a.wire import sdk
from a2a.wire.sdk import pb
from ledger.api.http import address_of
from ledger.foundation.crypto import signing_keys
from ledger.models import Scope

PATH = "/.well-known/agent-card.json"
JWKS_PATH = "/.well-known/jwks.json"
CACHE_S = 300
MODES = ["application/json", "text/plain"]
ONLY_IN_V03 = (
    "url",
    "protocolVersion",
    "preferredTransport",
    "security",
    "supportsAuthenticatedExtendedCard",
)
# The public card is made of what stands in these files.
SOURCES = [
    Path(__file__),
    Path(states.__file__),
    Path(builtin_skills.__file__),
    Path(settings.BASE_DIR) / "a2a" / "validation" / "extensions.py",
    Path(settings.BASE_DIR) / "approvals" / "__init__.py",  # the version
]


def public_card(skill: str = "") -> pb.AgentCard:
    """The card without a token: the built-in skills only.

    With ``skill`` the card of that skill's own address. For an agent's skill it says no more than
    the address does, so that nobody without a token learns which skills exist.
    """
    if not skill:
        return _signed(_card(_own_skills(), {}))
    own = OWN_SKILLS.get(skill)
    return _signed(_card([_own_skill(own) if own else _unknown_skill(skill)], {}, at=skill))


def extended_card(tenant: str, skill: str = "") -> pb.AgentCard | None:
    """The card for agents of a tenant: the skills that they may submit to, or the one ``skill``.

    ``None`` if there is no such skill for them.
    """
    offered = Skill.objects.offered_to(tenant).select_related("agent").order_by("tenant", "slug")
    if skill in OWN_SKILLS:
        return public_card(skill)
    skills = list(offered.filter(slug=skill)[:1] if skill else offered)
    if skill and not skills:
        return None
    own = [] if skill else _own_skills()
    return _signed(_card([*own, *map(_skill, skills)], _terms_of(skills), at=skill))


def as_json(card: pb.AgentCard) -> dict[str, Any]:
    body: dict[str, Any] = sdk.agent_card_to_dict(card)
    return body


def etag_of(card: pb.AgentCard) -> str:
    body = {name: value for name, value in as_json(card).items() if name != "signatures"}
    return f'"{_digest(body)[:32]}"'


def changed_at() -> datetime:
    """The last change of the code that the public card is made of."""
    return datetime.fromtimestamp(int(max(file.stat().st_mtime for file in SOURCES)), tz=UTC)


def v03_card(card: pb.AgentCard, skill: str = "") -> dict[str, Any]:
    return sdk.v03_card(card, address=f"{_base(skill)}/v0.3")


def for_every_version(card: pb.AgentCard, skill: str = "") -> dict[str, Any]:
    """The card with the members that clients of 0.3 and of the plain dialect need beside 1.0's.

    Clients of 1.0 ignore what they do not know, and the signature does not cover it.
    """
    body, old = as_json(card), v03_card(card, skill)
    schemes = body["securitySchemes"]
    return body | {
        **{name: old[name] for name in ONLY_IN_V03},
        "capabilities": body["capabilities"] | {"inputRequired": True},
        "securitySchemes": {
            name: old_form | schemes[name] for name, old_form in old["securitySchemes"].items()
        },
    }


def _base(skill: str) -> str:
    return f"{settings.LIVE_URL}/a2a/skills/{skill}" if skill else f"{settings.LIVE_URL}/a2a"


DESCRIPTION = (
    "The desk where people sign off what agents are about to do, and answer what they ask."
)


def _card(skills: list[dict[str, Any]], terms: dict[str, Any], at: str = "") -> pb.AgentCard:
    only = skills[0] if at else {"name": "Assent", "description": DESCRIPTION}
    body: dict[str, Any] = {
        "name": only["name"],
        "description": only["description"],
        "supportedInterfaces": [
            {"url": f"{_base(at)}/v1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": f"{_base(at)}/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
        ],
        "provider": {"organization": "Assent", "url": settings.PUBLIC_URL},
        "documentationUrl": address_of("/api/v1/docs"),
        "capabilities": {
            "streaming": True,
            "pushNotifications": True,
            "extendedAgentCard": True,
            "extensions": [_envelope_extension(), _skills_extension(terms)],
        },
        **_security(),
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": skills,
    }
    body["version"] = version_of(body)
    card = pb.AgentCard()
    sdk.ParseDict(body, card)
    return card


def _security() -> dict[str, Any]:
    """A bearer token in any case; where programs sign in by themselves, also how they get one."""
    schemes: dict[str, Any] = {
        "bearer": {
            "httpAuthSecurityScheme": {
                "scheme": "Bearer",
                "description": "An agent token that an operator issued.",
            }
        },
    }
    if server := settings.AUTHORIZATION_SERVER:
        flow = {
            "tokenUrl": f"{server}/oauth/token",
            "scopes": {scope.value: str(scope.label) for scope in (Scope.PROPOSE, Scope.SUBMIT)},
        }
        schemes["oauth2"] = {"oauth2SecurityScheme": {"flows": {"clientCredentials": flow}}}
    names: dict[str, list[str]] = {"bearer": [], "oauth2": [Scope.SUBMIT.value]}
    required = [{"schemes": {name: {"list": names[name]}}} for name in schemes]
    return {"securitySchemes": schemes, "securityRequirements": required}


def _own_skills() -> list[dict[str, Any]]:
    return [_own_skill(skill) for skill in OWN_SKILLS.values()]


def _own_skill(skill: OwnSkill) -> dict[str, Any]:
    return {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "tags": skill.tags,
        "inputModes": MODES,
        "outputModes": MODES,
    }


def _unknown_skill(slug: str) -> dict[str, Any]:
    return {
        "id": slug,
        "name": slug,
        "description": "The address of one skill. Its description is shown to agents with a token.",
        "tags": ["skill"],
        "inputModes": MODES,
        "outputModes": MODES,
    }


def _skill(skill: Skill) -> dict[str, Any]:
    return {
        "id": skill.slug,
        "name": skill.name,
        "description": skill.description or skill.name,
        "tags": skill.tags or [skill.agent.slug],
        "inputModes": MODES,
        "outputModes": MODES,
    }


def _envelope_extension() -> dict[str, Any]:
    return {
        "uri": ENVELOPE_EXTENSION,
        "description": "Who sends what to whom on whose behalf; required across tenants and for "
        "delegated tasks.",
        "required": False,
        "params": {"schema": address_of("/a2a/schemas/envelope-1.json")},
    }


def _terms_of(skills: list[Skill]) -> dict[str, Any]:
    return {
        skill.slug: {
            "owner": f"{skill.tenant}/{skill.agent.slug}",
            "input_schema": skill.input_schema,
            "output_schema": skill.output_schema,
            "required_scope": skill.required_scope,
            "requires_envelope": skill.requires_envelope,
            "timeout_s": skill.timeout.total_seconds(),
            "question_ttl_s": skill.question_ttl.total_seconds(),
        }
        for skill in skills
    }


def _skills_extension(terms: dict[str, Any]) -> dict[str, Any]:
    """Facts without fields in the protocol: schemas, owners, limits of skills, and the states."""
    own = {
        skill.id: {"owner": "assent", "input_schema": skill.input_schema}
        for skill in OWN_SKILLS.values()
    }
    return {
        "uri": SKILLS_EXTENSION,
        "description": "JSON Schemas, owners and limits of the skills; the states of a task.",
        "required": False,
        "params": {
            "skills": {**own, **terms},
            "states": {state.value: state.label for state in TaskState},
            "task_schema": address_of("/a2a/schemas/task-1.json"),
        },
    }


def _signed(card: pb.AgentCard) -> pb.AgentCard:
    key = signatures.card_key()
    if key is None:
        return card
    header = {
        "kid": signing_keys.key_id(key),
        "alg": signing_keys.ALGORITHM,
        "typ": "JOSE",
        "jku": address_of(JWKS_PATH),
    }
    return sdk.create_agent_card_signer(key, header)(card)  # type: ignore[arg-type]


def version_of(body: dict[str, Any]) -> str:
    """The version of Assent and a digest of the card, so that it changes with the content."""
    return f"{settings.VERSION}+{_digest(body)[:8]}"


def _digest(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()
