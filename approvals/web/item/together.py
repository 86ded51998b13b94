"""Many at once: transactions of one tool, each shown in full, with one verdict and result each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from approvals.desk import decisions, policies, stopped_among, who_was_faster
from approvals.presentation import (
    details_of,
    full_display,
    labels,
    refusal_in_words,
    state_label,
)
from approvals.web.requests import brakes_of, tenants_of_request, viewer_of
from ledger.errors import LedgerError
from ledger.models import Transaction, id_or_none
from ledger.principals import Surface

MOST = 50
LOOKED_AT = 200  # of which some are decided one by one
VERDICTS = frozenset({"approve", "reject"})


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one verdict: the row as it is now, or why nothing was decided."""

    row: Transaction
    text: str
    is_done: bool


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def together(request: HttpRequest) -> HttpResponse:
    """Those of one tool that this person may decide together, at most ``MOST``."""
    tool = request.POST.get("tool") or request.GET.get("tool", "")
    results: list[Result] = []
    problem = ""
    if request.method == "POST":
        results, problem = _decided(request)
    rows, alone = _offered(request, tool)
    user = cast(User, request.user)
    context = {
        "tool": tool,
        "items": [
            {
                "tx": row,
                "details": details_of(row, labels.compared(row)),
                "proof": full_display.proof_of(row, user),
                "is_chosen": bool(problem) and str(row.pk) in request.POST.getlist("id"),
            }
            for row in rows
        ],
        "alone": alone,
        "most": MOST,
        "results": results,
        "done": sum(result.is_done for result in results),
        "problem": problem,
        "reason": request.POST.get("reason", "") if problem else "",
    }
    status = 422 if problem else 200
    return render(request, "desk/together.html", context, status=status)


def _offered(request: HttpRequest, tool: str) -> tuple[list[Transaction], int]:
    """The most urgent of the tool, and how many others have to be decided one by one."""
    viewer, now = viewer_of(request), timezone.now()
    waiting = Transaction.objects.for_tenants(viewer.tenants).pending().filter(tool=tool)
    rows = list(waiting.prefetch_related("decisions").order_by("expires_at", "pk")[:LOOKED_AT])
    stopped = stopped_among(rows, brakes_of(request))
    decidable = [
        (row, may)
        for row in rows
        if row.pk not in stopped
        and (may := policies.may_decide(row, viewer.principal, viewer.roles, now))
    ]
    offered = [row for row, may in decidable if policies.may_decide_together(row, may)]
    return offered[:MOST], len(decidable) - len(offered[:MOST])


def _decided(request: HttpRequest) -> tuple[list[Result], str]:
    """One result for each that was chosen, or what is wrong with the choice as a whole."""
    verdict, reason = request.POST.get("verdict"), request.POST.get("reason", "").strip()
    ids = [pk for text in request.POST.getlist("id") if (pk := id_or_none(text)) is not None]
    if verdict not in VERDICTS:
        return [], _("Nothing was decided: the form is not complete.")
    if not 0 < len(set(ids)) <= MOST:
        return [], _("Choose one to {most} of them. Nothing was decided.").format(most=MOST)
    if verdict == "reject" and not reason:
        return [], _("Say why they are rejected: the agents read it. Nothing was decided.")
    rows = Transaction.objects.for_tenants(tenants_of_request(request)).filter(pk__in=ids)
    chosen = list(rows.prefetch_related("decisions").order_by("expires_at", "pk"))
    if len({row.tool for row in chosen}) > 1:
        return [], _("They are not of one tool. Nothing was decided.")
    return [_result(request, row, str(verdict), reason, len(chosen)) for row in chosen], ""


def _result(
    request: HttpRequest, row: Transaction, verdict: str, reason: str, number: int
) -> Result:
    user, given, viewer = cast(User, request.user), request.POST, viewer_of(request)
    seen: dict[str, Any] = {"digest": given.get(f"digest-{row.pk}", ""), "via": Surface.WEB}
    try:
        if verdict == "reject":
            after = decisions.reject(user, row.pk, reason=reason, **seen)
        else:
            may = policies.may_decide(row, viewer.principal, viewer.roles, timezone.now())
            if may and not (may := policies.may_decide_together(row, may)):
                return Result(row, may.why_not, is_done=False)
            shown = given.get(f"shown-{row.pk}", "")
            after = decisions.approve(user, row.pk, shown=shown, together=number, **seen)
    except LedgerError as refusal:
        text = who_was_faster(refusal, timezone.now()) or refusal_in_words(refusal)
        return Result(row, text, is_done=False)
    return Result(after, state_label(after), is_done=True)
