"""The history of a tenant's transactions: search, pages and exports."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.db.models import Q, prefetch_related_objects
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    QueryDict,
    StreamingHttpResponse,
)
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from approvals.desk import inbox
from approvals.models import ViewPlace
from approvals.presentation import kind_in_words, to_the_minute
from approvals.web.account.saved_views import views_context
from approvals.web.forms import ANY, DAYS, ENDED, HistoryForm
from approvals.web.requests import tenants_of_request
from ledger.contracts import RequiredApprover
from ledger.foundation.postgres import keyset_page
from ledger.models import Transaction
from ledger.reporting import search
from ledger.reporting.usage import decided_as, decided_between
from ledger.tools import tools_of

HISTORY_PAGE = 50
EXPORT_MOST = 100_000  # rows
EXPORT_PAGE = 500


@login_required
@require_safe
def history(request: HttpRequest) -> HttpResponse:
    form = HistoryForm(request.GET)
    wanted = _wanted(request, form)
    values = form.cleaned_data
    before = values.get("before")
    query = request.GET.copy()
    query.pop("before", None)
    is_filtered = any(query.values())
    if is_filtered:
        wanted = replace(wanted, also=wanted.also & _ended_as(form))
        matches = search.find(wanted, HISTORY_PAGE, before)
    else:
        matches = _newest_decisions(wanted.tenants, before)
    prefetch_related_objects(matches.rows, "decisions")
    context = {
        "rows": matches.rows,
        "form": form,
        "query": query.urlencode(),
        "matches": matches,
        "tool_names": sorted(tools_of(tenants_of_request(request))),
        "is_filtered": is_filtered,
        "is_unfolded": any(request.GET.get(name) for name in ("tool", "state", "since", "until")),
        "totals": inbox.totals_of(wanted) if is_filtered and matches.rows else None,
        "ranges": list(_ranges(query)),
        "days": values.get("days"),
        "decided_chip": _decided_chip(values, query),
        **views_context(request, ViewPlace.HISTORY),
    }
    return render(request, "desk/history.html", context)


def _newest_decisions(tenants: frozenset[str], before: UUID | None) -> search.Hits:
    """Transactions on which somebody decided, the newest decision first."""
    rows = Transaction.objects.exclude(required_approver=RequiredApprover.NONE)
    rows = rows.filter(decided_at__isnull=False)
    last = before and rows.for_tenants(tenants).filter(pk=before).first()
    page = keyset_page(
        rows,
        HISTORY_PAGE,
        before=(last.decided_at, last.pk) if last else None,
        by=("decided_at", "pk"),
        any_of=[Q(tenant=tenant) for tenant in sorted(tenants)] or [Q(tenant="")],
    )
    return search.Hits(page.rows, page.cursor)


def _ended_as(form: HistoryForm) -> Q:
    """Only decided ones, unless words or an outcome are asked for, or decisions since a moment."""
    values = form.cleaned_data
    if values.get("state") == ENDED:
        return ~search.STILL_OPEN
    if values.get("state") or values.get("decided_since") or form.filters().q:
        return Q()
    return Q(decided_at__isnull=False)


def _decided_chip(values: dict[str, Any], query: QueryDict) -> tuple[str, str] | None:
    """The filter by decisions since a moment in words, and the query of the list without it."""
    since = values.get("decided_since")
    if since is None:
        return None
    rest = query.copy()
    for name in ("decided", "decided_since"):
        rest.pop(name, None)
    return kind_in_words(values.get("decided") or "", to_the_minute(since)), rest.urlencode()


@login_required
@require_safe
def export(request: HttpRequest, form: str) -> HttpResponseBase:
    """The history as filtered, page by page, so that a large one needs no memory."""
    exported = _all(_wanted(request, HistoryForm(request.GET)))
    if form == "csv":
        response = StreamingHttpResponse(_as_csv(exported), content_type="text/csv; charset=utf-8")
    elif form == "json":
        response = StreamingHttpResponse(_as_json(exported), content_type="application/json")
    else:
        raise Http404
    response["Content-Disposition"] = f'attachment; filename="assent-history.{form}"'
    return response


def _ranges(query: QueryDict) -> Iterator[dict[str, Any]]:
    """Links to the same list of today, of a week and of a month."""
    labels = (_("Today"), _("7 days"), _("30 days"))
    for label, days in zip(labels, DAYS, strict=True):
        chosen = query.copy()
        for name in ("since", "until"):
            chosen.pop(name, None)
        chosen["days"] = str(days)
        has_day = query.get("since") or query.get("until")
        is_chosen = query.get("days") == str(days) and not has_day
        yield {"label": label, "query": chosen.urlencode(), "is_chosen": is_chosen}


def _wanted(request: HttpRequest, form: HistoryForm) -> search.Wanted:
    filters, values = form.filters(), form.cleaned_data
    since, until = values.get("since"), values.get("until")
    if (days := values.get("days")) and not since and not until:
        since = timezone.localdate() - timedelta(days=days - 1)
    state = values.get("state") or ""
    is_bounded = until is not None and until < date.max  # after the last day comes nothing
    return search.Wanted(
        tenants=tenants_of_request(request),
        text=filters.q,
        tool=filters.tool,
        risk=filters.risk,
        state="" if state in {ANY, ENDED} else state,
        proposed_by=filters.agent,
        since=_midnight(since) if since else None,
        until=_midnight(until) + timedelta(days=1) if is_bounded else None,
        also=_decided(tenants_of_request(request), values),
    )


def _decided(tenants: frozenset[str], values: dict[str, Any]) -> Q:
    since, kind = values.get("decided_since"), values.get("decided")
    if since is None:
        return Q()
    decided = decided_between(tenants, since)
    return decided & decided_as(kind) if kind else decided


def _all(wanted: search.Wanted) -> Iterator[Transaction]:
    """Every row, newest first, ``EXPORT_MOST`` at most."""
    left, before = EXPORT_MOST, None
    while left > 0:
        matches = search.find(wanted, min(EXPORT_PAGE, left), before)
        yield from matches.rows
        left -= len(matches.rows)
        before = matches.next
        if before is None:
            return


EXPORTED = (
    "id",
    "tenant",
    "state",
    "tool",
    "action_summary",
    "amount",
    "currency",
    "proposed_by",
    "stated_reason",
    "risk_level",
    "consequence_level",
    "operation_key",
    "created_at",
    "decided_at",
    "ended_at",
    "receipt",
    "ending",
    "ending_reason",
    "error",
    "trace_id",
    "run_id",
)


FORMULA = re.compile("(^|[;\\t\\r\\n])([\"' ]*)(?=[=+\\-@\\uff1d\\uff0b\\uff0d\\uff20])")


class _Echo:
    """A file for ``csv.writer`` that hands each line on."""

    def write(self, line: str) -> str:
        return line


def _as_csv(rows: Iterator[Transaction]) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield writer.writerow(EXPORTED)
    for row in rows:
        yield writer.writerow([harmless(getattr(row, name)) for name in EXPORTED])


def harmless(value: Any) -> str:
    """The value as text, with a quote before what a spreadsheet would run as a formula (OWASP).

    Some spreadsheets split cells at semicolons, tabs and line ends, quoted or not; full-width signs
    begin a formula too.
    """
    text = "" if value is None else str(value)
    safe = FORMULA.sub(r"\1\2'", text)
    return f"'{safe}" if safe.startswith(("\t", "\r")) else safe


def _as_json(rows: Iterator[Transaction]) -> Iterator[str]:
    yield "["
    for number, row in enumerate(rows):
        item = {name: getattr(row, name) for name in EXPORTED} | {"arguments": row.arguments}
        yield (",\n" if number else "\n") + json.dumps(item, default=str)
    yield "\n]\n"


def _midnight(day: Any) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
