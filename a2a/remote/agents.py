"""Remote agents: their cards, pinned and watched. Assent is the client here."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from datetime import timedelta
from typing import Any

import httpx
from django.db.models.functions import Now
from django.db.transaction import atomic

from a2a.models import RemoteAgent, Skill
from a2a.remote import outbound
from a2a.wire import sdk
from a2a.wire.sdk import pb
from ledger.errors import InvalidRequest
from ledger.events import account_changes
from ledger.events.account_changes import ChangeKind
from ledger.models import Agent, Tenant
from ledger.principals import Principal
from ledger.safe_http import AddressRefused

logger = logging.getLogger(__name__)

CARD_PATH = "/.well-known/agent-card.json"
REFETCH_EVERY = timedelta(minutes=5)
SKILLS_EXTENSION = "urn:assent:a2a:skills:1"
BINDINGS = ("JSONRPC", "HTTP+JSON")
CAPABILITIES = ("streaming", "push_notifications", "extended_agent_card")


class CardRefused(InvalidRequest):
    code = "card_refused"
    title = "The agent card cannot be used"
    hint = "Nothing was registered or pinned. Check the address and what the agent offers."


class Unreachable(Exception):
    """The remote did not answer, or not in the protocol."""


def register(
    tenant: Tenant, *, slug: str, url: str, token: str = "", required: list[str] | None = None
) -> RemoteAgent:
    """Fetch and validate the card, pin it, and offer its skills. Raises ``CardRefused``."""
    try:
        card = fetch(url, token)
    except Unreachable as failure:
        raise CardRefused(str(failure)) from failure
    parsed = validated(card, required or [])
    with atomic():
        agent, _ = Agent.objects.get_or_create(
            tenant=tenant, slug=slug, defaults={"name": parsed.name[:200] or slug}
        )
        remote, _ = RemoteAgent.objects.update_or_create(
            agent=agent,
            defaults={"url": url, "token": token, "required_capabilities": required or []},
        )
        _pin(remote, card, parsed)
    return remote


def pin(remote: RemoteAgent, *, by: Principal, via: str) -> None:
    """Hold the agent to its card as it is now; ends the drift. Raises ``CardRefused``."""
    try:
        card = fetch(remote.url, remote.token)
    except Unreachable as failure:
        raise CardRefused(str(failure)) from failure
    parsed = validated(card, remote.required_capabilities)
    with atomic():
        _pin(remote, card, parsed)
        account_changes.record(
            str(remote.agent.principal),
            ChangeKind.REMOTE_AGENT_PINNED,
            tenant=remote.agent.tenant_id,
            by=by,
            via=via,
            name=remote.agent.name,
            details={"card_version": parsed.version[:100]},
        )


def _pin(remote: RemoteAgent, card: dict[str, Any], parsed: pb.AgentCard) -> None:
    RemoteAgent.objects.filter(pk=remote.pk).update(
        card=card,
        seen_card=card,
        card_version=parsed.version[:100],
        drift="",
        error="",
        pinned_at=Now(),
        fetched_at=Now(),
        refetch_at=Now() + REFETCH_EVERY,
    )
    offered = skills_of(parsed)
    Skill.objects.filter(agent=remote.agent).exclude(slug__in=offered).update(is_active=False)
    for slug, terms in offered.items():
        _offer(remote, slug, terms)


def _offer(remote: RemoteAgent, slug: str, terms: dict[str, Any]) -> None:
    taken = Skill.objects.filter(tenant=remote.agent.tenant_id, slug=slug)
    if taken.exclude(agent=remote.agent).exists():
        raise CardRefused(f"Another agent of the tenant has a skill {slug!r} already.")
    Skill.objects.update_or_create(
        agent=remote.agent,
        slug=slug,
        defaults={
            "tenant": remote.agent.tenant_id,
            "name": terms["name"],
            "description": terms["description"],
            "tags": terms["tags"],
            "input_schema": terms["input_schema"],
            "output_schema": terms["output_schema"],
            "is_active": True,
            "drift": "",
        },
    )


def fetch(url: str, token: str = "") -> dict[str, Any]:
    """The card as JSON. Raises ``Unreachable``."""
    address = url if url.endswith(".json") else url.rstrip("/") + CARD_PATH

    async def get() -> dict[str, Any]:
        async with outbound.client(token) as http:
            answer = await http.get(address)
            if answer.status_code != 200:
                raise Unreachable(f"{address} answered {answer.status_code}.")
            found = answer.json()
            if not isinstance(found, dict):
                raise Unreachable(f"{address} is no agent card.")
            return found

    try:
        return asyncio.run(get())
    except AddressRefused as refusal:
        raise Unreachable(str(refusal)) from None
    except (httpx.HTTPError, TimeoutError, ValueError) as failure:
        raise Unreachable(f"{address}: {str(failure) or type(failure).__name__}") from failure


def validated(card: dict[str, Any], required: list[str]) -> pb.AgentCard:
    """The card, if we can work with the agent. Raises ``CardRefused``, saying all that is wrong."""
    try:
        parsed = parse(card)
    except Exception as failure:  # of whatever kind the parser has for strangers' JSON
        raise CardRefused(f"It is not an agent card: {str(failure)[:300]}") from failure
    wrong = []
    if not parsed.name:
        wrong.append("it has no name")
    if not parsed.skills:
        wrong.append("it offers no skills")
    if not any(face.protocol_binding in BINDINGS for face in parsed.supported_interfaces):
        wrong.append(f"it has no interface of {' or '.join(BINDINGS)}")
    wrong += [
        f"it lacks the capability {name}"
        for name in required
        if name not in CAPABILITIES or not getattr(parsed.capabilities, name)
    ]
    if wrong:
        raise CardRefused(f"The card of {parsed.name or 'the agent'} cannot be used: "
                          f"{'; '.join(wrong)}.")  # fmt: skip
    return parsed


def parse(card: dict[str, Any]) -> pb.AgentCard:
    parsed: pb.AgentCard = sdk.parse_agent_card(json.loads(json.dumps(card)))
    return parsed


def skills_of(card: pb.AgentCard) -> dict[str, dict[str, Any]]:
    """What the card offers, by our id for it."""
    terms = _terms(card)
    return {
        slug_of(skill.id): {
            "remote_id": skill.id,
            "name": skill.name[:200] or skill.id,
            "description": skill.description[:2000],
            "tags": [tag[:50] for tag in skill.tags[:20]],
            "input_schema": terms.get(skill.id, {}).get("input_schema") or {},
            "output_schema": terms.get(skill.id, {}).get("output_schema") or {},
            "modes": [sorted(skill.input_modes), sorted(skill.output_modes)],
        }
        for skill in card.skills
    }


def slug_of(skill_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", skill_id).strip("-")[:100] or "skill"


def _terms(card: pb.AgentCard) -> dict[str, Any]:
    for extension in card.capabilities.extensions:
        if extension.uri == SKILLS_EXTENSION:
            skills = sdk.struct_in(extension.params).get("skills")
            return skills if isinstance(skills, dict) else {}
    return {}


# --- watching -------------------------------------------------------------------------------


def due() -> list[int]:
    """Whose card is to be fetched again."""
    return list(RemoteAgent.objects.filter(refetch_at__lte=Now()).values_list("pk", flat=True))


def look_again(remote_id: int) -> None:
    """Fetch the card again and compare it with what was pinned."""
    later = Now() + REFETCH_EVERY
    if not RemoteAgent.objects.filter(pk=remote_id, refetch_at__lte=Now()).update(refetch_at=later):
        return
    remote = RemoteAgent.objects.select_related("agent").get(pk=remote_id)
    try:
        card = fetch(remote.url, remote.token)
        with atomic():
            same = RemoteAgent.objects.select_for_update().filter(pinned_at=remote.pinned_at)
            if same.filter(pk=remote_id).exists():  # else somebody has pinned another one since
                compare(remote, card)
    except Unreachable as failure:
        RemoteAgent.objects.filter(pk=remote_id).update(error=str(failure)[:2000])


def soon(remote: RemoteAgent) -> None:
    """Something went wrong with it: look at its card at the next round."""
    RemoteAgent.objects.filter(pk=remote.pk).update(refetch_at=Now())


def compare(remote: RemoteAgent, card: dict[str, Any]) -> None:
    """Note how the card differs from the pinned one; a skill that differs takes no new tasks."""
    pinned = skills_of(parse(remote.card))
    try:
        seen = skills_of(validated(card, remote.required_capabilities))
        whole = ""
    except CardRefused as refusal:
        seen, whole = {}, refusal.detail
    drifts = {
        slug: how for slug in pinned if (how := whole or _drift(pinned[slug], seen.get(slug)))
    }
    with atomic():
        for skill in Skill.objects.filter(agent=remote.agent):
            how = drifts.get(skill.slug, "")
            if skill.drift != how:
                Skill.objects.filter(pk=skill.pk).update(drift=how)
        said = "; ".join(f"{slug}: {how}" for slug, how in drifts.items())
        RemoteAgent.objects.filter(pk=remote.pk).update(
            seen_card=card, fetched_at=Now(), error="", drift=said[:5000]
        )


def _drift(pinned: dict[str, Any], seen: dict[str, Any] | None) -> str:
    if seen is None:
        return "the skill is gone."
    for name in ("input_schema", "output_schema"):
        if pinned[name] != seen[name]:
            return f"its {name.replace('_', ' ')} has changed."
    if pinned["modes"] != seen["modes"]:
        return "the media types that it takes or gives have changed."
    return ""


def fingerprint(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
