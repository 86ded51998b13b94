"""Caps on what an agent and a tenant may have open, refused before anything is planned."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from django.db import connection

from a2a.models import Question, Task
from ledger.errors import LimitReached
from ledger.limits import refusals, stocks, terms
from ledger.limits.terms import Limit, Of
from ledger.models import Agent, LimitRefusal, Scope, Tenant, Transaction
from ledger.transactions import coordinator
from tests.a2a.test_own_skills import PAY
from tests.a2a.test_plain_rest import ask, claimed, submit
from tests.agents_at_work import speaking_as
from tests.conftest import propose

pytestmark = pytest.mark.django_db


def limit(row: Agent | Tenant, **limits: int) -> None:
    type(row).objects.filter(pk=row.pk).update(limits=limits)
    forget()


def forget() -> None:
    """As if some seconds had passed."""
    terms.forget()
    for stock in stocks.every.values():
        stock.forget()


def refused(answer, name, of):
    body = answer.json()
    assert answer["Content-Type"] == "application/problem+json"
    assert (answer.status_code, body["code"]) == (429, "limit_reached")
    assert (body["limit"], body["of"]) == (name, of)
    assert int(answer["Retry-After"]) > 0
    return body


def test_an_agent_with_too_much_pending_is_told_when_to_come_back_and_nothing_is_planned(
    helpdesk, as_helpdesk, the_world
):
    limit(helpdesk, pending=3)
    for _ in range(3):
        assert as_helpdesk.propose().status_code == 201
    planned = the_world.plans

    body = refused(as_helpdesk.propose(), "pending", "agent")

    assert body["detail"] == "At most 3 transactions that wait for sign-off per agent."
    assert Transaction.objects.count() == 3
    assert the_world.plans == planned


def test_a_full_agent_keeps_nobody_else_from_proposing(
    helpdesk, as_helpdesk, supervisor, agent_client
):
    limit(helpdesk, pending=1)
    as_helpdesk.propose()
    refused(as_helpdesk.propose(), "pending", "agent")

    assert agent_client(supervisor).propose().status_code == 201


def test_a_repeated_request_gets_its_first_answer_however_full_the_agent_is(helpdesk, as_helpdesk):
    limit(helpdesk, pending=1)
    arguments = {"reference": "order-1", "amount": "48.20"}
    first = as_helpdesk.propose(key="once", arguments=arguments)

    again = as_helpdesk.propose(key="once", arguments=arguments)

    assert (again.status_code, again["Idempotent-Replayed"]) == (201, "true")
    assert again.json()["transaction_id"] == first.json()["transaction_id"]


def test_a_decision_makes_room(helpdesk, as_helpdesk, alice):
    limit(helpdesk, pending=1)
    as_helpdesk.propose()
    refused(as_helpdesk.propose(), "pending", "agent")
    row = Transaction.objects.get()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")
    forget()

    assert as_helpdesk.propose().status_code == 201


def test_all_agents_of_a_tenant_share_its_limit_and_no_other_tenant_does(
    acme, as_helpdesk, supervisor, stranger, agent_client
):
    limit(acme, pending=2)
    as_helpdesk.propose()
    agent_client(supervisor).propose()

    refused(as_helpdesk.propose(), "pending", "tenant")
    assert agent_client(stranger).propose().status_code == 201


def test_an_agent_with_too_many_open_tasks_is_refused_and_no_task_is_kept(
    orchestrator, as_orchestrator, consolidate
):
    limit(orchestrator, tasks=2)
    for _ in range(2):
        assert submit(as_orchestrator).status_code == 201

    refused(submit(as_orchestrator), "tasks", "agent")

    assert Task.objects.count() == 2


def test_a_repeated_submission_gets_its_task_however_full_the_agent_is(
    orchestrator, as_orchestrator, consolidate
):
    limit(orchestrator, tasks=1)
    first = submit(as_orchestrator, idempotency_key="once").json()

    again = submit(as_orchestrator, idempotency_key="once")

    assert (again.status_code, again.json()["task_id"]) == (200, first["task_id"])


def test_a_worker_with_too_many_open_questions_keeps_its_lease_and_may_ask_later(
    as_orchestrator, worker, as_worker, consolidate
):
    limit(worker, questions=1)
    for _ in range(2):
        submit(as_orchestrator)
    assert ask(as_worker, claimed(as_worker)).status_code == 200
    work = claimed(as_worker)

    refused(ask(as_worker, work), "questions", "agent")

    assert Question.objects.count() == 1
    there = f"/api/v1/work/{work['task_id']}/heartbeat"
    kept = as_worker.post(
        there, {"fencing_token": work["fencing_token"]}, content_type="application/json"
    )
    assert kept.status_code == 200


@pytest.mark.parametrize(
    ("skill", "value", "name"),
    [("ask_a_person", {"text": "Which?"}, "questions"), ("prepare_transaction", PAY, "pending")],
)
def test_what_a_built_in_skill_would_leave_open_counts_before_a_task_is_made(
    orchestrator, skill, value, name
):
    limit(orchestrator, **{name: 1})
    client = speaking_as(orchestrator, Scope.SUBMIT, Scope.PROPOSE)
    assert submit(client, value, skill).status_code == 201
    forget()

    refused(submit(client, value, skill), name, "agent")

    assert Task.objects.count() == 1


def test_refusals_are_counted_by_limit_tenant_and_agent(helpdesk, as_helpdesk):
    refusals.flush()
    LimitRefusal.objects.all().delete()
    limit(helpdesk, pending=1)
    for _ in range(4):
        as_helpdesk.propose()

    refusals.flush()

    rows = list(LimitRefusal.objects.values_list("limit", "of", "tenant", "agent", "number"))
    assert rows == [("pending", "agent", "acme", "helpdesk", 3)]


@pytest.mark.django_db(transaction=True)
def test_a_cap_is_exceeded_by_requests_in_flight_at_most(acme, helpdesk):
    limit(helpdesk, pending=10)
    at_once = 8

    def attempt(_: int) -> bool:
        try:
            propose("pay", reference=uuid4().hex)
        except LimitReached:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(at_once) as pool:
        prepared = sum(pool.map(attempt, range(60)))

    assert prepared == Transaction.objects.count()
    assert 10 <= prepared < 10 + at_once


def test_the_setting_names_limits_and_refuses_what_is_none():
    assert terms.parsed(["agent.pending=7"]) == {(Limit.PENDING, Of.AGENT): 7}
    assert terms.parsed(["off"])[Limit.REQUESTS, Of.ADDRESS] > 10**9
    for wrong in ("pending=7", "agent.pending=", "agent.pending=0", "agent.sign_ins=3", "x.y=1"):
        with pytest.raises(ValueError, match=r"."):
            terms.parsed([wrong])
