"""Tells if what an agent asks for is usual: figures of the last 30 days beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal

from django.db.models import Sum
from django.utils import timezone

from ledger.models import Event, Transaction, UsageDay
from ledger.reporting.usage import buckets, subjects
from ledger.reporting.usage.counting import counted_upto
from ledger.states import EventKind

DAYS = 30
ENOUGH = 5  # amounts that make a range
OFTEN = 3  # times of one subject
BURST, BURST_AT_LEAST = 3, 10  # times the usual number of a day; requests


@dataclass(frozen=True, slots=True)
class Range:
    """Between what amounts eight of ten approved ones lie, to two digits."""

    low: Decimal
    high: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class Usual:
    """Requests of one agent for one tool lately, and how this request compares."""

    asked: int
    approved: int
    rejected: int
    today: int
    subject: str = ""
    times: int = 0  # of the subject, this one included
    is_more: bool = False  # at least so many times
    amounts: Range | None = None
    is_beyond: bool = False

    @property
    def is_first_of_agent(self) -> bool:
        return self.asked <= 1

    @property
    def is_first_of_subject(self) -> bool:
        return bool(self.subject) and self.times == 1

    @property
    def is_often(self) -> bool:
        return self.times >= OFTEN

    @property
    def is_burst(self) -> bool:
        """True if the agent asks far more often today than on other days."""
        before = (self.asked - self.today) / (DAYS - 1)
        return self.today >= BURST_AT_LEAST and self.today > BURST * max(before, 1)

    @property
    def is_unusual(self) -> bool:
        """True if an approver should look twice."""
        is_new = self.is_first_of_agent or self.is_first_of_subject
        return is_new or self.is_often or self.is_beyond or self.is_burst


def usual_of(row: Transaction) -> Usual:
    """The figures of the agent, tool and subject of this row, in its tenant."""
    asked, today = _since(row.tool, row.proposed_by, row.tenant)
    itself = 0 if _is_counted(row) else 1
    others = subjects.lately_of(row)
    amounts = _range(asked.sizes.get(row.currency, Counter()), row.currency)
    return Usual(
        asked=asked.kinds[EventKind.PREPARED] + itself,
        approved=asked.kinds[EventKind.APPROVED],
        rejected=asked.kinds[EventKind.REJECTED],
        today=today + itself,
        subject=subjects.subject_of(row),
        times=len(others) + 1,
        is_more=len(others) == subjects.MOST,
        amounts=amounts,
        is_beyond=amounts is not None and row.amount is not None and row.amount > amounts.high,
    )


def _is_counted(row: Transaction) -> bool:
    """True if the figures hold this request; the sweeper counts a little later."""
    entered = Event.objects.filter(transaction=row.pk, kind=EventKind.PREPARED)
    return entered.filter(pk__lte=counted_upto()).exists()


def _range(sizes: Counter[int], currency: str) -> Range | None:
    """The range from the tenth to the ninetieth percent of what was approved."""
    low, high = buckets.quantile(sizes, 0.1), buckets.quantile(sizes, 0.9)
    if low is None or high is None or sum(sizes.values()) < ENOUGH:
        return None
    return Range(
        buckets.rounded_down(buckets.size_begins(low)),
        buckets.rounded_up(buckets.size_ends(high)),
        currency,
    )


# --- of tools ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Lately:
    """Counts of the last ``DAYS`` days: by kind of event, and of amounts by currency and size."""

    kinds: Counter[str] = field(default_factory=Counter)
    sizes: dict[str, Counter[int]] = field(default_factory=dict)

    @property
    def asked(self) -> int:
        return self.kinds[EventKind.PREPARED]

    @property
    def approved(self) -> int:
        return self.kinds[EventKind.APPROVED]

    @property
    def rejected(self) -> int:
        return self.kinds[EventKind.REJECTED]

    @property
    def expired(self) -> int:
        return self.kinds[EventKind.EXPIRED]

    @property
    def failed(self) -> int:
        return self.kinds[EventKind.FAILED]

    @property
    def ranges(self) -> list[Range]:
        """The usual amounts, of the currency that is used most first."""
        most = sorted(self.sizes.items(), key=lambda pair: -pair[1].total())
        ranges = (_range(sizes, currency) for currency, sizes in most)
        return [each for each in ranges if each is not None]

    def add(self, kind: str, currency: str, size: int, number: int) -> None:
        self.kinds[kind] += number
        if currency:
            self.sizes.setdefault(currency, Counter())[size] += number


def usage_of_tools(tenants: Iterable[str]) -> dict[str, Lately]:
    """The counts of each tool in these tenants."""
    rows = UsageDay.objects.filter(tenant__in=list(tenants), day__gt=_first_day())
    tools: dict[str, Lately] = {}
    sums = rows.values_list("tool", "kind", "currency", "size").annotate(Sum("number"))
    for tool, *counts in sums.order_by():
        tools.setdefault(tool, Lately()).add(*counts)
    return tools


def _since(tool: str, agent: str, tenant: str) -> tuple[Lately, int]:
    """The counts of one agent and tool, and how often it asked today (UTC)."""
    rows = UsageDay.objects.filter(tenant=tenant, tool=tool, agent=agent, day__gt=_first_day())
    lately, asked_today = Lately(), 0
    for day, kind, currency, size, number in rows.values_list(
        "day", "kind", "currency", "size", "number"
    ):
        lately.add(kind, currency, size, number)
        asked_today += number if (day, kind) == (_today(), EventKind.PREPARED) else 0
    return lately, asked_today


def _first_day() -> date:
    """The day before the first that counts."""
    return _today() - timedelta(days=DAYS)


def _today() -> date:
    """Days are counted in UTC, wherever the reader is."""
    return timezone.now().astimezone(timezone.get_fixed_timezone(0)).date()
