"""The rules of ``policies`` in Python and in SQL allow the same, on random rows."""

from __future__ import annotations

import random
from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from a2a.models import Question, QuestionState, Task
from a2a.models.answerers import CLIENT
from a2a.states import TaskState
from approvals.desk import policies, viewers
from approvals.models import Role
from ledger.models import Agent, Decision, Transaction, Verdict, new_id
from ledger.states import State

ROWS = 150
ALICE, BOB, CAROL = "user:1", "user:2", "user:3"
AGENTS = ("agent:acme/one", "agent:globex/two")
EVERYBODY = (ALICE, BOB, CAROL, *AGENTS)
TENANTS = ("acme", "globex")


@pytest.fixture
def pick():
    return random.Random(20261124)


def some_roles(pick):
    every = [role.value for role in Role]
    return {tenant: frozenset(pick.sample(every, pick.randrange(4))) for tenant in TENANTS}


def viewers_of(pick):
    return [
        viewers.Viewer(person, some_roles(pick), frozenset(TENANTS))
        for person in (ALICE, BOB, CAROL)
        for _each in range(4)
    ]


def past_or_future(pick):
    return timezone.now() + timedelta(hours=pick.choice([-1, 1, 1, 1]))


@pytest.fixture
def transactions(a_payment, globex, pick):
    """Copies of one row that differ in everything that a rule reads."""
    Agent.objects.create(tenant_id="acme", slug="one", name="One", kept_by=ALICE)
    Agent.objects.create(tenant_id="globex", slug="two", name="Two", kept_by=BOB)
    columns = {name: value for name, value in vars(a_payment()).items() if name[0] != "_"}
    columns |= {"created_at": timezone.now() - timedelta(days=1), "receipt": "re_1"}
    rows = [
        Transaction(
            **columns
            | {
                "id": new_id(),
                "operation_key": uuid4().hex,
                "tenant": pick.choice(TENANTS),
                "state": pick.choice([State.PREPARED] * 9 + list(State)),
                "proposed_by": pick.choice(EVERYBODY),
                "keeper_may_sign": pick.choice([False, False, True]),
                "expires_at": past_or_future(pick),
                "settlement": pick.choice([None, {"by": pick.choice(EVERYBODY)}]),
            }
        )
        for _row in range(ROWS)
    ]
    Transaction.objects.bulk_create(rows)
    Decision.objects.bulk_create(decision for row in rows for decision in decisions_of(row, pick))
    return Transaction.objects.filter(pk__in=[row.pk for row in rows])


def decisions_of(row, pick):
    """Of an agent with its keeper, as ``decide`` records them."""
    for principal in pick.sample(EVERYBODY, pick.choice([0, 0, 1, 1, 2, 3])):
        is_agent = principal in AGENTS
        verdicts = [Verdict.APPROVE, Verdict.PASS_ON] if is_agent else [Verdict.APPROVE]
        yield Decision(
            transaction=row,
            principal=principal,
            verdict=pick.choice(verdicts),
            kept_by=pick.choice(["", ALICE, BOB, CAROL]) if is_agent else "",
            via="web",
        )


def test_the_list_and_the_page_let_the_same_people_decide(transactions, pick):
    allowed, rows, now = 0, list(transactions.prefetch_related("decisions")), timezone.now()
    for viewer in viewers_of(pick):
        in_python = {
            row.pk
            for row in rows
            if policies.may_decide(row, viewer.principal, viewer.roles, now).is_allowed
        }

        assert in_python == pks(transactions.filter(viewers.can_decide(viewer))), viewer
        allowed += len(in_python)
    assert 0 < allowed < 12 * ROWS


def test_the_list_and_the_page_let_the_same_people_settle(transactions, pick):
    rows = list(transactions)
    for viewer in viewers_of(pick):
        in_python = {
            row.pk
            for row in rows
            if policies.may_operate(row, viewer.principal, viewer.roles)
            and not (row.settlement and row.settlement["by"] == viewer.principal)
        }

        assert in_python == pks(transactions.filter(viewers.can_settle(viewer))), viewer


@pytest.fixture
def questions(acme, globex, pick):
    tasks = [
        Task(
            tenant=pick.choice(TENANTS),
            state=TaskState.INPUT_REQUIRED,
            skill_slug="ask",
            submitted_by=pick.choice(EVERYBODY),
            expires_at=past_or_future(pick),
            retain_until=past_or_future(pick),
        )
        for _task in range(ROWS)
    ]
    Task.objects.bulk_create(tasks)
    named = [Role.APPROVER.value, Role.OPERATOR.value, Role.VIEWER.value, CLIENT, *EVERYBODY]
    rows = [
        Question(
            task=task,
            tenant=task.tenant,
            state=pick.choice([QuestionState.OPEN] * 4 + [QuestionState.LAPSED]),
            may_answer=pick.sample(named, pick.randrange(3)),
            asked_by=AGENTS[0],
            expires_at=past_or_future(pick),
            ttl=timedelta(hours=1),
        )
        for task in tasks
    ]
    return Question.objects.filter(pk__in=[row.pk for row in Question.objects.bulk_create(rows)])


def test_the_list_and_the_page_let_the_same_people_answer(questions, pick):
    rows, now = list(questions.select_related("task")), timezone.now()
    for viewer in viewers_of(pick):
        in_python = {
            row.pk
            for row in rows
            if policies.may_answer(row, viewer.principal, viewer.roles, now).is_allowed
        }

        assert in_python == pks(questions.waiting().filter(viewers.can_answer(viewer))), viewer


def pks(rows):
    return set(rows.values_list("pk", flat=True))
