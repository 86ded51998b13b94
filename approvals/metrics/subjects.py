"""Metrics for operators: how much waits, for how long, and what is late.

Every figure is read from the tables, over the open rows or the last minutes, so a restart loses
none. Only queue lengths and the number of reads come from Redis, and may be absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import django_rq
from django.conf import settings
from django.db import connection
from django.db.models import Count, F, Max, Min, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce, Now
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from redis import RedisError

from a2a import polling
from a2a.models import BusRequest, GitBus, Progress, Question, QuestionState, RemoteAgent, Task
from a2a.states import TaskState
from a2a.tasks import retention as task_retention
from approvals.local import processes
from ledger import liveness, retention as transaction_retention
from ledger.models import (
    Checkpoint,
    Delivery,
    DeliveryState,
    Event,
    LimitRefusal,
    McpUpstream,
    RegisteredTool,
    Review,
    Transaction,
)
from ledger.states import OPEN, EventKind, State
from ledger.waiting import waiters
from ledger.workers import leadership

WINDOW = timedelta(minutes=5)
MOST_REFUSALS = 200  # series; each limit of each tenant has one
MOST_CARD_VERSIONS = 10  # with a series of their own
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


def _labelled(name: str, help: str, label: str, counts: Any) -> Metric:
    return Metric(name, help, {((label, str(key)),): float(value) for key, value in counts})


def _single(name: str, help: str, value: float | None) -> Metric:
    return Metric(name, help, {} if value is None else {(): float(value)})


# --- transactions ----------------------------------------------------------------------------


def transactions(tenants: Tenants) -> Iterator[Metric]:
    still_open = _within(Transaction.objects.filter(state__in=sorted(OPEN)), tenants)
    states = still_open.values_list("state").annotate(Count("pk"))
    yield _labelled("assent_transactions", "Open transactions by state.", "state", states)
    oldest = still_open.filter(state=State.PREPARED).aggregate(at=Min("created_at"))["at"]
    yield _single("assent_oldest_pending_seconds", "Age of what waits longest.", _age(oldest))
    recent = _within(Event.objects.filter(at__gte=Now() - WINDOW), tenants)
    kinds = recent.values_list("kind").annotate(Count("pk"))
    yield _labelled("assent_events_recent", "Events of the last 5 minutes.", "kind", kinds)
    decided = Q(
        kind__in=[EventKind.APPROVED, EventKind.REJECTED], transaction__decided_at__isnull=False
    )
    yield _quantiles(
        "assent_decision_seconds",
        "From prepared to decided, last 5 minutes.",
        recent.filter(decided),
        F("transaction__decided_at") - F("transaction__created_at"),
    )
    yield _quantiles(
        "assent_commit_seconds",
        "From decided to committed, last 5 minutes.",
        recent.filter(kind=EventKind.COMMITTED),
        F("at") - F("transaction__decided_at"),
    )


# --- supervisors -----------------------------------------------------------------------------


def supervisors(tenants: Tenants) -> Iterator[Metric]:
    values: dict[tuple[tuple[str, str], ...], float] = {}
    reviews = Review.objects.all()
    if tenants is not None:
        reviews = reviews.filter(tenant__in=tenants)
    for rate in reviews.agreement():
        counts = {
            "agree": rate.agreed,
            "otherwise": rate.otherwise,
            "waiting": rate.waiting,
            "lapsed": rate.lapsed,
        }
        for verdict, number in counts.items():
            values[("agent", rate.agent), ("verdict", verdict)] = number
    yield Metric("assent_supervisor_reviews", "Sampled decisions, by what people said.", values)


# --- tasks and questions ---------------------------------------------------------------------


def tasks(tenants: Tenants) -> Iterator[Metric]:
    still_open = _within(Task.objects.open(), tenants)
    states = still_open.values_list("state").annotate(Count("pk"))
    yield _labelled("assent_tasks", "Open tasks by state.", "state", states)
    waiting = _within(Question.objects.waiting(), tenants)
    oldest = waiting.aggregate(at=Min("created_at"))["at"]
    yield _single("assent_input_required_seconds_max", "How long a question waits.", _age(oldest))
    answered = Question.objects.filter(state=QuestionState.ANSWERED, ended_at__gte=Now() - WINDOW)
    yield _quantiles(
        "assent_answer_seconds",
        "From question to answer, last 5 minutes.",
        _within(answered, tenants),
        F("ended_at") - F("created_at"),
    )
    ended = _within(Task.objects.filter(ended_at__gte=Now() - WINDOW), tenants)
    outcomes = ended.values_list("state").annotate(Count("pk"))
    yield _labelled("assent_tasks_ended_recent", "Tasks of the last 5 minutes.", "state", outcomes)
    invalid = ended.filter(state=TaskState.REJECTED, reason_code="schema_mismatch")
    yield _labelled(
        "assent_validation_errors_recent",
        "Inputs that did not fit, last 5 minutes.",
        "card_version",
        _by_card_version(invalid),
    )
    yield _reads_per_task(ended.filter(state=TaskState.COMPLETED).count(), tenants)
    if tenants is None:
        drifted = RemoteAgent.objects.exclude(drift="").count()
        yield _single("assent_remote_agents_drifted", "Remote agents whose card differs.", drifted)


def _by_card_version(invalid: QuerySet[Task]) -> list[tuple[str, int]]:
    """Counts by card version. Clients choose the text, so only common ones get a series."""
    counted = invalid.values_list("card_version").annotate(number=Count("pk"))
    common = [
        (version or "not said", number)
        for version, number in counted.order_by("-number", "card_version")[:MOST_CARD_VERSIONS]
    ]
    others = invalid.count() - sum(number for _, number in common)
    return [*common, ("others", others)] if others > 0 else common


def _reads_per_task(completed: int, tenants: Tenants) -> Metric:
    reads = polling.recent_reads(int(WINDOW.total_seconds() // 60), tenants)
    per_task = reads / completed if reads is not None and completed else None
    return _single("assent_reads_per_completed_task", "GETs per completed task.", per_task)


# --- git buses, and tools elsewhere ------------------------------------------------------------


def buses(tenants: Tenants) -> Iterator[Metric]:
    rows = GitBus.objects.filter(is_active=True)
    requests = BusRequest.objects.filter(bus__is_active=True)
    if tenants is not None:
        rows = rows.filter(agent__tenant__in=tenants)
        requests = requests.filter(bus__agent__tenant__in=tenants)
    seen = list(rows.values_list("agent__tenant", "agent__slug", "fetched_at", "error"))
    yield _labelled(
        "assent_bus_fetched_seconds",
        "Since the last good fetch.",
        "bus",
        [(f"{tenant}/{slug}", _age(at)) for tenant, slug, at, _ in seen if at is not None],
    )
    failing = [(f"{tenant}/{slug}", bool(error)) for tenant, slug, _, error in seen]
    yield _labelled("assent_bus_failing", "1: its last pass failed.", "bus", failing)
    still_open = requests.exclude(progress__in=[Progress.DONE, Progress.ELSEWHERE])
    counts = still_open.values_list("progress").annotate(Count("pk"))
    yield _labelled("assent_bus_requests", "Open requests of git buses.", "progress", counts)
    stuck = requests.stuck().count()
    yield _single("assent_bus_stuck_claims", "Claims of others that are too old.", stuck)


def elsewhere(tenants: Tenants) -> Iterator[Metric]:
    servers = _within(McpUpstream.objects.all(), tenants).values_list("tenant", "name", "problem")
    pinned = RegisteredTool.objects.filter(is_withdrawn=False).exclude(pinned="")
    tools = _within(pinned, tenants).values_list("tenant", "name", "read_error")
    for kind, label, rows in (("mcp_server", "server", servers), ("http_tool", "tool", tools)):
        failing = [(f"{tenant}/{name}", bool(why)) for tenant, name, why in rows]
        yield _labelled(f"assent_{kind}_failing", "1: its last reading failed.", label, failing)


# --- retention -------------------------------------------------------------------------------


def retention(tenants: Tenants) -> Iterator[Metric]:
    due = [transaction_retention.due(), task_retention.due()]
    held = [model.objects.filter(legal_hold_at__isnull=False) for model in (Transaction, Task)]
    counts = [
        (state, sum(_within(rows, tenants).count() for rows in querysets))
        for state, querysets in (("due", due), ("held", held))
    ]
    yield _labelled("assent_retention", "Content to erase, or held.", "state", counts)


# --- limits ----------------------------------------------------------------------------------


def limits(tenants: Tenants) -> Iterator[Metric]:
    refused = _within(LimitRefusal.objects.filter(minute__gte=Now() - WINDOW), tenants)
    rows = refused.values_list("limit", "of", "tenant").annotate(Sum("number"))
    yield Metric(
        "assent_limit_refusals_recent",
        "Requests that a limit refused, last 5 minutes.",
        {
            (("limit", limit), ("of", of), ("tenant", tenant)): float(number)
            for limit, of, tenant, number in rows.order_by("-number__sum")[:MOST_REFUSALS]
        },
    )


# --- infrastructure ---------------------------------------------------------------------------


def infrastructure(tenants: Tenants) -> Iterator[Metric]:
    waiting = Delivery.objects.filter(state=DeliveryState.WAITING)
    given_up = Delivery.objects.filter(state=DeliveryState.GIVEN_UP)
    if tenants is not None:
        waiting, given_up = (rows.filter(event__tenant__in=tenants) for rows in (waiting, given_up))
    counts = [("waiting", waiting.count()), ("given_up", given_up.count())]
    yield _labelled("assent_deliveries", "Messages owed to the outside.", "state", counts)
    due = list(_due_by_channel(waiting))
    backlog = [(channel, number) for channel, number, _ in due]
    yield _labelled("assent_delivery_backlog", "Messages that are due.", "channel", backlog)
    oldest = [(channel, _age(since) or 0.0) for channel, _, since in due]
    yield _labelled(
        "assent_delivery_late_seconds", "By how much the oldest is late.", "channel", oldest
    )
    yield _single("assent_sweeper_lag_seconds", "By how much due work is late.", _lag())
    beat = leadership.last_beat()
    yield _single("assent_sweeper_silent_seconds", "Since the sweeper's last round.", _age(beat))
    yield _labelled(
        "assent_work_late_seconds",
        "How long the oldest work that is due waits for a worker.",
        "queue",
        [(queue, _age(since) or 0.0) for queue, since in _oldest_work()],
    )
    last = Checkpoint.objects.aggregate(at=Max("at"), upto=Max("upto_event"))
    yield _single(
        "assent_checkpoint_age_seconds", "Since the last audit checkpoint.", _age(last["at"])
    )
    first_after = Event.objects.filter(pk__gt=last["upto"] or 0).order_by("pk")
    yield _single(
        "assent_events_uncovered_seconds",
        "Age of the oldest event that is under no checkpoint.",
        _age(first_after.values_list("at", flat=True).first()) or 0.0,
    )
    yield _labelled("assent_queue_jobs", "Jobs in the queues.", "queue", _queues())
    yield _labelled("assent_processes", "Processes that live.", "kind", _processes())
    yield from _waiters()


def _oldest_work() -> Iterator[tuple[str, datetime | None]]:
    """Per queue of the workers, since when its oldest work waits to be begun."""
    rows = Transaction.objects
    signed_off = rows.begun_by_nobody().aggregate(since=Min("decided_at"))["since"]
    in_doubt = rows.inquiry_due().aggregate(since=Min("next_attempt_at"))["since"]
    yield "commit", min((at for at in (signed_off, in_doubt) if at is not None), default=None)
    # Work that nobody has tried yet has been due since its last event.
    events = Event.objects.filter(subject=OuterRef("pk")).order_by("-seq").values("at")[:1]
    due_since = Coalesce("next_attempt_at", "lease_expires_at", Subquery(events))
    for queue, state in (("roll_back", State.ROLLING_BACK), ("compensate", State.COMPENSATING)):
        yield queue, rows.work_due(state).aggregate(since=Min(due_since))["since"]


def _processes() -> list[tuple[str, int]]:
    """Every kind is named, also one of which none lives; nothing while Redis does not answer."""
    counts = liveness.counts()
    kinds = [process.name for process in processes.PROCESSES if process is not processes.MIGRATE]
    return [] if counts is None else [(kind, counts[kind]) for kind in kinds]


def _waiters() -> Iterator[Metric]:
    counts = waiters.in_all_processes()
    if counts is not None:
        by_kind = [(kind.value, number) for kind, number in counts.items()]
        yield _labelled("assent_waiters", "Who waits at the web processes.", "kind", by_kind)


def _due_by_channel(waiting: QuerySet[Delivery]) -> QuerySet[Delivery, tuple[str, int, datetime]]:
    """Per channel how many deliveries are due, and since when the oldest."""
    due = waiting.filter(next_attempt_at__lte=Now()).values_list("channel")
    return due.annotate(number=Count("pk"), since=Min("next_attempt_at")).order_by("channel")


def _lag() -> float:
    """Seconds by which the oldest due work is late; 0 when nothing is due."""
    due = [
        Transaction.objects.due().aggregate(at=Min("expires_at"))["at"],
        Question.objects.due().aggregate(at=Min("expires_at"))["at"],
        Delivery.objects.filter(state=DeliveryState.WAITING, next_attempt_at__lte=Now()).aggregate(
            at=Min("next_attempt_at")
        )["at"],
    ]
    return max((_age(at) or 0.0 for at in due if at is not None), default=0.0)


def _queues() -> list[tuple[str, int]]:
    try:
        return [(name, int(django_rq.get_queue(name).count)) for name in settings.RQ_QUEUES]
    except RedisError:
        return []


# The functions whose metrics are shown and exported.
SOURCES: tuple[Callable[[Tenants], Iterator[Metric]], ...] = (
    transactions,
    supervisors,
    tasks,
    buses,
    elsewhere,
    retention,
    limits,
    infrastructure,
)


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
    """Prometheus text format 0.0.4, every metric a gauge.

    The registry is made for this call: the global one would add metrics of this process, and the
    next scrape may reach another process.
    """
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(metrics.values()))
    return generate_latest(registry).decode()


def _within(rows: QuerySet[Any], tenants: Tenants) -> QuerySet[Any]:
    return rows if tenants is None else rows.filter(tenant__in=tenants)


def _age(at: Any) -> float | None:
    return None if at is None else max(0.0, (timezone.now() - at).total_seconds())


def _quantiles(name: str, help: str, rows: QuerySet[Any], span: Any) -> Metric:
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
