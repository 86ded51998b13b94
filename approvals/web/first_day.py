"""The first day of an installation: four things to do, as cards in the empty inbox until done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from approvals.models import Membership, Role
from approvals.people.sign_in import has_way_in
from approvals.presentation import refusal_and_hint
from approvals.web.requests import roles_of_request
from approvals.web.settings.operators import TRIES, kept_tenants
from approvals.web.settings.tools.tries import propose
from ledger.errors import LedgerError
from ledger.models import AgentToken, Tenant, Transaction
from ledger.tools import readonly_tools_of, tools_of

TRY_IT = "try_it"
MOST_PEOPLE = 20  # that are looked at


@dataclass(frozen=True, slots=True)
class FirstDay:
    """Of one tenant, whether each of the four things is done."""

    tenant: Tenant
    has_tried: bool
    has_tool: bool
    has_agent: bool
    has_second: bool
    invited: int = 0  # people who have not come in yet

    @property
    def is_over(self) -> bool:
        return self.has_tried and self.has_tool and self.has_agent and self.has_second


def first_day_of(request: HttpRequest) -> FirstDay | None:
    """The cards for the operator of one tenant; ``None`` for others, and when all is done."""
    roles = roles_of_request(request)
    kept = [slug for slug, names in roles.items() if Role.OPERATOR in names]
    if len(kept) != 1:
        return None
    tenant = Tenant.objects.get(pk=kept[0])
    people = _people_of(tenant)
    there = [person for person in people if has_way_in(person)]
    decided = Transaction.objects.filter(tenant=tenant.slug, decided_at__isnull=False)
    day = FirstDay(
        tenant,
        has_tried=decided.exists(),
        has_tool=bool(tools_of({tenant.slug}) or readonly_tools_of({tenant.slug})),
        has_agent=_has_agent(tenant),
        has_second=len(there) > 1,
        invited=len(people) - len(there),
    )
    return None if day.is_over else day


def _has_agent(tenant: Tenant) -> bool:
    """True once an agent has come, other than those by which people try tools."""
    used = AgentToken.objects.filter(agent__tenant=tenant, last_used_at__isnull=False)
    own = Transaction.objects.filter(tenant=tenant.slug)
    asked = own.exclude(proposed_by__startswith=f"agent:{tenant.slug}/{TRIES}")
    return used.exists() or asked.exists()


def _people_of(tenant: Tenant) -> list[User]:
    """Those who may decide or keep."""
    deciding = Membership.objects.filter(tenant=tenant).exclude(role=Role.VIEWER)
    people = User.objects.filter(pk__in=deciding.values("user"), is_active=True)
    return list(people[:MOST_PEOPLE])


@login_required
@require_POST
def try_it(request: HttpRequest) -> HttpResponse:
    """Propose what has no effect, for the person to sign off."""
    tenant: Any = kept_tenants(request).first()
    try:
        made = propose(request, tenant, TRY_IT, {"number": uuid4().hex[:12]})
    except LedgerError as refusal:
        messages.error(request, refusal_and_hint(refusal))
        return redirect("desk:inbox")
    return redirect("desk:transaction", made)
