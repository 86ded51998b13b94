"""The sample of supervisors' decisions, for people to review."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from approvals.desk import decisions, policies
from approvals.desk.operations import agreement_in
from approvals.people import principal_of
from approvals.presentation import refusal_in_words
from approvals.web.forms import ReviewForm
from approvals.web.requests import roles_of_request, tenants_of_request
from ledger.errors import LedgerError, NotFound
from ledger.models import Review, ReviewVerdict
from ledger.principals import Surface

SHOWN = 30


@login_required
@require_safe
def reviews(request: HttpRequest) -> HttpResponse:
    return _page(request)


@login_required
@require_POST
def review(request: HttpRequest, review_id: int) -> HttpResponse:
    """Record a review, and show what is left of the same page."""
    form = ReviewForm(request.POST)
    if not form.is_valid():
        return _page(request, 422, str(next(iter(form.errors.values()))[0]))
    verdict, reason = ReviewVerdict(form.cleaned_data["verdict"]), form.cleaned_data["reason"]
    person: Any = request.user
    place = f"?after={after}" if (after := _after(request)) else ""
    try:
        decisions.review(person, review_id, verdict=verdict, via=Surface.WEB, reason=reason)
    except NotFound:
        raise Http404 from None
    except LedgerError as refusal:
        return _page(request, refusal.status, refusal_in_words(refusal))
    return redirect(reverse("desk:reviews") + place)


def _after(request: HttpRequest) -> int:
    """The review that the page before ended with; 0 for the first page."""
    after = request.GET.get("after", "")
    return int(after) if after.isdecimal() and len(after) < 19 else 0


def _page(request: HttpRequest, status: int = 200, problem: str = "") -> HttpResponse:
    tenants, roles = tenants_of_request(request), roles_of_request(request)
    principal = str(principal_of(request.user))  # type: ignore[arg-type]
    after = _after(request)
    # Oldest first: they are the next to be erased.
    rows = Review.objects.waiting(tenants).filter(pk__gt=after).order_by("pk")
    related = rows.select_related("decision__transaction")
    read = list(related.prefetch_related("decision__transaction__decisions")[: SHOWN + 1])
    shown = read[:SHOWN]
    context = {
        "problem": problem,
        "after": after,
        "next": shown[-1].pk if len(read) > SHOWN else 0,
        "reviews": [(row, policies.may_review(row, principal, roles)) for row in shown],
        "agreement": agreement_in(tenants),
    }
    return render(request, "desk/reviews.html", context, status=status)
