"""Remote agents are registered with their card, pinned to it, and watched for drift."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from functools import partial
from typing import Any

from django.db.transaction import atomic, on_commit

from a2a.models import RemoteAgent, Skill
from a2a.remote import cards, probes
from a2a.remote.cards import CardRefused, OfferedSkill, Unreachable, skills_of, validated
from a2a.wire import RemoteCard, card_from_json
from ledger.events import ChangeKind, edits_between, record_change
from ledger.foundation.crypto.encryption import SecretUnreadable
from ledger.models import Agent, Tenant, Watched
from ledger.principals import Principal, Surface
from ledger.tools import watched

KIND = "agent_card"
TOKEN_ADDED = [None, "not shown"]
TOKEN_CHANGED = ["not shown", "another, not shown"]
Origin = tuple[Principal, Surface]


# --- registering and pinning ------------------------------------------------------------------


def register(
    tenant: Tenant,
    *,
    slug: str,
    url: str,
    token: str = "",
    required: list[str] | None = None,
    seen: str = "",
    in_place_of: str | None = None,
    sealed_by: Origin | None = None,
    **terms: Any,
) -> RemoteAgent:
    """Fetch and validate the card, pin it, and offer its skills. Raises ``CardRefused``.

    ``seen`` as for ``read_card``; ``in_place_of`` is the ``standing`` of what it replaces, if that
    was looked at; ``sealed_by`` is whoever registers it, ``terms`` further columns.
    """
    columns = {"url": url, "token": token, "required_capabilities": required or [], **terms}
    card = cards.read_card(url, token, required or [], seen=seen)
    with atomic():
        agent, before = _place(tenant, slug, card.parsed.name[:200])
        if in_place_of is not None and standing(before) != in_place_of:
            raise CardRefused("Somebody has registered it since you looked at it: look again.")
        edits = _edits(before, columns)
        document = watched.accept(before.watched_id if before else None, KIND, card.content)
        remote, _ = RemoteAgent.objects.defer("token").update_or_create(
            agent=agent, defaults={**columns, "watched": document}
        )
        _offer_all(remote, card.parsed)
        if sealed_by:
            _record(remote, ChangeKind.REMOTE_AGENT_ADDED, *sealed_by, edits=edits)
    return remote


def standing(remote: RemoteAgent | None) -> str:
    """Names how it is registered; another registration or pin has another. Empty: it is not."""
    if remote is None:
        return ""
    terms = [remote.required_capabilities, remote.wants_push]
    facts = [remote.pk, str(remote.watched.pinned_at), remote.url, _token_of(remote), *terms]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _place(tenant: Tenant, slug: str, name: str) -> tuple[Agent, RemoteAgent | None]:
    """The agent, locked until commit, and as what it is registered."""
    agent, is_new = Agent.objects.select_for_update().get_or_create(
        tenant=tenant, slug=slug, defaults={"name": name or slug}
    )
    # The secret is read apart: one that cannot be decrypted is to be replaced.
    rows = RemoteAgent.objects.defer("token").select_related("watched")
    before = rows.select_for_update(of=("self", "watched")).filter(agent=agent).first()
    if before is None and not is_new:
        raise CardRefused("There is such an agent already, and it is none elsewhere.")
    return agent, before


def _edits(before: RemoteAgent | None, columns: dict[str, Any]) -> dict[str, list[Any]]:
    """The differences; of the token only that it is another."""
    kept = before or RemoteAgent()
    was = {name: getattr(kept, name) for name in columns if name != "token"}
    was |= {"token": _token_of(kept)} | ({} if before else {"url": None})
    edits = edits_between(was, columns)
    if "token" in edits:
        edits["token"] = TOKEN_CHANGED if before else TOKEN_ADDED
    return edits


def _token_of(remote: RemoteAgent) -> str | None:
    """``None`` where it can no longer be decrypted."""
    try:
        return str(remote.token)
    except SecretUnreadable:
        return None


def pin(remote: RemoteAgent, *, by: Principal, via: Surface, seen: str = "") -> None:
    """Accept the agent's card as it is now; ends the drift. Raises ``CardRefused``."""
    card = cards.read_card(remote.url, remote.token, remote.required_capabilities, seen=seen)
    with atomic():
        watched.accept(remote.watched_id, KIND, card.content)
        _offer_all(remote, card.parsed)
        version = card.parsed.version[:100]
        _record(remote, ChangeKind.REMOTE_AGENT_PINNED, by, via, card_version=version)
        _probe_later(remote)


def was_changed(
    remote: RemoteAgent, edits: dict[str, list[Any]], *, by: Principal, via: Surface
) -> None:
    """Seal changes of its columns, in the database transaction that makes them."""
    _record(remote, ChangeKind.REMOTE_AGENT_CHANGED, by, via, edits=edits)


def _record(
    remote: RemoteAgent, kind: ChangeKind, by: Principal, via: Surface, **details: Any
) -> None:
    record_change(
        str(remote.agent.principal),
        kind,
        tenant=remote.agent.tenant_id,
        by=by,
        via=via,
        name=remote.agent.name,
        details=details,
    )


def _probe_later(remote: RemoteAgent) -> None:
    on_commit(partial(probes.send_after_change, remote.pk), robust=True)


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
    return cards.fetch_storable(remote.url, remote.token)


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
    except Exception as failure:  # whatever a stranger wrote, the skills are held
        return {}, f"It cannot be read: {type(failure).__name__}."


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
