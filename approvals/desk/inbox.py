"""What waits for whom: one query behind the list, the badge and the tab title."""

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
# What waits for ever where no worker has the tool.
NEED_THE_TOOL = [State.APPROVED, State.ROLLING_BACK, State.COMPENSATING]


@dataclass(frozen=True, slots=True)
class Filters:
    """What the URL asks for."""

    q: str = ""
    tool: str = ""
    risk: str = ""

    @property
    def is_set(self) -> bool:
        return bool(self.q or self.tool or self.risk)


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the list: a transaction, or the question that a task waits with."""

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


GROUPS = (
    ("doubt", "In doubt"), ("stuck", "Stuck"), ("soon", "Expiring soon"), ("waiting", "Waiting"),
    ("questions", "Questions"),
)  # fmt: skip
# What the filter by tool says for the list's other half.
ONLY_QUESTIONS = "questions"


def open_rows(tenants: frozenset[str]) -> TransactionQuerySet:
    """Everything that has not ended, and what ended with a receipt that nobody has looked at."""
    # As the index says it, word for word.
    return Transaction.objects.for_tenants(tenants).filter(
        ~Q(state__in=sorted(FINAL)) | NEEDS_A_LOOK
    )


def needs_somebody(tenants: frozenset[str]) -> TransactionQuerySet:
    """What a person has to look at; its count is the badge and the tab title."""
    stuck = Q(state__in=[State.ROLLING_BACK, State.COMPENSATING], attempts__gte=STUCK_AFTER)
    nobody_can = Q(state__in=NEED_THE_TOOL) & ~Q(tool__in=sorted(tools))
    return open_rows(tenants).filter(
        Q(state__in=[State.PREPARED, State.IN_DOUBT]) | stuck | nobody_can | NEEDS_A_LOOK
    )


def matching(rows: TransactionQuerySet, filters: Filters) -> TransactionQuerySet:
    if filters.tool:
        rows = rows.filter(tool=filters.tool)
    if filters.risk:
        rows = rows.filter(risk_level=filters.risk)
    for word in without_nul(filters.q).split()[:8]:
        rows = rows.filter(_says(word))
    return rows


def _says(word: str) -> Q:
    anywhere = (
        Q(action_summary__icontains=word)
        | Q(proposed_by_name__icontains=word)
        | Q(operation_key__icontains=word)
        | Q(tool__icontains=word)
        | Q(receipt=word)
        | Q(trace_id=word)
    )
    if re.fullmatch(r"[0-9a-fA-F-]{6,36}", word):
        anywhere |= Q(id__icontains=word)
    return anywhere


def questions(tenants: frozenset[str]) -> QuestionQuerySet:
    """What agents wait for an answer to."""
    return Question.objects.for_tenants(tenants).waiting().select_related("task")


def count(tenants: frozenset[str]) -> int:
    """The badge and the tab title: as many as the list has rows."""
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
    found: list[Entry] = []
    if filters.tool != ONLY_QUESTIONS:
        rows = matching(needs_somebody(tenants), filters)
        for row in rows.prefetch_related("decisions").order_by("expires_at")[:MOST_ROWS]:
            found.append(Entry(group_of(row, now), tx=row))
    asked = matching_questions(questions(tenants), filters).order_by("expires_at")[:MOST_ROWS]
    found += [Entry(group_of_question(question, now), question=question) for question in asked]
    return sorted(found, key=lambda entry: entry.expires_at)


def group_of(row: Transaction, now: datetime) -> str:
    if row.state == State.IN_DOUBT or row.late_receipt:
        return "doubt"
    if row.state in AT_WORK or row.state in FINAL or row.state == State.APPROVED:
        return "stuck"
    return "soon" if row.expires_at - now <= SOON else "waiting"


def group_of_question(question: Question, now: datetime) -> str:
    return "soon" if question.expires_at - now <= SOON else "questions"


def grouped(rows: Iterable[Entry]) -> list[Group]:
    """In doubt first, then what is stuck, then by time left; an empty group is there, unseen."""
    found = {key: Group(key, title) for key, title in GROUPS}
    for entry in rows:
        found[entry.group].rows.append(entry)
    return list(found.values())


def changed(
    ids: list[UUID], tenants: frozenset[str], filters: Filters, now: datetime
) -> list[Entry]:
    """The rows of these subjects as they are now; ``is_waiting`` if the list still shows them."""
    rows = Transaction.objects.for_tenants(tenants).filter(pk__in=ids)
    shown = set(
        matching(needs_somebody(tenants), filters).filter(pk__in=ids).values_list("pk", flat=True)
    )
    if filters.tool == ONLY_QUESTIONS:
        shown = set()
    found = [
        Entry(group_of(row, now), tx=row, is_waiting=row.pk in shown)
        for row in rows.prefetch_related("decisions", "events")
    ]
    asked = Question.objects.for_tenants(tenants).filter(task__in=ids).select_related("task")
    # One row for each task: its newest question.
    newest = list(asked.order_by("task_id", "-pk").distinct("task_id"))
    listed = set(
        matching_questions(questions(tenants), filters)
        .filter(pk__in=[question.pk for question in newest])
        .values_list("pk", flat=True)
    )
    found += [
        Entry(group_of_question(question, now), question=question, is_waiting=question.pk in listed)
        for question in newest
    ]
    return found
