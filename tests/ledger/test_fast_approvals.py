"""Approvals by REST that are recorded together: answered, sealed and refused as one alone is."""

from __future__ import annotations

from threading import Thread
from typing import Any
from uuid import uuid4

import httpx
import pytest
from django.db import connection
from django.db.models.functions import Now
from django.db.transaction import atomic

from approvals import asgi
from ledger import execution
from ledger.models import Agent, Decision, Event, Review, Transaction
from ledger.proof.audit import verification
from ledger.transactions import coordinator
from ledger.transactions.reviews import is_in_sample
from tests.conftest import AgentClient, propose
from tests.ledger.test_fast_path import (
    TRANSACTIONS,
    compared,
    request,
    sent,
    takes_the_fast_path,
    views,
)
from tests.ledger.test_supervisors import foreign_faults

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def boss(supervisor, agent_client) -> AgentClient:
    return agent_client(supervisor, ["decide"])


@pytest.fixture
def second_boss(acme, agent_client) -> AgentClient:
    return agent_client(Agent.objects.create(tenant=acme, slug="second", name="Second"), ["decide"])


def orders(number: int) -> list[Transaction]:
    return [propose("order", item=uuid4().hex) for _ in range(number)]


def approval(client: AgentClient, row: Transaction, **members: Any) -> httpx.Request:
    body = {"intent_digest": row.intent_digest, **members}
    return request(client, "POST", f"{TRANSACTIONS}/{row.pk}/approve", body)


def test_an_approval_is_answered_and_sealed_as_the_view_does(boss):
    by_view, by_fast = orders(2)
    reason = "Zoë „needs“ it"

    (slow,) = sent(views, approval(boss, by_view, reason=reason))
    (fast,) = sent(asgi.application, approval(boss, by_fast, reason=reason))

    assert fast.status_code == 200
    expected = compared(slow)
    assert compared(fast) == (
        *expected[:2],
        expected[2].replace(by_view.arguments["item"], by_fast.arguments["item"]),
    )
    events = [Event.objects.get(subject=row.pk, kind="approved") for row in (by_view, by_fast)]
    said = [(event.principal, event.via, event.reason, event.to_state) for event in events]
    assert said == [("agent:acme/supervisor", "api", reason, "approved")] * 2
    assert takes_the_fast_path(approval(boss, orders(1)[0]))


def test_of_many_at_once_each_is_approved_once_and_all_is_sealed(boss, second_boss, supervisor):
    rows = orders(30)

    answers = sent(
        asgi.application,
        *(approval(boss, row) for row in rows),
        *(approval(second_boss, row) for row in rows[:10]),
        *(approval(boss, row) for row in rows[:10]),
    )

    assert {answer.status_code for answer in answers} <= {200, 409}
    approved = [answer.json() for answer in answers if answer.status_code == 200]
    assert {token["transaction_id"] for token in approved} == {str(row.pk) for row in rows}
    assert {token["status"] for token in approved} == {"approved"}
    assert Decision.objects.count() == Event.objects.filter(kind="approved").count() == 30
    percent = supervisor.review_percent
    looked_at = set(Review.objects.values_list("decision__transaction", flat=True))
    approvals = Event.objects.filter(kind="approved")
    assert looked_at == {each.subject for each in approvals if is_in_sample(each.hash, percent)}
    for row in rows:
        execution.commit(row.pk)
    assert set(Transaction.objects.values_list("state", flat=True)) == {"committed"}
    assert verification.verify().transactions == 30
    assert foreign_faults() == []


def test_what_one_alone_would_be_refused_is_refused_among_others(
    boss, helpdesk, stranger, agent_client
):
    wrong, own, foreign, late, payment, rejected, fine = [*orders(4), propose("pay"), *orders(2)]
    Transaction.objects.filter(pk=late.pk).update(expires_at=Now())
    coordinator.reject(
        rejected.pk,
        digest=rejected.intent_digest,
        by=Agent.objects.get(slug="supervisor").principal,
        via="api",
        reason="No.",
    )
    wrong.intent_digest = "0" * 64
    greedy = agent_client(helpdesk, ["propose", "decide"])
    outsider = agent_client(stranger, ["decide"])
    reader = agent_client(helpdesk, ["read_all"])

    answers = sent(
        asgi.application,
        approval(boss, wrong),
        approval(greedy, own),
        approval(outsider, foreign),
        approval(boss, late),
        approval(boss, payment),
        approval(boss, rejected),
        approval(reader, fine),
        approval(boss, fine, reason="x" * 2001),
        approval(boss, fine, reason="\u202e"),
        approval(boss, fine, principal="user:1"),
        approval(boss, fine),
    )

    assert [answer.status_code for answer in answers] == [
        *(409, 403, 404, 409, 403, 409, 403, 422, 422, 422, 200)
    ]
    decided = Decision.objects.exclude(transaction=rejected)
    assert [decision.transaction_id for decision in decided] == [fine.pk]


def test_a_row_that_somebody_else_has_locked_holds_up_no_other(boss):
    locked, free = orders(2)
    votes = {
        row.pk: {
            "digest": row.intent_digest,
            "by": Agent.objects.get(slug="supervisor").principal,
            "via": "api",
        }
        for row in (locked, free)
    }
    with atomic():
        Transaction.objects.select_for_update().get(pk=locked.pk)
        done = in_another_thread(lambda: coordinator.approve_all(votes))

    assert [row.pk for row, _ in done] == [free.pk]
    assert coordinator.approve(locked.pk, **votes[locked.pk]).state == "approved"


def test_a_vote_on_a_transaction_of_another_tenant_is_not_counted(helpdesk, stranger):
    (row,) = orders(1)
    vote = {"digest": row.intent_digest, "by": stranger.principal, "via": "api"}

    assert coordinator.approve_all({row.pk: vote}) == []
    assert not Decision.objects.exists()


def test_who_keeps_both_agents_signs_nothing_also_among_others(boss, supervisor, helpdesk):
    Agent.objects.filter(pk__in=[supervisor.pk, helpdesk.pk]).update(kept_by="user:7")
    rows = orders(3)

    answers = sent(asgi.application, *(approval(boss, row) for row in rows))

    assert [answer.status_code for answer in answers] == [403] * 3
    assert not Decision.objects.exists()


def in_another_thread(work: Any) -> Any:
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        finally:
            connection.close()

    thread = Thread(target=run)
    thread.start()
    thread.join(10)
    assert results, "it waited for the lock"
    return results[0]
