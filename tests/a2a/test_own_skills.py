"""What Assent does itself: a transaction brought to sign-off by A2A, a question put to people."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from django.db.models.functions import Now

from a2a import submissions
from a2a.models import Question, Task
from a2a.protocol import updates
from a2a.protocol.updates import Since
from a2a.submissions import Submission
from a2a.tasks import questions
from ledger import execution
from ledger.models import Scope, Transaction
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.a2a.test_protocol import Peer
from tests.agents_at_work import caller_for
from tests.forgery import move_deadline
from tests.toolbox.world import world

pytestmark = pytest.mark.django_db(transaction=True)

FACTS = "urn:assent:a2a:task:1"
PAY = {"tool": "pay", "arguments": {"reference": "order-7", "amount": "48.20"}, "reason": "late"}


@pytest.fixture
def peer(orchestrator):
    return Peer(orchestrator, Scope.SUBMIT, Scope.PROPOSE)


def prepared(peer, value=PAY):
    return peer.send(value, skill="prepare_transaction")


def state_of(peer, task):
    return peer.rpc("GetTask", {"id": task["id"]})["result"]["status"]["state"].removeprefix(
        "TASK_STATE_"
    )


def decide(verb, by, **said):
    row = Transaction.objects.get()
    getattr(coordinator, verb)(row.pk, digest=row.intent_digest, by=by, via="web", **said)
    return row


def test_a_prepared_transaction_waits_for_sign_off_with_its_token_of_intent(peer):
    task = prepared(peer)

    assert task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    text, data = task["status"]["message"]["parts"]
    token = data["data"]["token_of_intent"]
    row = Transaction.objects.get()
    assert text["text"] == f"Waiting for sign-off: {row.action_summary}"
    assert (token["transaction_id"], token["intent_digest"]) == (str(row.pk), row.intent_digest)
    assert row.proposed_by == "agent:acme/orchestrator"


def test_over_plain_rest_it_is_at_work_and_listed_so(peer):
    task = prepared(peer)

    for state in ("working", "auth-required"):
        (listed,) = peer.http("GET", f"/api/v1/tasks?state={state}").json()["items"]
        assert (listed["task_id"], listed["state"]) == (task["id"], "working")


def test_signed_off_and_carried_out_it_completes_with_the_receipt(peer, alice):
    task = prepared(peer)
    row = decide("approve", alice)
    assert state_of(peer, task) == "WORKING"

    execution.commit(row.pk)

    done = peer.rpc("GetTask", {"id": task["id"]})["result"]
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    (artifact,) = done["artifacts"]
    row.refresh_from_db()
    assert artifact["parts"][0]["data"]["receipt"] == row.receipt
    assert artifact["parts"][0]["data"]["outcome"] == done["metadata"][FACTS]["outcome"]
    assert artifact["parts"][0]["data"]["outcome"]["kind"] == "succeeded"


def test_rejected_it_fails_with_the_reason(peer, alice):
    task = prepared(peer)
    row = decide("reject", alice, reason="paid already")
    execution.roll_back(row.pk)

    found = Task.objects.get(pk=task["id"])
    assert (found.state, found.reason_code) == ("failed", "not_signed_off")
    assert "paid already" in found.reason
    outcome = peer.rpc("GetTask", {"id": task["id"]})["result"]["metadata"][FACTS]["outcome"]
    assert (outcome["kind"], outcome["do_not_retry"]) == ("refused", True)
    assert "paid already" in outcome["sentence"]


def test_a_task_tells_of_doubt_although_only_its_transaction_moved(peer, alice):
    task = prepared(peer)
    row = decide("approve", alice)
    assert outcome_of(peer, task) == ("pending", False)

    world.after = [no_answer]
    execution.commit(row.pk)

    assert outcome_of(peer, task) == ("in_doubt", False)


def test_the_plain_dialect_and_the_stream_say_the_outcome_too(peer, alice):
    task = prepared(peer)
    row = decide("approve", alice)
    execution.commit(row.pk)

    read = peer.http("GET", f"/api/v1/tasks/{task['id']}").json()
    (told,) = updates.updates_since([Since(peer.token, UUID(task["id"]), 0)])
    last = told.bodies[-1]["statusUpdate"]["metadata"][FACTS]

    row.refresh_from_db()
    assert read["outcome"]["kind"] == "succeeded"
    assert row.receipt in read["outcome"]["sentence"]
    assert read["outcome"] == {"transaction_id": str(row.pk), **last["outcome"]}
    earlier = [body["statusUpdate"]["metadata"] for body in told.bodies if "statusUpdate" in body]
    assert ["outcome" in each[FACTS] for each in earlier] == [False] * (len(earlier) - 1) + [True]


def no_answer():
    raise ConnectionError("The answer was lost.")


def outcome_of(peer, task):
    facts = peer.rpc("GetTask", {"id": task["id"]})["result"]["metadata"][FACTS]
    return facts["outcome"]["kind"], facts["outcome"]["is_final"]


def test_nobody_decided_in_time_and_it_is_canceled(peer):
    task = prepared(peer)
    move_deadline(Transaction.objects.get().pk)
    sweeper.expire_what_is_due()
    execution.roll_back(Transaction.objects.get().pk)

    assert state_of(peer, task) == "CANCELED"


def test_canceling_the_task_cancels_the_transaction_unless_it_was_decided(peer, alice):
    first = prepared(peer)
    peer.rpc("CancelTask", {"id": first["id"]})
    assert Transaction.objects.get().state == "rolling_back"
    execution.roll_back(Transaction.objects.get().pk)

    second = prepared(peer)
    row = Transaction.objects.get(state="prepared")
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    refused = peer.rpc("CancelTask", {"id": second["id"]})

    assert refused["error"]["code"] == -32004
    assert Transaction.objects.get(pk=row.pk).state == "approved"


@pytest.mark.parametrize(
    ("value", "state", "code"),
    [
        ({"tool": "pay", "arguments": {"reference": 1}}, "failed", "refused"),
        ({"tool": "nothing", "arguments": {}}, "failed", "refused"),
        ({"tool": "pay"}, "rejected", "schema_mismatch"),
    ],
)
def test_what_cannot_be_prepared_ends_with_the_reason(peer, value, state, code):
    task = prepared(peer, value)

    found = Task.objects.get(pk=task["id"])
    assert (found.state, found.reason_code) == (state, code)
    assert found.reason


def test_a_token_for_one_tool_proposes_with_that_tool(orchestrator):
    task = prepared(Peer(orchestrator, Scope.SUBMIT, "propose:pay"))

    assert task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    assert Transaction.objects.get().tool == "pay"


def test_for_another_tool_it_is_told_what_is_told_of_a_tool_that_is_nowhere(orchestrator, peer):
    narrow = Peer(orchestrator, Scope.SUBMIT, "propose:launch")

    forbidden = Task.objects.get(pk=prepared(narrow)["id"])
    missing = Task.objects.get(pk=prepared(peer, {"tool": "nowhere", "arguments": {}})["id"])

    assert (forbidden.state, missing.state) == ("failed", "failed")
    assert forbidden.reason == missing.reason.replace("nowhere", "pay")
    assert (forbidden.reason_code, forbidden.errors) == (missing.reason_code, missing.errors)
    assert (Transaction.objects.count(), world.plans) == (0, 0)


def test_an_envelope_may_lend_less_of_the_scope_to_propose_and_never_more(orchestrator):
    def sent(held, lent):
        caller = caller_for(orchestrator, Scope.SUBMIT, held)
        submission = Submission(
            skill="prepare_transaction", input=PAY, envelope={"scopes": ["submit", lent]}
        )
        return submissions.submit(submission, caller=caller, via="a2a").task

    assert sent("propose", "propose:pay").state == "auth-required"
    assert sent("propose:pay", "propose").lent_scopes == ["propose:pay", "submit"]
    assert sent("propose", "propose:launch").state == "failed"
    assert sent("propose:launch", "propose:pay").reason_code == "missing_scope"


def test_it_takes_the_scope_to_propose(orchestrator):
    task = prepared(Peer(orchestrator, Scope.SUBMIT))

    assert Task.objects.get(pk=task["id"]).reason_code == "missing_scope"
    assert Transaction.objects.count() == 0


def test_a_process_that_dies_in_between_is_made_up_for_by_the_sweeper(peer, alice, monkeypatch):
    from a2a import builtin
    from a2a.builtin import runs
    from ledger.foundation import doorbell

    monkeypatch.setattr(builtin, "run", lambda task: None)
    task = prepared(peer)
    assert task["status"]["state"] == "TASK_STATE_WORKING"
    monkeypatch.undo()
    Task.objects.update(lease_expires_at=Now() - timedelta(seconds=1))

    builtin.settle_all()
    Task.objects.update(next_attempt_at=None)
    builtin.begin(task["id"])
    assert state_of(peer, task) == "AUTH_REQUIRED"

    doorbell.event_committed.disconnect(runs.follow_event)
    try:
        execution.commit(decide("approve", alice).pk)
        assert state_of(peer, task) == "AUTH_REQUIRED", "the bell was lost"
        sweeper.Sweeper().sweep()
    finally:
        doorbell.register_listener(runs.follow_event)
    assert state_of(peer, task) == "COMPLETED"
    assert Transaction.objects.count() == 1


def test_two_tasks_for_one_operation_share_its_one_transaction(peer, alice):
    first, second = prepared(peer), prepared(peer)
    assert Transaction.objects.count() == 1

    execution.commit(decide("approve", alice).pk)

    assert {state_of(peer, task) for task in (first, second)} == {"COMPLETED"}


def test_a_person_is_asked_and_the_task_completes_with_the_answer(peer, alice):
    value = {"text": "Shall I book the later flight?", "form": {"type": "boolean"}}
    task = peer.send(value, skill="ask_a_person")
    # The question is for people: nothing is asked of the client, which goes on waiting.
    assert task["status"]["state"] == "TASK_STATE_WORKING"
    more = peer.send(taskId=task["id"], parts=[{"text": "yes"}])
    assert more["status"]["state"] == "TASK_STATE_WORKING", "who asks does not answer itself"
    assert Question.objects.get().state == "open"

    questions.answer(Question.objects.get().pk, True, by=alice, via="web")

    done = peer.rpc("GetTask", {"id": task["id"]})["result"]
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert done["artifacts"][0]["parts"][0]["data"] == {
        "answer": True,
        "answered_by": alice.display_name,
    }
