"""The page of a tenant's rules: those in force, the draft, earlier ones; activating."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from approvals.people import how_many_sign
from approvals.presentation import refusal_and_hint
from approvals.web.settings.operators import origin_of
from approvals.web.settings.rules import differences
from approvals.web.settings.rules.first_rules import first_rules
from approvals.web.settings.rules.previews import Window
from approvals.web.settings.rules.rulebook import (
    Line,
    Rulebook,
    kept,
    lines_of,
    readable,
    readable_tenants,
    rules_in,
)
from ledger.errors import LedgerError, NotFound
from ledger.events import four_eyes
from ledger.models import ChangeRequest, RuleSet, RuleSetState
from ledger.sign_off import rules
from ledger.sign_off.rules import Strength

EARLIER = 20  # sets on the page


@login_required
@require_safe
def tenants(request: HttpRequest) -> HttpResponse:
    """The only tenant's rules, or the tenants to choose among."""
    rows = list(readable_tenants(request))
    if len(rows) == 1:
        return _page(request, readable(request, rows[0].pk))
    return render(request, "settings/rules_tenants.html", {"tenants": rows})


@login_required
@require_safe
def rules_of(request: HttpRequest, tenant: str) -> HttpResponse:
    return _page(request, readable(request, tenant))


def _page(request: HttpRequest, book: Rulebook) -> HttpResponse:
    active, draft, lowered = book.active, book.draft, book.lowered
    changes = differences.changes_between(rules_in(active), rules_in(draft)) if draft else []
    is_previewed = draft is not None and draft.state == RuleSetState.PREVIEW
    context = {
        "book": book,
        "is_only": len(readable_tenants(request)) == 1,
        "active_lines": lines_of(active, lowered),
        "draft_lines": lines_of(draft, lowered, beside=active or RuleSet(rules=[])),
        "gone": [change for change in changes if not change.after],
        "loosens": [change for change in changes if change.loosens],
        "tightens": [change for change in changes if not change.loosens],
        "signers": _signers(book),
        "is_previewed": is_previewed,
        "window": Window.since_preview(draft) if draft and is_previewed else None,
        "waiting": four_eyes.waiting_for(rules.KIND, book.tenant.pk, rules.KIND),
        "earlier": _earlier(book),
        "first": _first_lines(book) if book.may_edit and not book.shown else [],
    }
    return render(request, "settings/rules.html", context)


def _signers(book: Rulebook) -> dict[str, int] | None:
    """The managers who can sign, where not all can and the draft asks for it."""
    signed = [rule for rule in rules_in(book.draft) if rule.then.strength == Strength.PASSKEY]
    if not signed or not book.may_edit:
        return None
    able, managers = how_many_sign(book.tenant.pk)
    return {"able": able, "managers": managers} if able < managers else None


def _first_lines(book: Rulebook) -> list[Line]:
    return lines_of(RuleSet(number=0, rules=first_rules(book)), book.lowered)


def _earlier(book: Rulebook) -> list[tuple[RuleSet, list[Any]]]:
    rows = RuleSet.objects.filter(tenant=book.tenant.pk, state=RuleSetState.RETIRED)
    return [(row, lines_of(row, book.lowered)) for row in rows.order_by("-number")[:EARLIER]]


# --- changing what is in force --------------------------------------------------------------------


@login_required
@require_POST
def activate(request: HttpRequest, tenant: str) -> HttpResponse:
    """Activate the draft that was on the screen, or have it wait for a second operator."""
    seen = request.POST.get("seen", "")

    def verb(book: Rulebook) -> ChangeRequest | None:
        return rules.activate(book.tenant.pk, seen=seen, **origin_of(request))

    return _changed(request, tenant, verb)


@login_required
@require_POST
def put_back(request: HttpRequest, tenant: str, number: int) -> HttpResponse:
    """Activate the rules of an earlier set again."""

    def verb(book: Rulebook) -> ChangeRequest | None:
        return rules.put_back(book.tenant.pk, number, **origin_of(request))

    return _changed(request, tenant, verb)


def _changed(
    request: HttpRequest, tenant: str, verb: Callable[[Rulebook], ChangeRequest | None]
) -> HttpResponse:
    book = kept(request, tenant)
    try:
        waiting = verb(book)
    except NotFound:
        raise Http404 from None
    except LedgerError as refusal:
        messages.error(request, refusal_and_hint(refusal))
    else:
        if waiting is None:
            messages.success(request, _("These rules are in force from now on."))
        else:
            messages.warning(
                request,
                _("They loosen who signs, so they wait until another operator confirms them."),
            )
    return redirect("desk:rules-of", tenant)


@login_required
@require_POST
def discard(request: HttpRequest, tenant: str) -> HttpResponse:
    book = kept(request, tenant)
    try:
        rules.discard(book.tenant.pk, seen=request.POST.get("seen", ""))
    except LedgerError as refusal:
        messages.error(request, refusal_and_hint(refusal))
    else:
        messages.success(request, _("The draft is discarded; nothing else was changed."))
    return redirect("desk:rules-of", tenant)
