"""The history of a tenant's transactions: search, pages and exports."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    StreamingHttpResponse,
)
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from approvals.desk import inbox
from approvals.web.forms import (
    HistoryForm,
)
from approvals.web.requests import tenants_of_request
from ledger import contracts
from ledger.database import keyset_page
from ledger.models import Transaction, TransactionQuerySet

HISTORY_PAGE = 50
EXPORT_MOST = 100_000  # rows


@login_required
@require_safe
def history(request: HttpRequest) -> HttpResponse:
    form = HistoryForm(request.GET)
    rows = _history(request, form)
    before = form.cleaned_data.get("before")
    page = keyset_page(rows, HISTORY_PAGE, before=(before,) if before else None)
    query = request.GET.copy()
    query.pop("before", None)
    context = {
        "rows": page.rows,
        "form": form,
        "query": query.urlencode(),
        "next": page.cursor,
        "tool_names": sorted(contracts.tools),
        "is_filtered": any(request.GET.values()),
    }
    return render(request, "desk/history.html", context)


@login_required
@require_safe
def export(request: HttpRequest, form: str) -> HttpResponseBase:
    """The history as filtered, row by row, so that a large one needs no memory."""
    rows = _history(request, HistoryForm(request.GET)).order_by("-pk")
    exported = rows[:EXPORT_MOST].iterator(chunk_size=1000)
    if form == "csv":
        response = StreamingHttpResponse(_as_csv(exported), content_type="text/csv; charset=utf-8")
    elif form == "json":
        response = StreamingHttpResponse(_as_json(exported), content_type="application/json")
    else:
        raise Http404
    response["Content-Disposition"] = f'attachment; filename="assent-history.{form}"'
    return response


def _history(request: HttpRequest, form: HistoryForm) -> TransactionQuerySet:
    filters = form.filters()
    values = form.cleaned_data
    rows = inbox.matching(Transaction.objects.for_tenants(tenants_of_request(request)), filters)
    if values.get("state"):
        rows = rows.filter(state=values["state"])
    if since := values.get("since"):
        rows = rows.filter(created_at__gte=_midnight(since))
    if (until := values.get("until")) and until < date.max:  # after the last day comes nothing
        rows = rows.filter(created_at__lt=_midnight(until) + timedelta(days=1))
    return rows


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
