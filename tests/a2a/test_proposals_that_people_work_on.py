"""People ask, change and send back what a task has proposed; its client is told, and answers."""

from __future__ import annotations

import pytest

from a2a.builtin import settle_all
from a2a.models import Task
from ledger import execution
from ledger.models import Scope, Transaction
from ledger.proof.audit import verification
from ledger.transactions import coordinator
from tests.a2a.test_own_skills import FACTS, PAY, decide, peer, prepared, state_of
from tests.a2a.test_protocol import Peer

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["peer"]

QUESTION, ANSWER = "Which order is it for?", "For the one of March."


def asked(alice):
    row = Transaction.objects.get()
    return coordinator.ask(row.pk, by=alice, via="web", text=QUESTION)


def read(peer, task):
    return peer.rpc("GetTask", {"id": task["id"]})["result"]


def said(peer, task, *parts):
    message = {"messageId": "m-2", "role": "ROLE_USER", "parts": list(parts), "taskId": task["id"]}
    return peer.rpc("SendMessage", {"message": message})


def test_a_question_is_the_clients_to_answer_and_then_the_sign_off_goes_on(peer, alice):
    task = prepared(peer)
    asked(alice)

    status = read(peer, task)["status"]
    assert status["state"] == "TASK_STATE_INPUT_REQUIRED"
    text, data = status["message"]["parts"]
    assert text["text"] == data["data"]["question"]["text"] == QUESTION

    answered = said(peer, task, {"text": ANSWER})["result"]["task"]
    assert answered["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    assert answered["history"][-1]["parts"] == [{"text": ANSWER}]
    row = decide("approve", alice)
    execution.commit(row.pk)
    assert state_of(peer, task) == "COMPLETED"
    last = row.events.filter(kind="answered").get()
    assert (last.reason, last.principal, last.via) == (ANSWER, row.proposed_by, "a2a")
    verification.verify()


def test_over_plain_rest_the_question_is_read_and_resolved_as_any_other(peer, alice):
    task = prepared(peer)
    asked(alice)

    body = peer.http("GET", f"/api/v1/tasks/{task['id']}").json()
    assert (body["state"], body["input_required"]["text"]) == ("input-required", QUESTION)
    assert body["proposal"]["question"]["text"] == QUESTION
    resolved = peer.http("POST", f"/api/v1/tasks/{task['id']}/resolve", json={"answer": ANSWER})

    assert (resolved.status_code, resolved.json()["state"]) == (200, "working")
    assert Transaction.objects.get().asked_at is None


def test_another_agent_and_a_token_that_may_not_propose_answer_nothing(
    peer, alice, helpdesk, orchestrator
):
    task = prepared(peer)
    asked(alice)
    other = Peer(helpdesk, Scope.SUBMIT, Scope.PROPOSE, Scope.READ_ALL)

    for stranger in (other, Peer(orchestrator, Scope.SUBMIT)):
        assert "error" in said(stranger, task, {"text": ANSWER})
        refused = stranger.http(
            "POST", f"/api/v1/tasks/{task['id']}/resolve", json={"answer": ANSWER}
        )
        assert refused.status_code == 403
    assert Transaction.objects.get().asked_at is not None
    assert not Task.objects.get().messages.filter(message_id="m-2").exists()


@pytest.mark.parametrize(("verb", "state"), [("approve", "WORKING"), ("reject", "FAILED")])
def test_who_decides_need_not_wait_for_the_answer(peer, alice, verb, state):
    task = prepared(peer)
    asked(alice)

    row = decide(verb, alice, reason="clear by now")
    if verb == "reject":
        execution.roll_back(row.pk)

    assert state_of(peer, task) == state
    verification.verify()


def test_a_question_whose_event_was_lost_is_passed_on_by_the_sweeper(peer, alice, monkeypatch):
    task = prepared(peer)
    with monkeypatch.context() as deaf:
        deaf.setattr("a2a.builtin.runs.follow_transaction", lambda _: None)
        asked(alice)
    assert state_of(peer, task) == "AUTH_REQUIRED"

    settle_all()

    assert state_of(peer, task) == "INPUT_REQUIRED"


def test_what_was_changed_is_told_while_it_waits_and_with_the_receipt(peer, alice):
    task = prepared(peer, {"tool": "refund", "arguments": {"order": "o1", "amount": "48.20"}})
    row = Transaction.objects.get()
    coordinator.revise(row.pk, {"amount": "48.02"}, digest=row.intent_digest, by=alice, via="web")

    told = read(peer, task)
    change = {"path": "arguments.amount", "from": "48.20", "to": "48.02"}
    assert told["metadata"][FACTS]["proposal"]["revision"] == 2
    assert change in told["metadata"][FACTS]["proposal"]["changed"]
    row = decide("approve", alice)
    execution.commit(row.pk)

    receipt = read(peer, task)["artifacts"][0]["parts"][0]["data"]
    assert (receipt["revision"], change in receipt["changed"]) == (2, True)


def test_what_is_sent_back_ends_with_what_to_change_and_is_proposed_anew(peer, alice):
    task = prepared(peer)
    row = decide("send_back", alice, reason="Take 40 off.")
    execution.roll_back(row.pk)

    ended = read(peer, task)
    facts = ended["metadata"][FACTS]
    assert ended["status"]["state"] == "TASK_STATE_FAILED"
    assert "Take 40 off." in ended["status"]["message"]["parts"][0]["text"]
    assert facts["reason"]["errors"] == [{"code": "sent_back", "replaces": str(row.pk)}]
    assert facts["proposal"]["change_request"]["text"] == "Take 40 off."

    again = {**PAY, "arguments": {**PAY["arguments"], "amount": "8.20"}, "replaces": str(row.pk)}
    prepared(peer, again)
    assert Transaction.objects.exclude(pk=row.pk).get().replaces == row.pk
    assert read(peer, task)["metadata"][FACTS]["proposal"]["replaced_by"] is not None


def test_replaces_names_what_was_sent_back_and_nothing_else(peer):
    prepared(peer)
    row = Transaction.objects.get()

    refused = prepared(peer, {**PAY, "replaces": str(row.pk)})
    malformed = prepared(peer, {**PAY, "replaces": "the last one"})

    assert refused["status"]["state"] == "TASK_STATE_FAILED"
    assert malformed["status"]["state"] == "TASK_STATE_REJECTED"
    assert Transaction.objects.get() == row
