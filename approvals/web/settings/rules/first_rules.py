"""Three rules to begin with, of the tools that there are; they go into a preview, never further."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from approvals.presentation import refusal_and_hint
from approvals.web.settings.operators import origin_of
from approvals.web.settings.rules import previews
from approvals.web.settings.rules.rulebook import Rulebook, kept
from ledger.errors import LedgerError
from ledger.sign_off import rules
from ledger.tools import tools_of

SMALL, LARGE = "50 EUR", "1000 EUR"


def first_rules(book: Rulebook) -> list[dict[str, Any]]:
    """Small amounts pass where owners allow it, large ones take two, and what cannot be undone is
    approved with a note."""
    with_amount = [
        name
        for name, tool in sorted(tools_of({book.tenant.pk}).items())
        if "amount" in tool.arguments_model.model_fields
    ]
    lowered = [name for name in with_amount if book.lowered.get(name)]
    small = {"when": {"tool": lowered, "amount": {"below": SMALL}}, "then": "pass"}
    large = {
        "when": {"tool": with_amount, "amount": {"at_least": LARGE}},
        "then": {"verdict": "ask", "seats": {"approvers": 2}},
    }
    final = {
        "when": {"consequence": "IRREVERSIBLE"},
        "then": {"verdict": "ask", "note": True},
    }
    return [*([small] if lowered else []), *([large] if with_amount else []), final]


@login_required
@require_POST
def begin(request: HttpRequest, tenant: str) -> HttpResponse:
    """Make them the draft of a tenant that has no rules, and start its preview."""
    book = kept(request, tenant)
    try:
        book.check_seen("")
        book.save(first_rules(book), by=origin_of(request)["by"])
        draft = rules.in_work(tenant)
        rules.start_preview(tenant, seen=draft.sha256 if draft else "")
    except LedgerError as refusal:
        messages.error(request, refusal_and_hint(refusal))
    else:
        messages.success(request, previews.STARTED)
    return redirect("desk:rules-of", tenant)
