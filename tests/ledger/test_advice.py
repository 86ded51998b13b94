"""Advice of supervising agents on what people decide: shown, sealed, measured, and never a vote."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from ledger import execution
from ledger.models import Agent, Event
from ledger.proof import retention
from ledger.proof.audit import decision_records
from ledger.reporting.usage import counting, figures
from ledger.reporting.usage.counting import FOLLOWED, NOT_FOLLOWED
from ledger.states import State
from ledger.transactions import coordinator, links_of, sign_off_faults
from tests.conftest import propose
from tests.forgery import end_retention, forge, rewrite
from tests.rules.test_proof import faults_of_both

pytestmark = pytest.mark.django_db
POLICY = "# Refunds\n\n1. Small ones are refunded.\n2. Large ones are not.\n"


@pytest.fixture
def boss(supervisor, agent_client):
    return agent_client(supervisor, ["decide"])


@pytest.fixture
def refund(a_transaction):
    return a_transaction("refund", order="o1", amount="20")


def advise(client, row, recommends="reject", **body):
    wanted = {"intent_digest": row.intent_digest, "recommends": recommends}
    return client.post(
        f"/transactions/{row.pk}/advice", wanted | {"reason": "Twice in a week."} | body
    )


def given(row):
    return Event.objects.filter(subject=row.pk, kind="advised")


def test_people_see_it_beside_the_reason_with_its_policy(boss, refund, as_alice):
    kept = boss.post("/policies", {"name": "Refunds", "version": "3", "text": POLICY}).json()

    answer = advise(boss, refund, policy={"sha256": kept["sha256"], "paragraphs": ["2"]})

    page = as_alice.get(reverse("desk:transaction", args=[refund.pk])).content.decode()
    record = as_alice.get(reverse("desk:transaction-record", args=[refund.pk])).content.decode()
    assert answer.status_code == 200
    assert "recommends to reject" in page
    assert "Twice in a week." in page
    assert "§&nbsp;2" in page
    assert "recommends to reject" in record


def test_it_is_no_vote(boss, refund, alice):
    advise(boss, refund, "approve")

    refund.refresh_from_db()
    assert (refund.state, refund.decisions.count()) == (State.PREPARED, 0)
    coordinator.reject(refund.pk, digest=refund.intent_digest, by=alice, via="web", reason="No.")
    assert faults_of_both() == ([], [])


def test_what_was_advised_against_is_carried_out_if_people_approve(boss, refund, alice):
    advise(boss, refund)
    coordinator.approve(refund.pk, digest=refund.intent_digest, by=alice, via="web")

    execution.commit(refund.pk)

    refund.refresh_from_db()
    assert refund.state == State.COMMITTED


def test_also_on_what_was_passed_on_to_people(boss):
    row = propose("order", item="chair")
    assert advise(boss, row).status_code == 403
    said = {"intent_digest": row.intent_digest, "reason": "Not mine."}
    boss.post(f"/transactions/{row.pk}/pass-on", said)

    assert advise(boss, row).status_code == 200
    assert [*sign_off_faults(row, links_of(row.pk))] == []


def test_once_on_each_revision(boss, refund, alice):
    assert advise(boss, refund).status_code == 200
    assert advise(boss, refund).status_code == 200
    assert advise(boss, refund, "approve").status_code == 409
    assert given(refund).count() == 1


def test_not_on_something_else(boss, refund):
    assert advise(boss, refund, intent_digest="0" * 64).status_code == 409
    assert not given(refund).exists()


def test_neither_the_proposer_nor_an_agent_without_the_scope(
    refund, helpdesk, supervisor, agent_client
):
    assert advise(agent_client(helpdesk, ["decide"]), refund).status_code == 403
    assert advise(agent_client(supervisor, ["read_all"]), refund).status_code == 403
    assert not given(refund).exists()


@pytest.mark.parametrize("keeper", ["same", "nobody"])
def test_no_agent_of_the_same_keeper(boss, helpdesk, supervisor, a_transaction, alice, keeper):
    Agent.objects.filter(pk=helpdesk.pk).update(kept_by=str(alice))
    kept_by = str(alice) if keeper == "same" else ""
    Agent.objects.filter(pk=supervisor.pk).update(kept_by=kept_by)

    row = a_transaction("refund", order="o1", amount="20")

    assert advise(boss, row).status_code == 403
    assert not given(row).exists()


def test_the_agent_that_proposed_it_is_not_told(boss, refund):
    advise(boss, refund)

    record = decision_records.for_agents(decision_records.of_transaction(refund))

    assert "Twice in a week." not in json.dumps(record)


def test_its_text_is_erased_with_the_content(boss, refund, alice):
    advise(boss, refund)
    coordinator.reject(refund.pk, digest=refund.intent_digest, by=alice, via="web", reason="No.")
    execution.roll_back(refund.pk)
    end_retention(refund.pk)

    retention.erase_due()

    assert given(refund).get().reason == ""


def test_insight_has_how_often_people_agreed(boss, a_transaction, alice, as_alice, supervisor):
    rows = [a_transaction("refund", order=f"o{n}", amount="20") for n in range(3)]
    for row, recommends in zip(rows, ["approve", "approve", "reject"], strict=True):
        advise(boss, row, recommends)
    seen = {"by": alice, "via": "web"}
    coordinator.approve(rows[0].pk, digest=rows[0].intent_digest, **seen)
    coordinator.reject(rows[1].pk, digest=rows[1].intent_digest, reason="No.", **seen)
    coordinator.reject(rows[2].pk, digest=rows[2].intent_digest, reason="No.", **seen)
    counting.count_batch()

    agent = str(supervisor.principal)
    [pair] = [each for each in figures.pairs(["acme"], rows[0].created_at) if each.decider == agent]
    assert (pair.decided, pair.advice) == (0, {FOLLOWED: 2, NOT_FOLLOWED: 1})
    assert "people decided the same" in as_alice.get("/insight/").content.decode()


TAMPERINGS = {
    "by a person": {"principal": "user:7"},
    "by the proposer": {"principal": "agent:acme/helpdesk"},
    "on something else": {"intent_digest": "0" * 64},
    "to do nothing": {"recommends": "pass_on"},
    "of the same keeper": {"proposer_kept_by": ["user:7"], "kept_by": "user:7"},
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_no_verifier_takes_it_from_somebody_else(boss, refund, tampering):
    advise(boss, refund)
    event, changes = given(refund).get(), dict(TAMPERINGS[tampering])
    if principal := changes.pop("principal", None):
        forge("UPDATE ledger_event SET principal = %s WHERE id = %s", principal, event.pk)
    rewrite(event, **changes)

    first, other = faults_of_both()

    assert any(str(refund.pk) in fault for fault in first)
    assert any(str(refund.pk) in fault for fault in other)
