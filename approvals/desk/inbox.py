"""The inbox: one query for the list, the badge and the tab title."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from a2a.models import Question, QuestionQuerySet
from approvals.desk import fair_share
from approvals.desk.fair_share import More
from ledger import search
from ledger.characters import without_nul
from ledger.contracts import tools
from ledger.models import NEEDS_A_LOOK, Transaction, TransactionQuerySet
from ledger.states import AT_WORK, FINAL, OPEN, State
from ledger.transactions.settlements import STUCK_AFTER

SOON = timedelta(minutes=5)
# In these states a transaction waits for ever if no worker has its tool.
NEED_THE_TOOL = [State.APPROVED, State.ROLLING_BACK, State.COMPENSATING]


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters in the URL of the list."""

    q: str = ""
    tool: str = ""
    risk: str = ""
    agent: str = ""  # a principal

    @property
    def is_set(self) -> bool:
        return bool(self.q or self.tool or self.risk or self.agent)


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the list: a transaction, or the open question of a task."""

    group: str
    tx: Transaction | None = None
    question: Question | None = None
    is_waiting: bool = True
    place: int = 1  # among the rows of its agent, the most urgent first

    @property
    def expires_at(self) -> datetime:
        row = self.tx or self.question
        assert row is not None
        return row.expires_at


@dataclass(frozen=True, slots=True)
class Listing:
    """The rows of the list, most urgent first, and what agents have beyond their share of it."""

    entries: list[Entry]
    more: list[More]


@dataclass(frozen=True, slots=True)
class Changed:
    """Rows that changed, as they are now. ``has_hidden``: some wait beyond their agent's share."""

    entries: list[Entry]
    has_hidden: bool


@dataclass(slots=True)
class Group:
    key: str
    title: str
    rows: list[Entry] = field(default_factory=list)


GROUPS = {
    "doubt": "In doubt",
    "stuck": "Stuck",
    "soon": "Expiring soon",
    "waiting": "Waiting",
    "questions": "Questions",
}
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


def questions(tenants: frozenset[str]) -> QuestionQuerySet:
    """Open questions of agents to people."""
    return Question.objects.for_tenants(tenants).waiting().select_related("task")


def count(tenants: frozenset[str]) -> int:
    """The number in the badge and the tab title: all rows of the unfiltered list."""
    return needs_somebody(tenants).count() + questions(tenants).count()


def matching_questions(rows: QuestionQuerySet, filters: Filters) -> QuestionQuerySet:
    if filters.risk or filters.tool not in {"", ONLY_QUESTIONS}:
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


def waiting(tenants: frozenset[str], filters: Filters, now: datetime) -> Listing:
    """The rows of the list, most urgent first; no agent pushes another's off it."""
    listings = [_questions_waiting(tenants, filters, now)]
    if filters.tool != ONLY_QUESTIONS:
        listings.append(_transactions_waiting(tenants, filters, now))
    entries = [entry for listing in listings for entry in listing.entries]
    return Listing(
        sorted(entries, key=lambda entry: entry.expires_at),
        [more for listing in listings for more in listing.more],
    )


def _transactions_waiting(tenants: frozenset[str], filters: Filters, now: datetime) -> Listing:
    rows = matching(needs_somebody(tenants), filters)
    share = fair_share.shared(rows, agent="proposed_by", kind="transaction")
    shown = Transaction.objects.filter(pk__in=share.places).prefetch_related("decisions")
    entries = [Entry(group_of(row, now), tx=row, place=share.places[row.pk]) for row in shown]
    return Listing(entries, share.more)


def _questions_waiting(tenants: frozenset[str], filters: Filters, now: datetime) -> Listing:
    rows = matching_questions(questions(tenants), filters)
    share = fair_share.shared(rows, agent="asked_by", kind="question")
    shown = Question.objects.filter(pk__in=share.places).select_related("task")
    entries = [
        Entry(group_of_question(row, now), question=row, place=share.places[row.pk])
        for row in shown
    ]
    return Listing(entries, share.more)


def group_of(row: Transaction, now: datetime) -> str:
    if row.state == State.IN_DOUBT or row.late_receipt:
        return "doubt"
    if row.state in AT_WORK or row.state in FINAL or row.state == State.APPROVED:
        return "stuck"
    return "soon" if row.expires_at - now <= SOON else "waiting"


def group_of_question(question: Question, now: datetime) -> str:
    return "soon" if question.expires_at - now <= SOON else "questions"


def grouped(rows: Iterable[Entry]) -> list[Group]:
    """All groups in their order on the page, also the empty ones, which the page hides."""
    groups = {key: Group(key, title) for key, title in GROUPS.items()}
    for entry in rows:
        groups[entry.group].rows.append(entry)
    return list(groups.values())


def changed(ids: list[UUID], tenants: frozenset[str], filters: Filters, now: datetime) -> Changed:
    """The current rows of these transactions and tasks, but for those beyond their agent's share.

    ``is_waiting`` tells whether the filtered list still has a row.
    """
    parts = [
        _changed_transactions(ids, tenants, filters, now),
        _changed_questions(ids, tenants, filters, now),
    ]
    return Changed(
        [entry for part in parts for entry in part.entries], any(part.has_hidden for part in parts)
    )


def _changed_transactions(
    ids: list[UUID], tenants: frozenset[str], filters: Filters, now: datetime
) -> Changed:
    rows = list(
        Transaction.objects.for_tenants(tenants)
        .filter(pk__in=ids)
        .prefetch_related("decisions", "events")
    )
    listed = matching(needs_somebody(tenants), filters)
    if filters.tool == ONLY_QUESTIONS:
        listed = listed.none()
    waiting_ids = set(listed.filter(pk__in=ids).values_list("pk", flat=True))
    hidden = _hidden([row for row in rows if row.pk in waiting_ids], listed, filters, "proposed_by")
    entries = [
        Entry(group_of(row, now), tx=row, is_waiting=row.pk in waiting_ids)
        for row in rows
        if row.pk not in hidden
    ]
    return Changed(entries, bool(hidden))


def _changed_questions(
    ids: list[UUID], tenants: frozenset[str], filters: Filters, now: datetime
) -> Changed:
    of_tasks = Question.objects.for_tenants(tenants).filter(task__in=ids).select_related("task")
    # One row for each task: its newest question.
    newest = list(of_tasks.order_by("task_id", "-pk").distinct("task_id"))
    listed = matching_questions(questions(tenants), filters)
    keys = [question.pk for question in newest]
    waiting_ids = set(listed.filter(pk__in=keys).values_list("pk", flat=True))
    hidden = _hidden([row for row in newest if row.pk in waiting_ids], listed, filters, "asked_by")
    entries = [
        Entry(group_of_question(row, now), question=row, is_waiting=row.pk in waiting_ids)
        for row in newest
        if row.pk not in hidden
    ]
    return Changed(entries, bool(hidden))


def _hidden(rows: list[Any], listed: QuerySet[Any], filters: Filters, agent: str) -> set[UUID]:
    """Those that wait beyond their agent's share; an agent by itself has the whole list."""
    return set() if filters.agent else fair_share.beyond_share(listed, rows, agent=agent)
