"""The pages of the desk: read the request, call one verb, render the answer."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.db.models import Prefetch
from django.forms import Form
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    StreamingHttpResponse,
)
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST, require_safe

from approvals.desk import decisions, inbox, policies
from approvals.people import principal_of
from approvals.presentation import labels, shown_in_full
from approvals.web.forms import (
    ApproveForm,
    CompensateForm,
    FilterForm,
    HistoryForm,
    RejectForm,
    ResolveForm,
)
from approvals.web.requests import roles_of_request, tenants_of_request, wants_fragment
from approvals.web.tasks import question_context
from ledger import contracts
from ledger.api import describe, describe_readonly
from ledger.database import keyset_page
from ledger.errors import LedgerError, NotFound
from ledger.http import problem
from ledger.models import Event, Transaction, TransactionQuerySet, id_or_none
from ledger.principals import Surface
from ledger.states import State

HISTORY_PAGE = 50
EXPORT_MOST = 100_000  # rows
WHOLE = "whole"  # in the query: show everything, nothing folded


# --- inbox ------------------------------------------------------------------------------


@login_required
@require_safe
def inbox_list(request: HttpRequest) -> HttpResponse:
    return render(request, "desk/_list.html", _list_context(request))


@login_required
@require_safe
def inbox_page(request: HttpRequest) -> HttpResponse:
    context = _list_context(request)
    first = next((entry for group in context["groups"] for entry in group.rows), None)
    if first is not None and first.tx is not None:
        context |= _item_context(request, _with_history(request, first.tx.pk))
    elif first is not None and first.question is not None:
        context |= question_context(request, first.question)
    else:
        ended = Transaction.objects.for_tenants(tenants_of_request(request)).filter(
            decided_at__isnull=False
        )
        context["last_decided"] = ended.prefetch_related("events").order_by("-pk").first()
    return render(request, "desk/inbox.html", context)


def inbox_view(request: HttpRequest) -> HttpResponse:
    """The whole page, or just the list for the script that keeps it live."""
    return inbox_list(request) if wants_fragment(request) else inbox_page(request)


@login_required
@require_GET
def rows(request: HttpRequest) -> HttpResponse:
    """The rows that changed, as they are now, in the filters of the page."""
    ids = [pk for text in request.GET.getlist("id")[:200] if (pk := id_or_none(text))]
    filters = FilterForm(request.GET).filters()
    entries = inbox.changed(ids, tenants_of_request(request), filters, timezone.now())
    return render(request, "desk/_rows.html", {"rows": entries, "filters": filters})


def _list_context(request: HttpRequest) -> dict[str, Any]:
    form = FilterForm(request.GET)
    filters = form.filters()
    entries = inbox.waiting(tenants_of_request(request), filters, timezone.now())
    return {
        "groups": inbox.grouped(entries),
        "shown": len(entries),
        "filters": filters,
        "form": form,
        "tool_names": sorted(contracts.tools),
        "most_rows": inbox.MOST_ROWS,
    }


# --- one transaction --------------------------------------------------------------------


@login_required
@require_safe
def transaction(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    return _item(request, _with_history(request, transaction_id))


@login_required
@require_POST
def approve(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    """Record the approval and respond with the item as it is afterwards."""
    form = ApproveForm(request.POST)
    return _decide(request, transaction_id, form, decisions.approve, "digest", "typed", "shown")


@login_required
@require_POST
def reject(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    return _decide(
        request, transaction_id, RejectForm(request.POST), decisions.reject, "digest", "reason"
    )


@login_required
@require_POST
def resolve(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    form = ResolveForm(request.POST)
    names = ("outcome", "receipt", "reason")
    return _decide(request, transaction_id, form, decisions.resolve, *names)


@login_required
@require_POST
def compensate(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    form = CompensateForm(request.POST)
    return _decide(request, transaction_id, form, decisions.compensate, "reason")


def _decide(
    request: HttpRequest,
    transaction_id: UUID,
    form: Form,
    verb: Callable[..., Transaction],
    *names: str,
) -> HttpResponse:
    if not form.is_valid():
        message = str(next(iter(form.errors.values()))[0])
        row = _with_history(request, transaction_id)
        return _item(request, row, status=422, problem=message)
    values = {name: form.cleaned_data[name] for name in names}
    try:
        verb(request.user, transaction_id, via=Surface.WEB, **values)
    except NotFound:
        raise Http404 from None
    except LedgerError as refusal:
        row = _with_history(request, transaction_id)
        return _item(request, row, status=refusal.status, problem=refusal.detail)
    if not wants_fragment(request):
        return redirect("desk:transaction", transaction_id)
    return _item(request, _with_history(request, transaction_id))


def _item(
    request: HttpRequest, row: Transaction, status: int = 200, problem: str = ""
) -> HttpResponse:
    template = "desk/_item.html" if wants_fragment(request) else "desk/transaction.html"
    context = _item_context(request, row) | {"problem": problem}
    return render(request, template, context, status=status)


def _with_history(request: HttpRequest, transaction_id: UUID) -> Transaction:
    """The row with decisions and events; ``Http404`` for a transaction of another tenant."""
    row = (
        Transaction.objects.for_tenants(tenants_of_request(request))
        .prefetch_related("decisions", Prefetch("events", Event.objects.order_by("seq")))
        .filter(pk=transaction_id)
        .first()
    )
    if row is None:
        raise Http404
    return row


def _item_context(request: HttpRequest, row: Transaction) -> dict[str, Any]:
    principal = str(principal_of(request.user))  # type: ignore[arg-type]
    roles = roles_of_request(request)
    as_opened = shown_in_full.coverage(row, shown_in_full.DESK)
    is_whole = as_opened.is_complete or WHOLE in request.GET or row.state != State.PREPARED
    # Kept in every address of the page, so that a refresh does not fold it again.
    query = f"?{WHOLE}=1" if WHOLE in request.GET else ""
    return {
        "as_opened": as_opened,
        "is_whole": is_whole,
        "address": reverse("desk:transaction", args=[row.pk]) + query,
        "query": query,
        # Only the page that shows everything carries the proof that it did.
        "proof": shown_in_full.proof_of(row, request.user) if is_whole else "",  # type: ignore[arg-type]
        "tx": row,
        "may_decide": policies.may_decide(row, principal, roles, timezone.now()),
        "may_operate": policies.may_operate(row, principal, roles),
        "approval_requirement": policies.approval_requirement(row),
        "who_can": policies.who_can(row.tenant),
        "missing_approvals": policies.missing_approvals(row),
        "is_irreversible": policies.is_irreversible(row),
        "confirmation_word": policies.confirmation_word(row),
        "undo": policies.undo_of(row),
        "can_compensate": policies.can_compensate(row),
        "settling": policies.settling(row, principal),
        "fields": list(labels.compared(row)),
        "events": list(row.events.all()),
        "is_open": row.state == State.PREPARED,
    }


# --- history ----------------------------------------------------------------------------


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


@login_required
@require_safe
def tools(request: HttpRequest) -> HttpResponse:
    cards = [
        {**describe(tool), "contract": tool.contract} for _, tool in sorted(contracts.tools.items())
    ]
    looking = [describe_readonly(tool) for _, tool in sorted(contracts.readonly_tools.items())]
    return render(request, "desk/tools.html", {"cards": cards, "looking": looking})


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "403.html", status=403)


def missing(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    if request.path.startswith("/api/"):
        return problem(404, "not_found", "Not found", "There is nothing here.", "See /api/v1/docs.")
    return render(request, "404.html", status=404)
