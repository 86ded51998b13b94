"""Insight: what became of requests, how long people take, who waits for whom."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from approvals.insight import figures as charts
from approvals.insight.charts import Chart
from approvals.insight.signed import signed_chart
from approvals.models import Role
from approvals.people import names_of, principal_of
from approvals.web.record.history import harmless
from approvals.web.requests import roles_of_request
from ledger.reporting.usage import figures

SPANS = (7, 30, 90)  # days
MANAGERS = {Role.APPROVER, Role.OPERATOR}


@dataclass(frozen=True, slots=True)
class Asked:
    """The tenants and the number of days that the address asks for."""

    tenants: list[str]
    tenant: str  # empty for all of them
    days: int
    now: datetime
    zone: ZoneInfo

    @property
    def of(self) -> list[str]:
        return [self.tenant] if self.tenant else self.tenants

    @property
    def begin(self) -> datetime:
        return figures.since(self.days, self.zone, self.now)


@login_required
@require_safe
def insight(request: HttpRequest) -> HttpResponse:
    asked = _asked(request)
    times, pairs = figures.times(asked.of, asked.begin, asked.zone), _pairs(asked)
    own = [pair for pair in pairs if pair.decider == str(principal_of(request.user))]  # type: ignore[arg-type]
    context = {
        "asked": asked,
        "spans": SPANS,
        "sentences": charts.sentences(times, charts.own_waits(own)),
        "charts": _charts(asked, times, pairs),
        "quick": charts.quick_sentence(
            sum(pair.quick_approvals for pair in own), sum(pair.approvals for pair in own)
        ),
        "is_empty": not times.outcomes,
    }
    return render(request, "desk/insight.html", context)


@login_required
@require_safe
def as_file(request: HttpRequest, name: str) -> HttpResponse:
    """The table behind one chart, for a spreadsheet."""
    asked = _asked(request)
    times = figures.times(asked.of, asked.begin, asked.zone)
    by_name = {chart.name: chart for chart in _charts(asked, times, _pairs(asked))}
    if name not in by_name:
        raise Http404
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="assent-{name}-{asked.days}-days.csv"'
    writer = csv.writer(response)
    writer.writerow([column.name for column in by_name[name].columns])
    for row in by_name[name].rows:
        writer.writerow([harmless(cell.value) for cell in row])
    return response


def _charts(asked: Asked, times: figures.Times, pairs: list[figures.Pair]) -> list[Chart]:
    today = asked.now.astimezone(asked.zone).date()
    return [
        charts.outcomes_chart(times, asked.days, today),
        charts.waits_chart(times),
        charts.expiry_chart(times),
        signed_chart(pairs),
        charts.pairs_chart(pairs, _names),
        charts.agents_chart(figures.agents(asked.of, asked.begin), _names),
        charts.supervisors_chart(pairs, figures.reviewed(asked.of, asked.begin), _names),
    ]


def _names(principals: Iterable[str]) -> list[str]:
    return names_of(list(principals))


def _pairs(asked: Asked) -> list[figures.Pair]:
    return figures.pairs(asked.of, asked.begin)


def _asked(request: HttpRequest) -> Asked:
    """``PermissionDenied`` for who neither approves nor operates anywhere."""
    roles = roles_of_request(request)
    tenants = sorted(tenant for tenant, names in roles.items() if MANAGERS & set(names))
    if not tenants:
        raise PermissionDenied
    tenant, days = request.GET.get("tenant", ""), request.GET.get("days", "")
    return Asked(
        tenants,
        tenant if tenant in tenants else "",
        int(days) if days in map(str, SPANS) else 30,
        timezone.now(),
        ZoneInfo(timezone.get_current_timezone_name()),
    )
