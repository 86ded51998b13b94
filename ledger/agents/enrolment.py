"""Create and change tenants, agents, tokens and owning services: each change is a sealed event."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger.errors import NotPossible, Sentence
from ledger.events import ChangeKind, chain_of, edits_between, record_change
from ledger.foundation.crypto import standard_webhooks
from ledger.models import Agent, AgentToken, Budget, Event, Owner, Tenant
from ledger.principals import Principal, Surface

ONE_MONTH = timedelta(days=31)


def tenant_named(
    slug: str, name: str = "", *, by: Principal, via: Surface, **columns: Any
) -> Tenant:
    """The tenant of this slug, created with these columns if there is none."""
    with atomic():
        name = name or slug.title()
        tenant, is_new = Tenant.objects.get_or_create(slug=slug, defaults={"name": name, **columns})
        if is_new:
            record_change(
                f"tenant:{slug}",
                ChangeKind.TENANT_ADDED,
                tenant=slug,
                by=by,
                via=via,
                name=tenant.name,
            )
    return tenant


def allow_tools(tenant: Tenant, tools: list[str], *, by: Principal, via: Surface) -> None:
    """Allow the tenant these tools as well."""
    with atomic():
        before = Tenant.objects.select_for_update().get(pk=tenant.pk).tools
        tenant.tools = [*before, *sorted(set(tools) - set(before))]
        _tenant_changed(tenant, "tools", before, by, via)


def require_policy(tenant: Tenant, sha256: str, *, by: Principal, via: Surface) -> None:
    """Have supervisors cite this document where the contract names none; empty: need none."""
    with atomic():
        before = Tenant.objects.select_for_update().get(pk=tenant.pk).required_policy
        tenant.required_policy = sha256
        _tenant_changed(tenant, "required_policy", before, by, via)


def check_time_zone(slug: str, zone: str) -> None:
    """Raises ``NotPossible`` for a second change within a month: each begins a day of budgets."""
    changes = Event.objects.filter(
        subject=chain_of(f"tenant:{slug}"),
        at__gt=Now() - ONE_MONTH,
        details__contains='"time_zone":',
    )
    is_other = not Tenant.objects.filter(pk=slug, time_zone=zone).exists()
    if is_other and Budget.objects.filter(tenant=slug).exists() and changes.exists():
        raise NotPossible(
            Sentence("It was changed less than a month ago: no day of a budget begins twice.")
        )


def _tenant_changed(tenant: Tenant, name: str, before: Any, by: Principal, via: Surface) -> None:
    """Save the member and record the change, if there is one."""
    if edits := edits_between({name: before}, {name: getattr(tenant, name)}):
        tenant.save(update_fields=[name])
        tenant_was_changed(tenant, edits, by=by, via=via)


def tenant_was_changed(
    tenant: Tenant, edits: dict[str, list[Any]], *, by: Principal, via: Surface
) -> None:
    """Record ``edits`` (field → [before, after])."""
    record_change(
        f"tenant:{tenant.slug}",
        ChangeKind.TENANT_CHANGED,
        tenant=tenant.slug,
        by=by,
        via=via,
        name=tenant.name,
        details={"edits": edits},
    )


def agent_named(tenant: Tenant, slug: str, name: str = "", *, by: Principal, via: Surface) -> Agent:
    """The agent of this slug, created if there is none. Its tenant and slug never change."""
    with atomic():
        name = name or slug.replace("-", " ").capitalize()
        agent, is_new = Agent.objects.get_or_create(
            tenant=tenant, slug=slug, defaults={"name": name}
        )
        if is_new:
            was_added(agent, by=by, via=via)
    return agent


def was_added(agent: Agent, *, by: Principal, via: Surface) -> None:
    """Record that the agent was created."""
    record(agent, ChangeKind.AGENT_ADDED, by, via, webhook_url=agent.webhook_url)


def was_changed(agent: Agent, edits: dict[str, list[Any]], *, by: Principal, via: Surface) -> None:
    """Record ``edits`` (field → [before, after]): one event for each kind of change."""
    rest = dict(edits)
    if rest.pop("is_active", None):
        record(
            agent,
            ChangeKind.AGENT_ACTIVATED if agent.is_active else ChangeKind.AGENT_DEACTIVATED,
            by,
            via,
        )
    if webhook := rest.pop("webhook_url", None):
        record(agent, ChangeKind.WEBHOOK_CHANGED, by, via, edits={"webhook_url": webhook})
    if rest:
        record(agent, ChangeKind.AGENT_CHANGED, by, via, edits=rest)


def renew_secret(agent: Agent, *, secret: str = "", by: Principal, via: Surface) -> Agent:
    """Give the agent a new secret that signs its webhooks: this one, or one that is made."""
    with atomic():
        agent.webhook_secret = secret or standard_webhooks.new_secret()
        agent.save(update_fields=["webhook_secret"])
        record(agent, ChangeKind.WEBHOOK_SECRET_RENEWED, by, via)
    return agent


def issue(
    agent: Agent,
    *,
    scopes: list[str],
    by: Principal,
    via: Surface,
    reason: str = "",
    **columns: Any,
) -> tuple[AgentToken, str]:
    """A new token: its row, and its text, which cannot be read again later."""
    with atomic():
        columns["issued_by"] = by.name[:200]
        row, token = AgentToken.issue(agent, scopes=list(scopes), **columns)
        until = row.expires_at.isoformat() if row.expires_at else None
        terms = {"token": row.hint, "scopes": list(scopes), "expires_at": until}
        record(agent, ChangeKind.TOKEN_ISSUED, by, via, reason=reason, **terms)
    return row, token


def revoke(row: AgentToken, *, by: Principal, via: Surface, reason: str = "") -> bool:
    """Revoke the token from the next request on. ``False`` if it was revoked already."""
    with atomic():
        not_revoked = AgentToken.objects.filter(pk=row.pk, revoked_at=None)
        if not not_revoked.update(revoked_at=Now()):
            return False
        record(row.agent, ChangeKind.TOKEN_REVOKED, by, via, reason=reason, token=row.hint)
    return True


def record(
    agent: Agent, kind: str, by: Principal, via: Surface, *, reason: str = "", **details: Any
) -> None:
    """Record what was done with an agent; ``kind`` is one of the described kinds of change."""
    record_change(
        str(agent.principal),
        kind,
        tenant=agent.tenant_id,
        by=by,
        via=via,
        name=agent.name,
        reason=reason,
        details=details,
    )


# --- services that own tools, and the webhooks by which each is told ------------------------------


def add_owner(tenant: Tenant, service: str, url: str, *, by: Principal, via: Surface) -> Owner:
    """With a new secret, which signs what it is told."""
    with atomic():
        secret = standard_webhooks.new_secret()
        row = Owner.objects.create(
            tenant=tenant, service=service, webhook_url=url, webhook_secret=secret
        )
        _record_owner(row, ChangeKind.OWNER_ADDED, by, via, webhook_url=[None, url])
    return row


def set_owner_address(row: Owner, url: str, *, by: Principal, via: Surface) -> None:
    with atomic():
        before = Owner.objects.select_for_update().defer("webhook_secret").get(pk=row.pk)
        if before.webhook_url != url:
            Owner.objects.filter(pk=row.pk).update(webhook_url=url)
            _record_owner(
                row, ChangeKind.OWNER_CHANGED, by, via, webhook_url=[before.webhook_url, url]
            )


def renew_owner_secret(row: Owner, *, secret: str = "", by: Principal, via: Surface) -> str:
    """This secret, or one that is made."""
    with atomic():
        secret = secret or standard_webhooks.new_secret()
        Owner.objects.filter(pk=row.pk).update(webhook_secret=secret)
        _record_owner(row, ChangeKind.OWNER_SECRET_RENEWED, by, via)
    return secret


def remove_owner(row: Owner, *, by: Principal, via: Surface) -> None:
    with atomic():
        _record_owner(row, ChangeKind.OWNER_REMOVED, by, via)
        row.delete()


def _record_owner(row: Owner, kind: ChangeKind, by: Principal, via: Surface, **edits: Any) -> None:
    record_change(
        f"owner:{row.pk}",
        kind,
        tenant=row.tenant_id,
        by=by,
        via=via,
        name=str(row)[:200],
        details={"edits": edits} if edits else {},
    )
