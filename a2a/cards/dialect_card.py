"""The agent card of the plain dialect, which its clients read before the first task.

A2A 1.0 has no fields for some of its content (questions, one ``url``, authentication by name), so
this card exists beside the protocol's own and describes ``/api/v1`` alone. With a token it also
lists the skills of the token's tenant.
"""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings

from a2a.cards import cards
from a2a.models import Skill
from a2a.models.builtin_skills import OWN_SKILLS
from a2a.states import TaskState
from ledger.api.http import address_of

BASE = "/api/v1"
PATH = f"{BASE}/.well-known/agent-card.json"


def card(tenant: str | None) -> dict[str, Any]:
    """The card for agents of that tenant; ``None``: without a token."""
    skills = [_own(skill.id) for skill in OWN_SKILLS.values()]
    if tenant is not None:
        offered = Skill.objects.offered_to(tenant).select_related("agent")
        skills += [_offered(skill) for skill in offered.order_by("tenant", "slug")]
    body = {
        "name": "Assent",
        "description": "Tasks and questions over plain HTTP and JSON.",
        "url": address_of(BASE),
        "documentationUrl": address_of(f"{BASE}/docs"),
        "provider": {"organization": "Assent", "url": settings.PUBLIC_URL},
        "capabilities": {
            "streaming": False,
            "pushNotifications": True,
            "inputRequired": True,
            "stateTransitionHistory": True,
        },
        "authentication": {"schemes": ["bearer"]},
        "defaultInputModes": cards.MODES,
        "defaultOutputModes": cards.MODES,
        "states": {state.value: state.label for state in TaskState},
        "skills": skills,
    }
    return {**body, "version": cards.version_of(body)}


def current_versions(tenant: str, skill: str) -> set[str]:
    """Versions of every card from which an agent of that tenant may know the skill."""
    shown = [
        cards.public_card(),
        cards.extended_card(tenant),
        cards.public_card(skill),
        cards.extended_card(tenant, skill),
    ]
    versions = {a2a_card.version for a2a_card in shown if a2a_card is not None}
    return versions | {card(tenant)["version"], card(None)["version"]}


def _own(name: str) -> dict[str, Any]:
    skill = OWN_SKILLS[name]
    return _entry(
        id=skill.id,
        name=skill.name,
        description=skill.description,
        tags=skill.tags,
        input_schema=skill.input_schema,
    )


def _offered(skill: Skill) -> dict[str, Any]:
    return _entry(
        id=skill.slug,
        name=skill.name,
        description=skill.description or skill.name,
        tags=skill.tags or [skill.agent.slug],
        input_schema=skill.input_schema,
        output_schema=skill.output_schema,
        requires_envelope=skill.requires_envelope,
        question_ttl_s=skill.question_ttl.total_seconds(),
    )


def _entry(input_schema: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """``examples`` are the schema's own, else the description."""
    given = input_schema.get("examples")
    examples = given if isinstance(given, list) and given else [fields["description"]]
    return {
        **fields,
        "examples": [
            example if isinstance(example, str) else json.dumps(example) for example in examples
        ],
        "inputModes": cards.MODES,
        "outputModes": cards.MODES,
        "input_schema": input_schema,
    }
