"""The history of a tenant's transactions: search, pages and exports."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import prefetch_related_objects
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
from approvals.web.forms import (
    HistoryForm,
)
from approvals.web.requests import tenants_of_request
from ledger.models import Transaction
from ledger.reporting import search
from ledger.tools import tools_of

HISTORY_PAGE = 50
EXPORT_MOST = 100_000  # rows
EXPORT_PAGE = 500


@login_required
@require_safe
def history(request: HttpRequest) -> HttpResponse:
    form = HistoryForm(request.GET)
    wanted = _wanted(request, form)
    matches = search.find(wanted, HISTORY_PAGE, form.cleaned_data.get("before"))
    query = request.GET.copy()
    query.pop("before", None)
    prefetch_related_objects(matches.rows, "decisions")
    is_filtered = any(value for name, value in request.GET.items() if name != "before")
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
    }
    return render(request, "desk/history.html", context)


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
    today = timezone.localdate()
    for label, days in ((_("Today"), 1), (_("7 days"), 7), (_("30 days"), 30)):
        since = (today - timedelta(days=days - 1)).isoformat()
        chosen = query.copy()
        chosen.pop("until", None)
        chosen["since"] = since
        is_chosen = query.get("since") == since and not query.get("until")
        yield {"label": label, "query": chosen.urlencode(), "is_chosen": is_chosen}


def _wanted(request: HttpRequest, form: HistoryForm) -> search.Wanted:
    filters, values = form.filters(), form.cleaned_data
    since, until = values.get("since"), values.get("until")
    is_bounded = until is not None and until < date.max  # after the last day comes nothing
    return search.Wanted(
        tenants=tenants_of_request(request),
        text=filters.q,
        tool=filters.tool,
        risk=filters.risk,
        state=values.get("state") or "",
        proposed_by=filters.agent,
        since=_midnight(since) if since else None,
        until=_midnight(until) + timedelta(days=1) if is_bounded else None,
    )


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


# --- tools, and pages for when there is nothing -------------------------------------------------
