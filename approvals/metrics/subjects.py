"""Figures of transactions, tasks, supervisors, git buses, tools elsewhere, retention and limits."""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.db.models import Count, DecimalField, F, Min, Q, QuerySet, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Now

from a2a import polling
from a2a.models import Question, QuestionState, RemoteAgent, Task
from a2a.states import TaskState
from a2a.tasks import retention as task_retention
from approvals.metrics.metric import (
    WINDOW,
    Metric,
    Tenants,
    age,
    labelled,
    quantiles,
    single,
    within,
)
from ledger.models import (
    Event,
    LimitRefusal,
    McpUpstream,
    RegisteredTool,
    Review,
    Transaction,
)
from ledger.proof import retention as transaction_retention
from ledger.states import OPEN, EventKind, State
from ledger.tools import silent_addresses
from ledger.tools.silent_addresses import late_calls

MOST_REFUSALS = 200  # series; each limit of each tenant has one
MOST_CARD_VERSIONS = 10  # with a series of their own


def transactions(tenants: Tenants) -> Iterator[Metric]:
    still_open = within(Transaction.objects.filter(state__in=sorted(OPEN)), tenants)
    states = still_open.values_list("state").annotate(Count("pk"))
    yield labelled("assent_transactions", "Open transactions by state.", "state", states)
    oldest = still_open.filter(state=State.PREPARED).aggregate(at=Min("created_at"))["at"]
    yield single("assent_oldest_pending_seconds", "Age of what waits longest.", age(oldest))
    recent = within(Event.objects.filter(at__gte=Now() - WINDOW), tenants)
    kinds = recent.values_list("kind").annotate(Count("pk"))
    yield labelled("assent_events_recent", "Events of the last 5 minutes.", "kind", kinds)
    decided = Q(
        kind__in=[EventKind.APPROVED, EventKind.REJECTED], transaction__decided_at__isnull=False
    )
    yield quantiles(
        "assent_decision_seconds",
        "From prepared to decided, last 5 minutes.",
        recent.filter(decided),
        F("transaction__decided_at") - F("transaction__created_at"),
    )
    yield quantiles(
        "assent_commit_seconds",
        "From decided to committed, last 5 minutes.",
        recent.filter(kind=EventKind.COMMITTED),
        F("at") - F("transaction__decided_at"),
    )


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


def tasks(tenants: Tenants) -> Iterator[Metric]:
    still_open = within(Task.objects.open(), tenants)
    states = still_open.values_list("state").annotate(Count("pk"))
    yield labelled("assent_tasks", "Open tasks by state.", "state", states)
    waiting = within(Question.objects.waiting(), tenants)
    oldest = waiting.aggregate(at=Min("created_at"))["at"]
    yield single("assent_input_required_seconds_max", "How long a question waits.", age(oldest))
    answered = Question.objects.filter(state=QuestionState.ANSWERED, ended_at__gte=Now() - WINDOW)
    yield quantiles(
        "assent_answer_seconds",
        "From question to answer, last 5 minutes.",
        within(answered, tenants),
        F("ended_at") - F("created_at"),
    )
    ended = within(Task.objects.filter(ended_at__gte=Now() - WINDOW), tenants)
    outcomes = ended.values_list("state").annotate(Count("pk"))
    yield labelled("assent_tasks_ended_recent", "Tasks of the last 5 minutes.", "state", outcomes)
    amount = Cast(KT("cost__amount"), DecimalField(max_digits=30, decimal_places=6))
    costs = ended.filter(cost__amount__isnull=False).values_list(KT("cost__currency"))
    yield labelled(
        "assent_task_cost_recent",
        "Money that tasks of the last 5 minutes cost, as their workers say.",
        "currency",
        costs.annotate(total=Sum(amount)),
    )
    tokens = Sum(Cast(KT("cost__tokens"), DecimalField(max_digits=30, decimal_places=0)))
    used = ended.aggregate(tokens=tokens)["tokens"]
    yield single("assent_task_tokens_recent", "Tokens that the same tasks used.", used or 0)
    invalid = ended.filter(state=TaskState.REJECTED, reason_code="schema_mismatch")
    yield labelled(
        "assent_validation_errors_recent",
        "Inputs that did not fit, last 5 minutes.",
        "card_version",
        _by_card_version(invalid),
    )
    yield _reads_per_task(ended.filter(state=TaskState.COMPLETED).count(), tenants)
    if tenants is None:
        drifted = RemoteAgent.objects.exclude(watched__held_why="").count()
        yield single("assent_remote_agents_drifted", "Remote agents whose card differs.", drifted)


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
    return single("assent_reads_per_completed_task", "GETs per completed task.", per_task)


def buses(tenants: Tenants) -> Iterator[Metric]:
    if not apps.is_installed("a2a.doors.git_bus"):
        return
    from a2a.doors.git_bus.models import BusRequest, GitBus, Progress

    rows = GitBus.objects.filter(is_active=True)
    requests = BusRequest.objects.filter(bus__is_active=True)
    if tenants is not None:
        rows = rows.filter(agent__tenant__in=tenants)
        requests = requests.filter(bus__agent__tenant__in=tenants)
    seen = list(rows.values_list("agent__tenant", "agent__slug", "fetched_at", "error"))
    yield labelled(
        "assent_bus_fetched_seconds",
        "Since the last good fetch.",
        "bus",
        [(f"{tenant}/{slug}", age(at)) for tenant, slug, at, _ in seen if at is not None],
    )
    failing = [(f"{tenant}/{slug}", bool(error)) for tenant, slug, _, error in seen]
    yield labelled("assent_bus_failing", "1: its last pass failed.", "bus", failing)
    still_open = requests.exclude(progress__in=[Progress.DONE, Progress.ELSEWHERE])
    counts = still_open.values_list("progress").annotate(Count("pk"))
    yield labelled("assent_bus_requests", "Open requests of git buses.", "progress", counts)
    stuck = requests.stuck().count()
    yield single("assent_bus_stuck_claims", "Claims of others that are too old.", stuck)


def elsewhere(tenants: Tenants) -> Iterator[Metric]:
    servers = within(McpUpstream.objects.all(), tenants).values_list(
        "tenant", "name", "watched__error"
    )
    pinned = RegisteredTool.objects.filter(is_withdrawn=False).exclude(watched=None)
    tools = within(pinned, tenants).values_list("tenant", "name", "watched__error")
    for kind, label, rows in (("mcp_server", "server", servers), ("http_tool", "tool", tools)):
        failing = [(f"{tenant}/{name}", bool(why)) for tenant, name, why in rows]
        yield labelled(f"assent_{kind}_failing", "1: its last reading failed.", label, failing)


def calls(tenants: Tenants) -> Iterator[Metric]:
    late: dict[tuple[tuple[str, str], ...], float] = {}
    for each in late_calls(tenants):
        for state, number in (("at_work", each.at_work), ("waiting", each.waiting)):
            late[("state", state), ("tool", f"{each.tenant}/{each.tool}")] = number
    yield Metric("assent_late_calls", "Calls signed off over 10 s ago, by tool.", late)
    silences = within(silent_addresses.silences(), tenants)
    yield Metric(
        "assent_silent_addresses",
        "Time-outs in a row of what is called once at a time.",
        {
            (("address", f"{row.tenant}/{row.address}"), ("calls", row.calls)): float(row.timeouts)
            for row in silences
        },
    )


def retention(tenants: Tenants) -> Iterator[Metric]:
    due = [transaction_retention.due(), task_retention.due()]
    held = [model.objects.filter(legal_hold_at__isnull=False) for model in (Transaction, Task)]
    counts = [
        (state, sum(within(rows, tenants).count() for rows in querysets))
        for state, querysets in (("due", due), ("held", held))
    ]
    yield labelled("assent_retention", "Content to erase, or held.", "state", counts)


def limits(tenants: Tenants) -> Iterator[Metric]:
    refused = within(LimitRefusal.objects.filter(minute__gte=Now() - WINDOW), tenants)
    rows = refused.values_list("limit", "of", "tenant").annotate(Sum("number"))
    yield Metric(
        "assent_limit_refusals_recent",
        "Requests that a limit refused, last 5 minutes.",
        {
            (("limit", limit), ("of", of), ("tenant", tenant)): float(number)
            for limit, of, tenant, number in rows.order_by("-number__sum")[:MOST_REFUSALS]
        },
    )
