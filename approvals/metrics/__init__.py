"""Metrics for operators: how much waits, for how long, and what is late.

Every figure is read from the tables, over the open rows or the last minutes, so a restart loses
none. Only queue lengths and the number of reads come from Redis, and may be absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from approvals.metrics.alarms import ALARMS, rule_file
from approvals.metrics.dashboard import dashboard
from approvals.metrics.infrastructure import infrastructure
from approvals.metrics.metric import Metric, Tenants
from approvals.metrics.subjects import (
    buses,
    calls,
    elsewhere,
    limits,
    retention,
    supervisors,
    tasks,
    transactions,
)
from ledger.foundation.telemetry import counters
from ledger.foundation.telemetry.counters import Counted

__all__ = [
    "ALARMS",
    "Metric",
    "Tenants",
    "as_prometheus",
    "count_sign_in",
    "dashboard",
    "gathered",
    "infrastructure",
    "retention",
    "rule_file",
]

_sign_ins = Counted("assent_sign_ins", "Attempts to sign in.", "outcome")
# The functions whose metrics are shown and exported.
SOURCES: tuple[Callable[[Tenants], Iterator[Metric]], ...] = (
    transactions,
    supervisors,
    tasks,
    buses,
    elsewhere,
    calls,
    retention,
    limits,
    infrastructure,
)


def count_sign_in(outcome: str) -> None:
    """``signed_in``, ``refused`` for a wrong proof, or ``blocked`` before it was looked at."""
    _sign_ins.count(outcome)


def gathered(tenants: Tenants = None) -> dict[str, Metric]:
    """All metrics by name; only those of the given tenants if there are any given."""
    return {metric.name: metric for source in SOURCES for metric in source(tenants)}


class _MetricsCollector(Collector):
    """The metrics of one scrape, for the registry of the Prometheus client."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for metric in self._metrics:
            family = GaugeMetricFamily(metric.name, metric.help)
            for labels, value in sorted(metric.values.items()):
                family.add_sample(metric.name, dict(labels), value)
            yield family


def as_prometheus(metrics: dict[str, Metric]) -> str:
    """Prometheus text format 0.0.4: gauges, and what the processes of this host counted.

    The registry is made for this call: the global one would add metrics of this process, and the
    next scrape may reach another process.
    """
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(metrics.values()))
    counters.add_to(registry)
    return generate_latest(registry).decode()
