"""Tells if what an agent asks for is usual: figures of the 30 days before beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, timedelta
from decimal import Decimal

from django.db.models import Sum
from django.utils import timezone

from ledger.models import Event, Transaction, UsageDay
from ledger.reporting.usage import buckets, subjects
from ledger.reporting.usage.bursts import Burst, Hours, burst_at
from ledger.reporting.usage.counting import counted_upto
from ledger.reporting.usage.slips import Slip, slip_of
from ledger.states import EventKind

DAYS = 30
ENOUGH = 5  # amounts that make a range
DECIDED = 20  # requests after which it is known which subjects an agent asks for


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
    subject: str = ""
    times: int = 0  # of the subject, this one included
    is_more: bool = False  # at least so many times
    is_new_subject: bool = False  # where subjects recur
    amounts: Range | None = None
    is_beyond: bool = False
    burst: Burst | None = None
    slip: Slip | None = None

    @property
    def is_first_of_agent(self) -> bool:
        return self.asked <= 1

    @property
    def is_unusual(self) -> bool:
        """True if an approver should look twice."""
        is_off = self.is_beyond or self.is_new_subject
        return is_off or self.burst is not None or self.slip is not None


def usual_of(row: Transaction) -> Usual:
    """The figures of the agent, tool and subject of this row, in its tenant."""
    lately = _until(row)
    itself = 0 if _is_counted(row) else 1
    others = subjects.lately_of(row)
    sizes = lately.sizes.get(row.currency, Counter())
    return Usual(
        asked=lately.asked + itself,
        approved=lately.approved,
        rejected=lately.rejected,
        subject=subjects.subject_of(row),
        times=len(others) + 1,
        is_more=len(others) == subjects.MOST,
        is_new_subject=not others and _stands_out_if_new(row, lately),
        amounts=_range(sizes, row.currency),
        is_beyond=_is_beyond(sizes, row.amount),
        burst=burst_at(lately.hours, row.created_at, itself),
        slip=slip_of(row),
    )


def _stands_out_if_new(row: Transaction, lately: Lately) -> bool:
    is_known = lately.approved + lately.rejected >= DECIDED
    return is_known and bool(subjects.subject_of(row)) and subjects.do_recur(row)


def _is_beyond(sizes: Counter[int], amount: Decimal | None) -> bool:
    limit = buckets.upper_limit(sizes)
    return limit is not None and amount is not None and amount > limit


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
    hours: dict[date, Hours] = field(default_factory=dict)  # of requests, by day (UTC)

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
    # Days are counted in UTC, wherever the reader is.
    before = timezone.now().astimezone(UTC).date() - timedelta(days=DAYS)
    rows = UsageDay.objects.filter(tenant__in=list(tenants), day__gt=before)
    tools: dict[str, Lately] = {}
    sums = rows.values_list("tool", "kind", "currency", "size").annotate(Sum("number"))
    for tool, *counts in sums.order_by():
        tools.setdefault(tool, Lately()).add(*counts)
    return tools


def _until(row: Transaction) -> Lately:
    """The counts of its agent and tool, up to the day of the row itself."""
    last = row.created_at.astimezone(UTC).date()
    rows = UsageDay.objects.filter(
        tenant=row.tenant,
        tool=row.tool,
        agent=row.proposed_by,
        day__gt=last - timedelta(days=DAYS),
        day__lte=last,
    )
    lately = Lately()
    columns = ("day", "hours", "kind", "currency", "size", "number")
    for day, hours, kind, currency, size, number in rows.values_list(*columns):
        lately.add(kind, currency, size, number)
        if hours:
            lately.hours[day] = hours
    return lately
