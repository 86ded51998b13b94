"""The inbox: one query for the list, the badge and the tab title."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet

from a2a.models import Question, QuestionQuerySet
from approvals.desk.inbox import fair_share
from approvals.desk.inbox.aside import is_aside
from approvals.desk.inbox.fair_share import MOST_ROWS, More, Share
from approvals.desk.viewers import (
    BROKEN,
    FOR_OPERATORS,
    MINE,
    Viewer,
    can_answer,
    can_decide,
    can_settle,
    ranked,
    ranked_questions,
)
from ledger.contracts import tools
from ledger.foundation.characters import without_nul
from ledger.models import NEEDS_A_LOOK, Transaction, TransactionQuerySet
from ledger.reporting import search
from ledger.states import OPEN, State
from ledger.transactions import STUCK_AFTER

PAGE = 50  # rows; the others come while one scrolls
# In these states a transaction waits for ever if no worker has its tool.
NEED_THE_TOOL = [State.APPROVED, State.ROLLING_BACK, State.COMPENSATING]


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters in the URL of the list."""

    q: str = ""
    tool: str = ""
    risk: str = ""
    agent: str = ""  # a principal
    aside: str = ""  # set: what the viewer has set aside, and nothing else

    @property
    def is_set(self) -> bool:
        return bool(self.q or self.tool or self.risk or self.agent or self.aside)


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the list: a transaction, or the open question of a task."""

    rank: int  # of ``viewers``
    tx: Transaction | None = None
    question: Question | None = None
    is_waiting: bool = True
    place: int = 1  # among the rows of its agent, the most urgent first
    now: datetime | None = None

    @property
    def row(self) -> Transaction | Question:
        row = self.tx or self.question
        assert row is not None
        return row

    @property
    def group(self) -> str:
        return group_of(self.rank)

    @property
    def expires_at(self) -> datetime:
        return self.row.expires_at

    @property
    def order(self) -> str:
        """Texts that sort as the rows of the list do, also in a browser."""
        return str(Key(self.rank, self.expires_at, self.row.pk))

    @property
    def is_lapsed(self) -> bool:
        """Its time is up, and the sweeper has not been there yet."""
        waits = self.question is not None or self.rank not in {BROKEN, FOR_OPERATORS}
        return waits and self.now is not None and self.expires_at <= self.now


class Key(NamedTuple):
    """The place of a row on the list."""

    rank: int
    expires_at: datetime
    pk: UUID

    def __str__(self) -> str:
        return f"{self.rank}-{self.expires_at.timestamp():017.6f}-{self.pk}"


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of the list, most urgent first.

    ``more`` is what agents have beyond their share of the list; ``total`` the rows of each group,
    also those of further pages.
    """

    entries: list[Entry]
    more: list[More]
    total: dict[str, int] = field(default_factory=dict)
    next: str = ""  # where the next page begins; empty at the end


@dataclass(frozen=True, slots=True)
class Changed:
    """Rows that changed, as they are now. ``has_hidden``: some wait beyond their agent's share."""

    entries: list[Entry]
    has_hidden: bool


@dataclass(slots=True)
class Group:
    key: str
    total: int
    rows: list[Entry] = field(default_factory=list)

    @property
    def rest(self) -> int:
        """The number of its rows that are on further pages."""
        return max(0, self.total - len(self.rows))


GROUPS = ("mine", "others", "doubt")
# The value of the tool filter that lists questions and no transactions.
ONLY_QUESTIONS = "questions"


def open_rows(tenants: frozenset[str]) -> TransactionQuerySet:
    """Transactions that have not ended, or that ended with a late receipt nobody has settled."""
    # The same condition as the partial index has, or PostgreSQL would not use it.
    return Transaction.objects.for_tenants(tenants).filter(Q(state__in=sorted(OPEN)) | NEEDS_A_LOOK)


def needs_somebody(tenants: frozenset[str]) -> TransactionQuerySet:
    """Transactions that a person has to decide, settle or repair."""
    stuck = Q(state__in=[State.ROLLING_BACK, State.COMPENSATING], attempts__gte=STUCK_AFTER)
    has_no_worker = Q(state__in=NEED_THE_TOOL) & ~Q(tool__in=sorted(tools))
    return open_rows(tenants).filter(
        Q(state__in=[State.PREPARED, State.IN_DOUBT]) | stuck | has_no_worker | NEEDS_A_LOOK
    )


def matching(rows: TransactionQuerySet, filters: Filters) -> TransactionQuerySet:
    """The rows that match the filters; each word of the search has to occur in the row."""
    if filters.tool:
        rows = rows.filter(tool=filters.tool)
    if filters.risk:
        rows = rows.filter(risk_level=filters.risk)
    if filters.agent:
        rows = rows.filter(proposed_by=without_nul(filters.agent))
    for word in without_nul(filters.q).split()[:8]:
        rows = rows.filter(search.contains(word))
    return rows


def listed(viewer: Viewer, filters: Filters) -> TransactionQuerySet:
    """The transactions of the viewer's list, with their ranks."""
    aside = is_aside(viewer.principal)
    rows = needs_somebody(viewer.tenants).filter(aside if filters.aside else ~aside)
    rows = matching(ranked(rows, viewer), filters)
    return rows.none() if filters.tool == ONLY_QUESTIONS else rows


def questions(tenants: frozenset[str]) -> QuestionQuerySet:
    """Open questions of agents to people."""
    return Question.objects.for_tenants(tenants).waiting().select_related("task")


def count(viewer: Viewer) -> int:
    """The number that waits for this person to decide, settle or answer."""
    rows = needs_somebody(viewer.tenants).filter(
        Q(can_decide(viewer)) | (~Q(state=State.PREPARED) & can_settle(viewer)),
        ~is_aside(viewer.principal),
    )
    return rows.count() + questions(viewer.tenants).filter(can_answer(viewer)).count()


def count_all(viewer: Viewer) -> int:
    """All rows of the unfiltered list, also those that wait for others."""
    rows = needs_somebody(viewer.tenants).exclude(is_aside(viewer.principal))
    return rows.count() + questions(viewer.tenants).count()


def matching_questions(rows: QuestionQuerySet, filters: Filters) -> QuestionQuerySet:
    if filters.risk or filters.aside or filters.tool not in {"", ONLY_QUESTIONS}:
        return rows.none()
    if filters.agent:
        rows = rows.filter(asked_by=without_nul(filters.agent))
    for word in without_nul(filters.q).split()[:8]:
        rows = rows.filter(
            Q(text__icontains=word)
            | Q(asked_by_name__icontains=word)
            | Q(task__skill_slug__icontains=word)
            | Q(task__trace_id=word)
        )
    return rows


def waiting(
    viewer: Viewer, filters: Filters, now: datetime, *, after: str = "", most: int = MOST_ROWS
) -> Listing:
    """The rows of the list behind ``after``, at most ``most``; no agent pushes another's off it."""
    shares = _shares(viewer, filters)
    keys = sorted(Key(*key) for share in shares for key in share.keys)
    total = Counter(group_of(key.rank) for key in keys)
    behind = [key for key in keys if not after or str(key) > after]
    page = behind[:most]
    entries = [*_transactions(page, shares[0], now), *_questions(page, shares[1], now)]
    return Listing(
        sorted(entries, key=lambda entry: entry.order),
        [more for share in shares for more in share.more],
        dict(total),
        str(page[-1]) if len(behind) > most else "",
    )


def _shares(viewer: Viewer, filters: Filters) -> tuple[Share, Share]:
    """Of transactions, and of questions."""
    asked = matching_questions(ranked_questions(questions(viewer.tenants), viewer), filters)
    return (
        fair_share.shared(listed(viewer, filters), agent="proposed_by", kind="transaction"),
        fair_share.shared(asked, agent="asked_by", kind="question"),
    )


def _transactions(page: list[Key], share: Share, now: datetime) -> Iterator[Entry]:
    ranks = {key.pk: key.rank for key in page if key.pk in share.places}
    for row in Transaction.objects.filter(pk__in=ranks).prefetch_related("decisions"):
        yield Entry(ranks[row.pk], tx=row, place=share.places[row.pk], now=now)


def _questions(page: list[Key], share: Share, now: datetime) -> Iterator[Entry]:
    ranks = {key.pk: key.rank for key in page if key.pk in share.places}
    for row in Question.objects.filter(pk__in=ranks).select_related("task"):
        yield Entry(ranks[row.pk], question=row, place=share.places[row.pk], now=now)


def group_of(rank: int) -> str:
    if rank in MINE:
        return "mine"
    return "doubt" if rank == FOR_OPERATORS else "others"


def grouped(listing: Listing, for_viewer: int = 0) -> list[Group]:
    """All groups in their order on the page, also the empty ones, which the page hides.

    ``for_viewer`` is the number that waits for them in all, also beyond the list.
    """
    groups = {key: Group(key, listing.total.get(key, 0)) for key in GROUPS}
    groups["mine"].total = max(groups["mine"].total, for_viewer)
    for entry in listing.entries:
        groups[entry.group].rows.append(entry)
    return list(groups.values())


def changed(ids: list[UUID], viewer: Viewer, filters: Filters, now: datetime) -> Changed:
    """The current rows of these transactions and tasks, but for those beyond their agent's share.

    ``is_waiting`` tells whether the filtered list still has a row.
    """
    parts = [
        _changed_transactions(ids, viewer, filters, now),
        _changed_questions(ids, viewer, filters, now),
    ]
    return Changed(
        [entry for part in parts for entry in part.entries], any(part.has_hidden for part in parts)
    )


def _changed_transactions(
    ids: list[UUID], viewer: Viewer, filters: Filters, now: datetime
) -> Changed:
    rows = list(
        ranked(
            Transaction.objects.for_tenants(viewer.tenants).filter(pk__in=ids), viewer
        ).prefetch_related("decisions", "events")
    )
    own = listed(viewer, filters)
    waiting_ids = set(own.filter(pk__in=ids).values_list("pk", flat=True))
    hidden = _hidden([row for row in rows if row.pk in waiting_ids], own, filters, "proposed_by")
    entries = [
        Entry(_rank(row), tx=row, is_waiting=row.pk in waiting_ids, now=now)
        for row in rows
        if row.pk not in hidden
    ]
    return Changed(entries, bool(hidden))


def _changed_questions(ids: list[UUID], viewer: Viewer, filters: Filters, now: datetime) -> Changed:
    of_tasks = ranked_questions(
        Question.objects.for_tenants(viewer.tenants).filter(task__in=ids), viewer
    ).select_related("task")
    # One row for each task: its newest question.
    newest = list(of_tasks.order_by("task_id", "-pk").distinct("task_id"))
    listed = matching_questions(ranked_questions(questions(viewer.tenants), viewer), filters)
    keys = [question.pk for question in newest]
    waiting_ids = set(listed.filter(pk__in=keys).values_list("pk", flat=True))
    hidden = _hidden([row for row in newest if row.pk in waiting_ids], listed, filters, "asked_by")
    entries = [
        Entry(_rank(row), question=row, is_waiting=row.pk in waiting_ids, now=now)
        for row in newest
        if row.pk not in hidden
    ]
    return Changed(entries, bool(hidden))


def _rank(row: Any) -> int:
    """As ``ranked`` annotated it."""
    return int(row.rank)


def _hidden(rows: list[Any], listed: QuerySet[Any], filters: Filters, agent: str) -> set[UUID]:
    """Those that wait beyond their agent's share; an agent by itself has the whole list."""
    return set() if filters.agent else fair_share.beyond_share(listed, rows, agent=agent)
