"""From a bearer token to the agent that calls, and its scopes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, cached_property

from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now

from ledger.agents.allowances import Lists, allow, covers, lists_of, may_propose
from ledger.errors import NotAllowed
from ledger.foundation.postgres import use_prepared_statements
from ledger.models import STANDING_SQL, AgentToken, Scope
from ledger.models.agents import usable_tokens_sql
from ledger.principals import Principal, agent


@dataclass(frozen=True)
class Caller:
    """The agent that a valid token belongs to."""

    principal: Principal
    tenant: str
    scopes: frozenset[str]
    # Id of the skill for messages that name none.
    default_skill: str = ""
    # The tools that its tenant and the agent itself may use, as read with the token.
    tools: tuple[list[str], list[str]] | None = field(default=None, hash=False)
    # The number of its tenant's active rules, as read with the token.
    rule_set: int = 0
    # Tools that are stopped for it, as read with the token; an empty name stands for all.
    stopped: tuple[str, ...] = field(default=(), hash=False)
    # The database's clock then.
    looked_up_at: datetime | None = None
    # The only interface that the token opens; empty: all of them.
    resource: str = ""

    def require(self, scope: Scope) -> None:
        """Raises ``NotAllowed`` if the token lacks the scope."""
        if not covers(self.scopes, scope):
            raise NotAllowed(f"This token lacks the scope {scope.value!r}.", scope=scope.value)

    def may_use(self, tool: str) -> bool:
        """True if its tenant, the agent and this token's scopes allow the tool."""
        return may_propose(self.scopes, tool) and allow(self.lists, tool)

    def is_stopped(self, tool: str) -> bool:
        """True if a brake stood over what it proposes with the tool, when the token was read."""
        return not {"", tool}.isdisjoint(self.stopped)

    @cached_property
    def lists(self) -> Lists:
        return lists_of(self.principal, self.tenant) if self.tools is None else self.tools


def caller_with(token: str, resource: str = "") -> Caller | None:
    """``None`` when the token is unknown, revoked or expired, or its agent is not active.

    So it is for a token of another resource: one that is for an interface alone opens no other.
    """
    return callers_with([token], resource)[0]


def callers_with(tokens: list[str], resource: str = "") -> list[Caller | None]:
    """The caller of each token, in the same order and in one query; see ``caller_with``."""
    return callers_at([(token, resource) for token in tokens])


def callers_at(asked: list[tuple[str, str]]) -> list[Caller | None]:
    """The same of tokens that each ask for a resource of their own."""
    holders = holders_of([AgentToken.hash_of(token) for token, _ in asked])
    return [_at(resource, holder) for (_, resource), holder in zip(asked, holders, strict=True)]


def callers_of(hashes: list[str]) -> list[Caller | None]:
    """The same of tokens that are given by their hashes, for the interfaces of any token."""
    return [_at("", holder) for holder in holders_of(hashes)]


def _at(resource: str, holder: Caller | None) -> Caller | None:
    return holder if holder is not None and holder.resource in {"", resource} else None


def holders_of(hashes: list[str]) -> list[Caller | None]:
    """The agent of each token, whatever interface it opens: this lets nobody in."""
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(_callers_sql(), [list(set(hashes))])
        rows = cursor.fetchall()
    callers = {
        token_hash: Caller(
            agent(tenant, slug, name),
            tenant,
            frozenset(scopes),
            default_skill,
            (wide, own),
            rule_set,
            tuple(stopped),
            now,
            resource,
        )
        for token_hash, tenant, slug, name, scopes, default_skill, wide, own, *more in rows
        for rule_set, stopped, now, resource in [more]
    }
    return [callers.get(token_hash) for token_hash in hashes]


def note_use(token_hash: str) -> None:
    """Note that the token is in use, once an hour."""
    an_hour_ago = Now() - timedelta(hours=1)
    is_stale = Q(last_used_at=None) | Q(last_used_at__lt=an_hour_ago)
    AgentToken.objects.filter(is_stale, token_hash=token_hash).update(last_used_at=Now())


@cache
def _callers_sql() -> str:
    return f"""
        SELECT token_hash, tenant, slug, name, scopes, default_skill, tenant_tools, agent_tools,
               rule_set,
               ARRAY(SELECT brake.tool FROM ledger_brake brake
                     WHERE {STANDING_SQL}
                         AND brake.tenant IN ('', usable.tenant)
                         AND brake.agent IN ('', 'agent:' || usable.tenant || '/' || usable.slug)),
               clock_timestamp(), resource
        FROM ({usable_tokens_sql()}) AS usable WHERE token_hash = ANY (%s)
    """
