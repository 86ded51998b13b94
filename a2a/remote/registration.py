"""Remote agents are registered with their card, pinned to it, and watched for drift."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from django.db.transaction import atomic, on_commit

from a2a.models import RemoteAgent, Skill
from a2a.remote import cards, probes
from a2a.remote.cards import CardRefused, OfferedSkill, Unreachable, skills_of, validated
from a2a.wire import RemoteCard, card_from_json
from ledger.events import ChangeKind, record_change
from ledger.models import Agent, Tenant, Watched
from ledger.principals import Principal, Surface
from ledger.tools import watched

KIND = "agent_card"


# --- registering and pinning ------------------------------------------------------------------


def register(
    tenant: Tenant, *, slug: str, url: str, token: str = "", required: list[str] | None = None
) -> RemoteAgent:
    """Fetch and validate the card, pin it, and offer its skills. Raises ``CardRefused``."""
    card = _fetch_or_refuse(url, token)
    parsed = validated(card, required or [])
    with atomic():
        agent, _ = Agent.objects.get_or_create(
            tenant=tenant, slug=slug, defaults={"name": parsed.name[:200] or slug}
        )
        before = RemoteAgent.objects.filter(agent=agent).first()
        document = watched.accept(before.watched_id if before else None, KIND, card)
        where = {"url": url, "token": token, "required_capabilities": required or []}
        remote, _ = RemoteAgent.objects.update_or_create(
            agent=agent, defaults={**where, "watched": document}
        )
        _offer_all(remote, parsed)
    return remote


def pin(remote: RemoteAgent, *, by: Principal, via: Surface) -> None:
    """Accept the agent's card as it is now; ends the drift. Raises ``CardRefused``."""
    card = _fetch_or_refuse(remote.url, remote.token)
    parsed = validated(card, remote.required_capabilities)
    with atomic():
        watched.accept(remote.watched_id, KIND, card)
        _offer_all(remote, parsed)
        record_change(
            str(remote.agent.principal),
            ChangeKind.REMOTE_AGENT_PINNED,
            tenant=remote.agent.tenant_id,
            by=by,
            via=via,
            name=remote.agent.name,
            details={"card_version": parsed.version[:100]},
        )
        _probe_later(remote)


def _probe_later(remote: RemoteAgent) -> None:
    on_commit(partial(probes.send_after_change, remote.pk), robust=True)


def _fetch_or_refuse(url: str, token: str) -> dict[str, Any]:
    try:
        return cards.fetch(url, token)
    except Unreachable as failure:
        raise CardRefused(str(failure)) from failure


def _offer_all(remote: RemoteAgent, parsed: RemoteCard) -> None:
    version = parsed.version[:100]
    RemoteAgent.objects.filter(pk=remote.pk).update(card_version=version)
    offered = skills_of(parsed)
    Skill.objects.filter(agent=remote.agent).exclude(slug__in=offered).update(is_active=False)
    for slug, skill in offered.items():
        _offer(remote, slug, skill)


def _offer(remote: RemoteAgent, slug: str, skill: OfferedSkill) -> None:
    same_slug = Skill.objects.filter(tenant=remote.agent.tenant_id, slug=slug)
    if same_slug.exclude(agent=remote.agent).exists():
        raise CardRefused(f"Another agent of the tenant has a skill {slug!r} already.")
    Skill.objects.update_or_create(
        agent=remote.agent,
        slug=slug,
        defaults={
            "tenant": remote.agent.tenant_id,
            "name": skill.name,
            "description": skill.description,
            "tags": skill.tags,
            "input_schema": skill.input_schema,
            "output_schema": skill.output_schema,
            "is_active": True,
            "drift": "",
        },
    )


# --- watching the card ------------------------------------------------------------------------


def _read(document: Watched) -> dict[str, Any]:
    """Raises ``Unreachable``."""
    remote = RemoteAgent.objects.get(watched=document)
    return cards.fetch(remote.url, remote.token)


def _compare(document: Watched, card: dict[str, Any]) -> None:
    """Store how the card differs from the pinned one; a skill that differs takes no new tasks."""
    remote = RemoteAgent.objects.get(watched=document)
    pinned = skills_of(card_from_json(document.pinned))
    seen, refusal = _usable_skills(card, remote.required_capabilities)
    drifts = {
        slug: drift
        for slug, skill in pinned.items()
        if (drift := refusal or _drift(skill, seen.get(slug)))
    }
    for skill in Skill.objects.filter(agent=remote.agent_id):
        drift = drifts.get(skill.slug, "")
        if skill.drift != drift:
            Skill.objects.filter(pk=skill.pk).update(drift=drift)
    before, document.seen = document.seen, card
    document.held_why = "; ".join(f"{slug}: {drift}" for slug, drift in drifts.items())[:5000]
    if not document.held_why and _content_of(card) != _content_of(before):
        _probe_later(remote)


def _content_of(card: dict[str, Any]) -> RemoteCard | None:
    """The card without its signatures, which may differ at each reading."""
    with suppress(Exception):  # the parser raises any type for a stranger's JSON
        return card_from_json(card)
    return None


def _usable_skills(
    card: dict[str, Any], required: list[str]
) -> tuple[dict[str, OfferedSkill], str]:
    """The skills of the card, or why none of it can be used."""
    try:
        return skills_of(validated(card, required)), ""
    except CardRefused as refusal:
        return {}, refusal.detail


def _drift(pinned: OfferedSkill, seen: OfferedSkill | None) -> str:
    if seen is None:
        return "the skill is gone."
    if pinned.input_schema != seen.input_schema:
        return "its input schema has changed."
    if pinned.output_schema != seen.output_schema:
        return "its output schema has changed."
    if (pinned.input_modes, pinned.output_modes) != (seen.input_modes, seen.output_modes):
        return "the media types that it takes or gives have changed."
    return ""


def register_kind() -> None:
    watched.register(KIND, watched.Kind(_read, _compare, (Unreachable,)))
