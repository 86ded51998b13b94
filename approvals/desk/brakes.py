"""Brakes of people: who may put and lift one, for how long, and what of a list is stopped."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext as _, gettext_lazy

from approvals.http.middleware import Roles
from approvals.models import Role
from approvals.presentation import in_words
from approvals.presentation.labels import title_of
from ledger.events import brakes
from ledger.events.brakes import Put, Scope
from ledger.models import Brake, Transaction
from ledger.principals import Principal

SPANS = {
    "900": gettext_lazy("15 minutes"),
    "3600": gettext_lazy("One hour"),
    "today": gettext_lazy("Until the end of today"),
    "": gettext_lazy("Until somebody lets it go on"),
}


def may_put(scope: Scope, roles: Roles, *, is_superuser: bool) -> bool:
    """Managers stop agents and tools of their tenant, operators the tenant as well."""
    own = roles.get(scope.tenant, frozenset()) if scope.tenant else frozenset()
    may = {Role.OPERATOR, Role.APPROVER} if scope.agent or scope.tool else {Role.OPERATOR}
    return is_superuser or not may.isdisjoint(own)


def scopes_within(
    seen: Scope, tenants: Collection[str], roles: Roles, *, is_superuser: bool
) -> list[Scope]:
    """The parts of what a person sees that they may stop, the narrowest first; or their tenants."""
    tenant, agent, tool = seen.tenant, seen.agent, seen.tool
    if tenant:
        named = [Scope(tenant, agent, ""), Scope(tenant, "", tool), Scope(tenant, agent, tool)]
        possible = [scope for scope in dict.fromkeys(named) if scope.agent or scope.tool]
        possible.append(Scope(tenant))
    else:
        possible = [Scope(each) for each in sorted(tenants)]
    return [
        scope for scope in [*possible, Scope()] if may_put(scope, roles, is_superuser=is_superuser)
    ]


def span_of(lasts: str) -> timedelta | None:
    """The time of one of ``SPANS``, from now on; ``None``: until somebody lifts it."""
    if lasts == "today":
        now = timezone.localtime()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return time_between(now, midnight + timedelta(days=1))
    return timedelta(seconds=int(lasts)) if lasts else None


def time_between(begin: datetime, end: datetime) -> timedelta:
    """By a clock without summer time: Python subtracts two times of one zone as written."""
    return end.astimezone(UTC) - begin.astimezone(UTC)


def put_in_words(done: Put) -> str:
    if done.is_waited_for:
        return _("Stopped: nothing of it begins any more.")
    return _("It stands. One worker that was claiming has not answered: what it claims may begin.")


def may_lift(brake: Brake, principal: str, roles: Roles, *, is_superuser: bool) -> bool:
    """Whoever put it and belongs to the tenant still, and every operator of the tenant."""
    own = roles.get(brake.tenant, frozenset()) if brake.tenant else frozenset()
    is_theirs = brake.by == principal and bool(own)
    return is_superuser or is_theirs or Role.OPERATOR in own


def standing_for(tenants: Collection[str]) -> list[Brake]:
    """Those that concern these tenants, the widest and oldest first."""
    rows = Brake.objects.uncounted().standing().filter(tenant__in=["", *tenants])
    return list(rows.order_by("tenant", "agent", "tool", "pk"))


def brake_of(row: Transaction) -> Brake | None:
    """The brake that stops this transaction; read once for each instance of the row."""
    if "brake" not in vars(row):
        vars(row)["brake"] = brakes.brake_over(row.tenant, row.proposed_by, row.tool)
    brake: Brake | None = vars(row)["brake"]
    return brake


def why_stopped(row: Transaction) -> str:
    """The person, the end and the reason; empty if nobody stopped it."""
    brake = brake_of(row)
    return "" if brake is None else in_words(brakes.sentence_of(brake))


def stopped_among(rows: Iterable[Transaction], standing: Collection[Brake]) -> frozenset[UUID]:
    return frozenset(row.pk for row in rows if any(brake.is_over(row) for brake in standing))


def scope_in_words(scope: Scope | Brake) -> str:
    agent, tool = Principal.parse(scope.agent).slug, title_of(scope.tool) if scope.tool else ""
    if agent and tool:
        return _("{agent} with {tool}").format(agent=agent, tool=tool)
    if agent:
        return _("agent {agent}").format(agent=agent)
    if tool:
        return _("tool “{tool}”").format(tool=tool)
    if scope.tenant:
        return _("everything of {tenant}").format(tenant=scope.tenant)
    return _("everything, of every tenant")
