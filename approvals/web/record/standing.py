"""The page Standing: what was signed in advance, what rules let pass, how much of both is used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import F, QuerySet, Window
from django.db.models.functions import Now, RowNumber
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _, gettext_noop
from django.views.decorators.http import require_POST, require_safe

from approvals.desk import SIGNERS, Bar, Signed, bars_of, signed_by, suggestions_for, uses_of
from approvals.desk.grants import Suggestion
from approvals.models import Role
from approvals.people import principal_of
from approvals.presentation import (
    agent_names,
    grant_in_words,
    in_words,
    refusal_in_words,
    to_the_minute,
)
from approvals.web.requests import roles_of_request
from approvals.web.sign_in.authentication import person_of
from ledger.errors import LedgerError
from ledger.foundation.postgres import keyset_page
from ledger.models import Decision, Grant
from ledger.principals import Principal, Surface
from ledger.sign_off import grants, rules
from ledger.sign_off.rules import RulesRefused, agent_in, sentences

PAGE = 100  # grants
FIRST_USES, MOST_USES = 5, 500  # of each grant on the list, of one on a page of its own
ENDED_WITHIN = timedelta(days=30)
MOST_ENDED = 50
BY_ITSELF = (gettext_noop("Its time was over"), gettext_noop("Who gave it may not decide any more"))


@dataclass(slots=True)
class Shown:
    """A grant as the page shows it."""

    grant: Grant
    sentence: str
    signed: Signed
    bars: list[Bar] = field(default_factory=list)
    uses: Sequence[Decision] = field(default_factory=list)

    @property
    def ended_because(self) -> str:
        if Principal.parse(self.grant.ended_by).is_system:
            return _(self.grant.ended_by_name)
        return _("Ended by {name}").format(name=self.grant.ended_by_name)


@login_required
@require_safe
def standing(request: HttpRequest) -> HttpResponse:
    """The live ones, the newest first; or the one that the address names, with all its uses."""
    tenants, roles = tenants_with(request, *SIGNERS), roles_of_request(request)
    rows = Grant.objects.filter(tenant__in=tenants)
    chosen, before = (_number(request.GET.get(name, "")) for name in ("grant", "before"))
    page = keyset_page(
        rows.filter(pk=chosen) if chosen else rows.live(),
        PAGE,
        before=(before,) if before else None,
    )
    is_first = not (chosen or before)
    ended = rows.filter(ended_at__gt=Now() - ENDED_WITHIN).order_by("-ended_at")
    context = {
        "live": _shown(page.rows, MOST_USES if chosen else FIRST_USES),
        "number": rows.live().count(),
        "next": page.cursor,
        "is_first": is_first,
        "chosen": chosen,
        "rules": [line for slug in tenants for line in _rules(slug)] if is_first else [],
        "ended": _shown(ended[:MOST_ENDED], 0) if is_first else [],
        "suggestions": _suggestions(request) if is_first else [],
        "has_several": len(tenants) > 1,
        "may_break": any(Role.OPERATOR in roles[slug] for slug in tenants),
    }
    return render(request, "desk/standing.html", context)


@login_required
@require_POST
def end(request: HttpRequest, grant_id: int) -> HttpResponse:
    """End one now, and say what it had signed before."""
    grant = get_object_or_404(Grant, pk=grant_id, tenant__in=tenants_with(request, *SIGNERS))
    try:
        grants.end(grant.pk, by=principal_of(person_of(request)), via=Surface.WEB)
    except LedgerError as refusal:
        messages.error(request, refusal_in_words(refusal))
    else:
        messages.success(request, _ended_in_words(grant))
    return redirect("desk:standing")


def _ended_in_words(grant: Grant) -> str:
    last = uses_of([grant]).first()
    if last is None:
        return _("Ended. It had signed nothing.")
    return _("Ended. It had signed {what}; the last one at {time}: {sentence}").format(
        what=signed_by([grant])[grant.pk].words,
        time=to_the_minute(last.at),
        sentence=last.transaction.headline,
    )


def tenants_with(request: HttpRequest, *wanted: str) -> list[str]:
    """Those in which this person has one of these roles. Refuses who has it nowhere."""
    roles = roles_of_request(request)
    own = sorted(slug for slug, names in roles.items() if not names.isdisjoint(wanted))
    if not own:
        raise PermissionDenied(_("Managers and operators see this; operators break the glass."))
    return own


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


def _shown(rows: Collection[Grant] | QuerySet[Grant], uses: int) -> list[Shown]:
    """The grants with their bars, and so many of their uses."""
    rows = list(rows)
    signed, bars, newest = signed_by(rows), _bars(rows), defaultdict(list)
    names = agent_names({grant.tenant for grant in rows})
    place = Window(RowNumber(), partition_by=F("grant_id"), order_by=F("pk").desc())
    for use in uses_of(rows).annotate(place=place).filter(place__lte=uses) if uses else ():
        newest[use.grant_id].append(use)
    return [
        Shown(
            grant,
            grant_in_words(grant, names.get(grant.agent, agent_in(grant.agent))),
            signed[grant.pk],
            bars[grants.owner_of(grant)],
            newest[grant.pk],
        )
        for grant in rows
    ]


def _bars(rows: Collection[Grant]) -> dict[str, list[Bar]]:
    by_tenant: dict[str, dict[str, list[rules.Budget]]] = defaultdict(dict)
    for grant in rows:
        by_tenant[grant.tenant][grants.owner_of(grant)] = grants.budgets_of(grant)
    parts = [bars_of(tenant, owned) for tenant, owned in by_tenant.items()]
    return {owner: bars for part in parts for owner, bars in part.items()}


def _suggestions(request: HttpRequest) -> list[Suggestion]:
    """Of what this person keeps approving, where they decide."""
    roles = roles_of_request(request)
    deciding = [tenant for tenant, names in roles.items() if Role.APPROVER in names]
    return suggestions_for(str(principal_of(person_of(request))), deciding)


def _rules(tenant: str) -> list[tuple[str, int, str, list[Bar]]]:
    """The active rules with budgets: tenant, number, sentence and bars of each."""
    row = rules.active(tenant)
    try:
        active = rules.read(row.number, row.rules).rules if row else ()
    except RulesRefused:
        return []
    owned = {rule.budget_owner: rule.then.budgets for rule in active if rule.then.budgets}
    bars = bars_of(tenant, owned) if owned else {}
    return [
        (tenant, number, in_words(sentences.what_of(rule)), bars[rule.budget_owner])
        for number, rule in enumerate(active, 1)
        if rule.then.budgets
    ]
