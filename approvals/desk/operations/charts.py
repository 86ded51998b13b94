"""People's decisions of the last day by hour, and the time that they took."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Count, Q
from django.db.models.functions import TruncHour
from django.utils import timezone

from a2a.states import TaskEventKind
from ledger.models import Event, Transaction
from ledger.states import EventKind, State

HOURS, HOUR = 24, timedelta(hours=1)
MOST_TIMED = 2_000  # decisions
# The order in which they are stacked, from below.
KINDS = {
    EventKind.APPROVED: "approved",
    EventKind.REJECTED: "rejected",
    EventKind.EXPIRED: "expired",
    TaskEventKind.ANSWERED: "answered",
}
# With the withdrawals of approvals, which are taken off.
_COUNTS = Q(kind__in=list(KINDS)) | Q(kind=EventKind.APPROVAL_WITHDRAWN, from_state=State.APPROVED)
WIDTH, HEIGHT, LEFT, STEP, BAR = 600, 120, 30, 23, 17


@dataclass(frozen=True, slots=True)
class Hour:
    at: datetime
    numbers: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.numbers.values())


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a bar, in units of the drawing."""

    kind: str
    number: int
    x: int
    y: int
    height: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars for an SVG of ``WIDTH`` by ``HEIGHT``; ``marks`` has the hours to write below them."""

    most: int
    blocks: list[Block]
    marks: list[tuple[int, datetime]] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)


def decisions_by_hour(tenants: frozenset[str]) -> list[Hour]:
    """The last 24 hours, the present one last; each with its decisions and answers by kind."""
    first = timezone.localtime().replace(minute=0, second=0, microsecond=0) - (HOURS - 1) * HOUR
    counted: dict[datetime, dict[str, int]] = defaultdict(dict)
    rows = (
        Event.objects.filter(_COUNTS, tenant__in=tenants, at__gte=first)
        .order_by()
        .annotate(hour=TruncHour("at"))
        .values_list("hour", "kind")
        .annotate(number=Count("pk"))
    )
    for hour, kind, number in rows:
        name, sign = (KINDS[kind], 1) if kind in KINDS else ("approved", -1)
        counted[hour][name] = counted[hour].get(name, 0) + sign * number
    return [Hour(at, counted.get(at, {})) for at in (first + n * HOUR for n in range(HOURS))]


def stacked(hours: list[Hour]) -> Chart:
    """The bars of the hours, the highest as high as the drawing."""
    most = max((hour.total for hour in hours), default=0)
    blocks = []
    for place, hour in enumerate(hours):
        y = HEIGHT
        for kind in KINDS.values():
            number = max(0, hour.numbers.get(kind, 0))
            height = round(HEIGHT * number / most) if most else 0
            y -= height
            if number:
                blocks.append(Block(kind, number, LEFT + place * STEP, y, max(1, height), hour.at))
    marks = [
        (LEFT + place * STEP, hour.at) for place, hour in enumerate(hours) if hour.at.hour % 6 == 0
    ]
    totals = {kind: sum(hour.numbers.get(kind, 0) for hour in hours) for kind in KINDS.values()}
    return Chart(most, blocks, marks, totals)


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds to a decision: half took at most ``median``, nine in ten at most ``most``."""

    number: int
    median: float
    most: float


def time_to_decide(tenants: frozenset[str]) -> Waits | None:
    """The time that people took in the last 24 hours; ``None`` if they decided nothing."""
    decided = Event.objects.filter(
        tenant__in=tenants,
        at__gte=timezone.now() - HOURS * HOUR,
        kind__in=[EventKind.APPROVED, EventKind.REJECTED],
    )
    subjects = list(decided.order_by("-at").values_list("subject", flat=True)[:MOST_TIMED])
    rows = Transaction.objects.filter(pk__in=subjects, decided_at__isnull=False)
    seconds = sorted(
        (until - since).total_seconds()
        for since, until in rows.values_list("created_at", "decided_at")
        if until is not None
    )
    if not seconds:
        return None
    place = min(len(seconds) - 1, int(len(seconds) * 0.9))
    return Waits(len(seconds), statistics.median(seconds), seconds[place])
