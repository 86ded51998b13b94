"""What a task cost, as its worker says: on the task, its page, its answer and in the figures."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from a2a import wire
from a2a.models import Task
from a2a.validation import cost_in
from a2a.wire import sdk
from a2a.wire.remote import _task as as_remote
from approvals import metrics
from ledger.proof.audit import verification
from tests.a2a.test_plain_rest import TASKS, WORK, claimed, post, submit

pytestmark = pytest.mark.django_db

COST = {"amount": "0.0042", "currency": "EUR", "tokens": 18200}


def end(as_worker, verb="complete", **said):
    work = claimed(as_worker)
    ending = {"result": {"summary": "short"}} if verb == "complete" else {"reason": "No."}
    body = {"fencing_token": work["fencing_token"], **ending, **said}
    return post(as_worker, f"{WORK}/{work['task_id']}/{verb}", body)


def test_a_worker_says_what_its_task_cost(as_orchestrator, as_worker, as_alice, consolidate):
    task = f"{TASKS}/{submit(as_orchestrator).json()['task_id']}"
    assert end(as_worker, cost=COST).status_code == 200
    submit(as_orchestrator)
    assert end(as_worker, "fail", cost={"tokens": 800}).status_code == 200

    read = as_orchestrator.get(task).json()
    assert read["cost"] == COST
    sealed = [json.loads(row.details) for row in Task.objects.get(pk=read["task_id"]).events]
    assert sealed[-1]["cost"] == COST
    page = as_alice.get(reverse("desk:task", args=[read["task_id"]])).content.decode()
    assert "0.0042 EUR, 18,200 tokens" in page
    found = metrics.gathered()
    assert found["assent_task_cost_recent"].of(currency="EUR") == 0.0042
    assert found["assent_task_tokens_recent"].value == 19000
    verification.verify()


@pytest.mark.parametrize(
    "cost",
    [
        {},
        {"amount": "1.00"},
        {"currency": "EUR", "tokens": 1},
        {"amount": "1.00", "currency": "XXY"},
        {"amount": "-1.00", "currency": "EUR"},
        {"amount": "NaN", "currency": "EUR"},
        {"tokens": -1},
        {"tokens": "many"},
        "cheap",
    ],
)
def test_what_is_no_cost_is_refused_from_workers_and_left_out_from_others(
    as_orchestrator, as_worker, consolidate, cost
):
    submit(as_orchestrator)

    assert end(as_worker, cost=cost).status_code == 422
    assert Task.objects.get().state == "working"
    assert cost_in({"cost": cost}) is None


def test_another_assent_is_told_and_reads_it(as_orchestrator, as_worker, consolidate):
    submit(as_orchestrator)
    end(as_worker, cost=COST)

    theirs = sdk.pb.Task()
    sdk.ParseDict(wire.render(Task.objects.get()), theirs)

    assert as_remote(theirs).cost == COST
    theirs.ClearField("metadata")
    theirs.metadata.update({"cost": COST})
    assert as_remote(theirs).cost == COST
