"""Figures of the last days, from the counts alone: the ledger itself is not read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Count, Sum

from ledger.models import Review, ReviewVerdict, UsageDay
from ledger.reporting.usage import buckets
from ledger.reporting.usage.counting import FOLLOWED, NOT_FOLLOWED, OUTCOMES, QUICK
from ledger.states import EventKind

# An approver's word, whether or not others had to follow.
APPROVALS = (EventKind.APPROVED, EventKind.APPROVAL_RECORDED)


def _counters() -> dict[str, Counter[str]]:
    return defaultdict(Counter)


@dataclass(slots=True)
class Times:
    """Outcomes of requests, by day and hour of the reader's time zone and by tool."""

    by_day: dict[date, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    by_hour: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    by_tool: dict[str, Counter[str]] = field(default_factory=_counters)
    # How long people took, by hour of the day.
    waits: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    @property
    def outcomes(self) -> Counter[str]:
        return sum(self.by_tool.values(), Counter())

    @property
    def all_waits(self) -> Counter[int]:
        return sum(self.waits.values(), Counter())


@dataclass(slots=True)
class Pair:
    """Decisions of one person or agent for one agent, and an agent's advice on others."""

    agent: str
    decider: str
    kinds: Counter[str] = field(default_factory=Counter)
    waits: Counter[int] = field(default_factory=Counter)

    # On what people decided by hand: FOLLOWED, or NOT_FOLLOWED.
    advice: Counter[str] = field(default_factory=Counter)
    quick_approvals: int = 0  # within three seconds of opening the item

    @property
    def decided(self) -> int:
        return self.kinds.total()

    @property
    def approvals(self) -> int:
        return sum(self.kinds[kind] for kind in APPROVALS)


@dataclass(frozen=True, slots=True)
class Reviewed:
    """Verdicts of people on one supervisor's decisions."""

    agent: str
    agreed: int
    otherwise: int


def since(days: int, zone: ZoneInfo, now: datetime) -> datetime:
    """The midnight with which the last ``days`` days begin, today included."""
    first = now.astimezone(zone).date() - timedelta(days=days - 1)
    return datetime(first.year, first.month, first.day, tzinfo=zone)


def times(tenants: Iterable[str], begin: datetime, zone: ZoneInfo) -> Times:
    """The counts of each hour since ``begin``, in one pass."""
    counts = Times()
    rows = _run(_TIMES, list(tenants), begin, zone.key, zone.key)
    for day, hour, tool, kind, wait, number in rows:
        if day is not None:
            counts.by_day[day][kind] += int(number)
        elif tool:
            counts.by_tool[tool][kind] += int(number)
        elif wait not in {None, buckets.NONE}:
            counts.waits[hour][wait] += int(number)
        elif kind is not None and hour is not None:
            counts.by_hour[hour][kind] += int(number)
    return counts


# The reader's day and hour are computed once for each hour, not for each row.
_TIMES = """
    WITH counted AS MATERIALIZED (
        SELECT hour, tool, kind, wait, number FROM ledger_usagehour
        WHERE tenant = ANY(%s) AND hour >= %s
    ), local AS MATERIALIZED (
        SELECT hour, (hour AT TIME ZONE %s)::date AS day,
               date_part('hour', hour AT TIME ZONE %s)::int AS hod
        FROM (SELECT DISTINCT hour FROM counted) hours
    )
    SELECT day, hod, tool, kind, wait, sum(number) FROM counted JOIN local USING (hour)
    GROUP BY GROUPING SETS ((day, kind), (hod, kind), (tool, kind), (hod, wait))
"""


def pairs(tenants: Iterable[str], begin: datetime) -> list[Pair]:
    """Pairs of who decided for whom since that day (UTC), those that decided most first."""
    pairs_by_names: dict[tuple[str, str], Pair] = {}
    rows = _run(_PAIRS, list(tenants), begin.astimezone(UTC).date())
    for agent, decider, kind, wait, number in rows:
        pair = pairs_by_names.setdefault((agent, decider), Pair(agent, decider))
        if kind == QUICK:
            pair.quick_approvals += int(number)
            continue
        if kind in {FOLLOWED, NOT_FOLLOWED}:
            pair.advice[kind] += int(number)
            continue
        pair.kinds[kind] += int(number)
        pair.waits[wait] += int(number)
    return sorted(
        pairs_by_names.values(), key=lambda pair: (-pair.decided, pair.agent, pair.decider)
    )


_PAIRS = """
    SELECT agent, decider, kind, wait, sum(number) FROM ledger_usagedecider
    WHERE tenant = ANY(%s) AND day >= %s GROUP BY agent, decider, kind, wait
"""


def agents(tenants: Iterable[str], begin: datetime) -> dict[str, Counter[str]]:
    """Outcomes of the requests of each agent since that day (UTC)."""
    rows = UsageDay.objects.filter(
        tenant__in=list(tenants), day__gte=begin.astimezone(UTC).date()
    ).order_by()
    outcomes: dict[str, Counter[str]] = _counters()
    for agent, kind, number in rows.values_list("agent", "kind").annotate(Sum("number")):
        outcomes[agent][kind] += number
    return outcomes


def reviewed(tenants: Iterable[str], begin: datetime) -> list[Reviewed]:
    """Verdicts of people since then on the sampled decisions of each supervisor."""
    rows = Review.objects.filter(
        tenant__in=list(tenants), verdict__in=ReviewVerdict.values, at__gte=begin
    ).order_by()
    counts: dict[str, Counter[str]] = _counters()
    for agent, verdict, number in rows.values_list("agent", "verdict").annotate(Count("pk")):
        counts[agent][verdict] += number
    return [
        Reviewed(agent, counts[agent]["agree"], counts[agent]["otherwise"])
        for agent in sorted(counts)
    ]


def decided(counts: Counter[str]) -> int:
    """Number that were approved, rejected, let expire or canceled."""
    return sum(counts[kind] for kind in OUTCOMES)


def expired_share(counts: Counter[str]) -> float:
    """Of those, the share that expired."""
    return counts[EventKind.EXPIRED] / decided(counts) if decided(counts) else 0.0


def _run(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
