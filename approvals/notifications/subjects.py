"""Subjects of notifications, whom each concerns, and whether it still waits for a person."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from a2a.models import Question
from a2a.models.answerers import APPROVER, OPERATOR
from a2a.states import TaskEventKind
from approvals.desk import inbox, policies
from approvals.http.middleware import roles_of
from approvals.models import About, Membership, Role, SetAside
from approvals.people import principal_of
from ledger.contracts import RequiredApprover
from ledger.models import Event, Transaction
from ledger.principals import Principal
from ledger.states import EventKind, State

# People are told of these.
ASKS: dict[str, About] = {
    EventKind.PREPARED: About.DECISION,
    EventKind.PASSED_ON: About.DECISION,
    EventKind.ESCALATED: About.DECISION,
    EventKind.DEADLINE_MOVED: About.DECISION,
    EventKind.REVISED: About.DECISION,
    EventKind.ANSWERED: About.DECISION,
    EventKind.FELL_IN_DOUBT: About.DOUBT,
    TaskEventKind.ASKED: About.QUESTION,
}
# After these it may wait for somebody no longer.
CHANGES = frozenset(
    {
        EventKind.APPROVAL_RECORDED,
        EventKind.APPROVED,
        EventKind.REJECTED,
        EventKind.SENT_BACK,
        EventKind.OUTDATED,
        EventKind.EXPIRED,
        EventKind.CANCELED,
        EventKind.COMMITTED,
        EventKind.RETRIED,
        EventKind.DISPROVED,
        EventKind.RECEIPT_KEPT,
        TaskEventKind.ANSWERED,
        TaskEventKind.QUESTION_LAPSED,
        TaskEventKind.COMPLETED,
        TaskEventKind.FAILED,
        TaskEventKind.CANCELED,
    }
)
MOST = 500


@dataclass(frozen=True, slots=True)
class Item:
    """A transaction or a question, and why somebody should look at it."""

    about: About
    row: Transaction | Question

    @property
    def subject(self) -> UUID:
        """That of its events."""
        return self.row.task_id if isinstance(self.row, Question) else self.row.pk

    @property
    def is_high(self) -> bool:
        return isinstance(self.row, Transaction) and self.row.risk_level in {"HIGH", "CRITICAL"}


def item_of(event: Event) -> Item | None:
    """The item that an event of ``ASKS`` asks people to look at."""
    about = ASKS[event.kind]
    if about == About.QUESTION:
        key = Question.named_in(json.loads(event.details))
    else:
        key = event.transaction_id
    item = find(about, key) if key else None
    return item if item is not None and is_for_people(item) else None


def is_for_people(item: Item) -> bool:
    """True if people are asked: not where policy passes it, nor before a supervising agent that
    may decide has passed it on."""
    if isinstance(item.row, Question) or item.about == About.DOUBT:
        return True
    is_theirs = item.row.required_approver == RequiredApprover.HUMAN
    return is_theirs or policies.passed_on_by(item.row) is not None


def find(about: About, key: UUID) -> Item | None:
    """The item as it is now."""
    row: Transaction | Question | None
    if about == About.QUESTION:
        row = Question.objects.select_related("task").filter(pk=key).first()
    else:
        row = Transaction.objects.prefetch_related("decisions").filter(pk=key).first()
    return Item(about, row) if row is not None else None


def people_for(item: Item) -> QuerySet[User]:
    """People with a role in which it may wait for them; ``waits_for`` knows each one's case."""
    of_tenant = Membership.objects.filter(tenant=item.row.tenant)
    if isinstance(item.row, Question):
        roles = {APPROVER, OPERATOR} & set(item.row.may_answer)
        parsed = [Principal.parse(name) for name in item.row.may_answer if ":" in name]
        keys = [each.user_key for each in parsed if each.user_key is not None]
        wanted = Q(memberships__in=of_tenant.filter(role__in=roles)) | Q(
            pk__in=keys, memberships__in=of_tenant
        )
    else:
        role = Role.OPERATOR if item.about == About.DOUBT else Role.APPROVER
        wanted = Q(memberships__in=of_tenant.filter(role=role))
    return User.objects.filter(wanted, is_active=True).distinct()


def waits_for(item: Item, person: User, now: datetime) -> bool:
    """True if this person may decide, answer or settle it now and has not set it aside."""
    own = SetAside.objects.standing().filter(person=str(principal_of(person)))
    return _is_for(item, person, now) and not own.filter(transaction=item.row.pk).exists()


def _is_for(item: Item, person: User, now: datetime) -> bool:
    """True by their roles of this moment."""
    principal, roles = str(principal_of(person)), roles_of(person)
    if isinstance(item.row, Question):
        return bool(policies.may_answer(item.row, principal, roles, now))
    if item.about == About.DOUBT:
        is_open = item.row.state == State.IN_DOUBT
        return is_open and bool(policies.may_operate(item.row, principal, roles))
    return bool(policies.may_decide(item.row, principal, roles, now))


def all_for(person: User, now: datetime) -> list[Item]:
    """Everything that waits for this person now, up to ``MOST`` of each kind."""
    tenants = frozenset(roles_of(person))
    rows = Transaction.objects.for_tenants(tenants).filter(
        ~inbox.is_aside(str(principal_of(person))), state__in=[State.PREPARED, State.IN_DOUBT]
    )
    items = [item_as_it_is(row) for row in _urgent(rows.prefetch_related("decisions"))]
    asked = Question.objects.for_tenants(tenants).waiting().select_related("task")
    items += [Item(About.QUESTION, row) for row in _urgent(asked)]
    return [item for item in items if is_for_people(item) and _is_for(item, person, now)]


def item_as_it_is(row: Transaction) -> Item:
    return Item(About.DOUBT if row.state == State.IN_DOUBT else About.DECISION, row)


def _urgent(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.order_by("expires_at")[:MOST]
