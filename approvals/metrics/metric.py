"""One figure with its labels, and the queries that several figures share."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

WINDOW = timedelta(minutes=5)
QUANTILES = (0.5, 0.99)
Tenants = frozenset[str] | None  # None: all of them


@dataclass(frozen=True, slots=True)
class Metric:
    """One named figure, with a value for each set of labels."""

    name: str
    help: str
    values: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)

    @property
    def value(self) -> float:
        """The value of a metric without labels."""
        return self.values.get((), 0.0)

    def of(self, **labels: str) -> float:
        return self.values.get(tuple(sorted(labels.items())), 0.0)


def labelled(name: str, help: str, label: str, counts: Any) -> Metric:
    return Metric(name, help, {((label, str(key)),): float(value) for key, value in counts})


def single(name: str, help: str, value: float | None) -> Metric:
    return Metric(name, help, {} if value is None else {(): float(value)})


def quantiles(name: str, help: str, rows: QuerySet[Any], span: Any) -> Metric:
    """Quantiles of the rows' time spans in seconds, computed by PostgreSQL."""
    sql, params = rows.annotate(span=span).values_list("span").query.sql_with_params()
    columns = ", ".join(
        f"percentile_cont({q}) WITHIN GROUP (ORDER BY extract(epoch FROM span))" for q in QUANTILES
    )
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM ({sql}) AS spans (span)", params)
        quantiles = cursor.fetchone()
    values: dict[tuple[tuple[str, str], ...], float] = {
        (("quantile", str(q)),): float(value)
        for q, value in zip(QUANTILES, quantiles, strict=True)
        if value is not None
    }
    return Metric(name, help, values)


def within(rows: QuerySet[Any], tenants: Tenants) -> QuerySet[Any]:
    return rows if tenants is None else rows.filter(tenant__in=tenants)


def age(at: Any) -> float | None:
    return None if at is None else max(0.0, (timezone.now() - at).total_seconds())
