"""The inbox: one query for the list, the badge and the tab title."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q

from a2a.models import Question, QuestionQuerySet
from ledger.characters import without_nul
from ledger.contracts import tools
from ledger.models import NEEDS_A_LOOK, Transaction, TransactionQuerySet
from ledger.states import AT_WORK, FINAL, State
from ledger.transactions.settlements import STUCK_AFTER

SOON = timedelta(minutes=5)
MOST_ROWS = 500
# In these states a transaction waits for ever if no worker has its tool.
NEED_THE_TOOL = [State.APPROVED, State.ROLLING_BACK, State.COMPENSATING]


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters in the URL of the list."""

    q: str = ""
    tool: str = ""
    risk: str = ""

    @property
    def is_set(self) -> bool:
        return bool(self.q or self.tool or self.risk)


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the list: a transaction, or the open question of a task."""

    group: str
    tx: Transaction | None = None
    question: Question | None = None
    is_waiting: bool = True

    @property
    def expires_at(self) -> datetime:
        row = self.tx or self.question
        assert row is not None
        return row.expires_at


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
    return Transaction.objects.for_tenants(tenants).filter(
        ~Q(state__in=sorted(FINAL)) | NEEDS_A_LOOK
    )


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
    for word in without_nul(filters.q).split()[:8]:
        rows = rows.filter(_contains(word))
    return rows


def _contains(word: str) -> Q:
    condition = (
        Q(action_summary__icontains=word)
        | Q(proposed_by_name__icontains=word)
        | Q(operation_key__icontains=word)
        | Q(tool__icontains=word)
        | Q(receipt=word)
        | Q(trace_id=word)
    )
    if re.fullmatch(r"[0-9a-fA-F-]{6,36}", word):
        condition |= Q(id__icontains=word)
    return condition


def questions(tenants: frozenset[str]) -> QuestionQuerySet:
    """Open questions of agents to people."""
    return Question.objects.for_tenants(tenants).waiting().select_related("task")


def count(tenants: frozenset[str]) -> int:
    """The number in the badge and the tab title: all rows of the unfiltered list."""
    return needs_somebody(tenants).count() + questions(tenants).count()


def matching_questions(rows: QuestionQuerySet, filters: Filters) -> QuestionQuerySet:
    if filters.risk or filters.tool not in {"", ONLY_QUESTIONS}:
        return rows.none()
    for word in without_nul(filters.q).split()[:8]:
        rows = rows.filter(
            Q(text__icontains=word)
            | Q(asked_by_name__icontains=word)
            | Q(task__skill_slug__icontains=word)
            | Q(task__trace_id=word)
        )
    return rows


def waiting(tenants: frozenset[str], filters: Filters, now: datetime) -> list[Entry]:
    """The rows of the list, most urgent first."""
    entries: list[Entry] = []
    if filters.tool != ONLY_QUESTIONS:
        rows = matching(needs_somebody(tenants), filters)
        for row in rows.prefetch_related("decisions").order_by("expires_at")[:MOST_ROWS]:
            entries.append(Entry(group_of(row, now), tx=row))
    open_questions = matching_questions(questions(tenants), filters).order_by("expires_at")
    entries += [
        Entry(group_of_question(question, now), question=question)
        for question in open_questions[:MOST_ROWS]
    ]
    return sorted(entries, key=lambda entry: entry.expires_at)


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


def changed(
    ids: list[UUID], tenants: frozenset[str], filters: Filters, now: datetime
) -> list[Entry]:
    """The current rows of these transactions and tasks.

    ``is_waiting`` tells whether the filtered list still shows a row.
    """
    rows = Transaction.objects.for_tenants(tenants).filter(pk__in=ids)
    shown = set(
        matching(needs_somebody(tenants), filters).filter(pk__in=ids).values_list("pk", flat=True)
    )
    if filters.tool == ONLY_QUESTIONS:
        shown = set()
    entries = [
        Entry(group_of(row, now), tx=row, is_waiting=row.pk in shown)
        for row in rows.prefetch_related("decisions", "events")
    ]
    of_tasks = Question.objects.for_tenants(tenants).filter(task__in=ids).select_related("task")
    # One row for each task: its newest question.
    newest = list(of_tasks.order_by("task_id", "-pk").distinct("task_id"))
    listed = set(
        matching_questions(questions(tenants), filters)
        .filter(pk__in=[question.pk for question in newest])
        .values_list("pk", flat=True)
    )
    entries += [
        Entry(group_of_question(question, now), question=question, is_waiting=question.pk in listed)
        for question in newest
    ]
    return entries
