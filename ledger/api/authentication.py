"""Who calls: from a bearer token to an agent, its scopes and what it may see."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from uuid import UUID

from django.db import connection
from django.http import HttpRequest
from ninja.security import HttpBearer

from ledger.agents.allowances import allowed_tools, covers, may_propose
from ledger.contracts import RequiredApprover
from ledger.database import prepared_statements
from ledger.errors import NotAllowed, NotFound
from ledger.models import AgentToken, Scope, Transaction, TransactionQuerySet
from ledger.models.agents import usable_tokens_sql
from ledger.principals import Principal, agent


@dataclass(frozen=True)
class Caller:
    """Who a valid token speaks for."""

    principal: Principal
    tenant: str
    scopes: frozenset[str]
    # The skill that a task is for which names none.
    default_skill: str = ""

    def require(self, scope: Scope) -> None:
        if not covers(self.scopes, scope):
            raise NotAllowed(f"This token lacks the scope {scope.value!r}.", scope=scope.value)

    def may_use(self, tool: str) -> bool:
        """What its tenant and its agent may use, as far as this token is for it."""
        return may_propose(self.scopes, tool) and tool in self.allowed_tools

    @cached_property
    def allowed_tools(self) -> frozenset[str]:
        return allowed_tools(self.principal, self.tenant)


class AgentBearer(HttpBearer):
    """A token that is neither revoked nor expired, of an active agent."""

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        return caller_with(token)


def caller_with(token: str) -> Caller | None:
    """Whom the token speaks for; ``None`` when it is unknown, revoked or expired."""
    return callers_with([token])[0]


def callers_with(tokens: list[str]) -> list[Caller | None]:
    """The caller of each token, in the same order and in one query; see ``caller_with``."""
    hashes = [AgentToken.hash_of(token) for token in tokens]
    with prepared_statements.kept(), connection.cursor() as cursor:
        cursor.execute(_callers_sql(), [list(set(hashes))])
        rows = cursor.fetchall()
    callers = {
        token_hash: Caller(agent(tenant, slug, name), tenant, frozenset(scopes), default_skill)
        for token_hash, tenant, slug, name, scopes, default_skill in rows
    }
    return [callers.get(token_hash) for token_hash in hashes]


@cache
def _callers_sql() -> str:
    return f"""
        SELECT token_hash, tenant, slug, name, scopes, default_skill
        FROM ({usable_tokens_sql()}) AS usable WHERE token_hash = ANY (%s)
    """


def caller_of(request: HttpRequest, scope: Scope | None = None) -> Caller:
    caller: Caller = request.auth  # type: ignore[attr-defined]
    if scope is not None:
        caller.require(scope)
    return caller


def supervisor_of(request: HttpRequest, transaction_id: UUID) -> Caller:
    """May decide here at all, and sees the transaction. Fails closed: the scope first."""
    caller = caller_of(request, Scope.DECIDE)
    row = Transaction.objects.filter(tenant=caller.tenant, pk=transaction_id).first()
    if row is None:
        raise NotFound()
    if row.required_approver != RequiredApprover.SUPERVISOR:
        raise NotAllowed(
            f"The contract of {row.tool} asks for a person, not for a supervisor.",
            hint="A person has to decide at the desk.",
        )
    return caller


def visible_to(caller: Caller) -> TransactionQuerySet:
    """Its own, or with a wide scope its tenant's."""
    rows = Transaction.objects.for_tenants(frozenset({caller.tenant}))
    if caller.scopes & {Scope.READ_ALL, Scope.DECIDE}:
        return rows
    return rows.proposed_by(caller.principal)


def visible(caller: Caller, transaction_id: UUID) -> Transaction:
    rows = Transaction.objects.for_tenants(frozenset({caller.tenant}))
    row = rows.prefetch_related("decisions").filter(pk=transaction_id).first()
    if row is None or not _may_see(caller, row):
        raise NotFound()
    return row


def _may_see(caller: Caller, row: Transaction) -> bool:
    is_own = row.proposed_by == str(caller.principal)
    return is_own or bool(caller.scopes & {Scope.READ_ALL, Scope.DECIDE})
