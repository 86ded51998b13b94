"""A client finds the tools, calls one, people sign it off, and the receipt comes back."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from django.db import connections
from django.utils import timezone

from a2a import tasks
from a2a.models import Question
from a2a.tasks import questions
from approvals import asgi
from approvals.asgi import application
from ledger import execution
from ledger.execution import recording
from ledger.foundation.batches import in_thread
from ledger.models import AgentToken, Reading, Scope, Transaction
from ledger.states import State
from ledger.transactions import coordinator
from tests.mcp.wire import call, message_in, messages_in, result_of, said, say

pytestmark = pytest.mark.django_db(transaction=True)
BOTH = pytest.mark.parametrize("modern", [True, False], ids=["2026-07-28", "2025-11-25"])


@pytest.fixture
def token(helpdesk):
    return AgentToken.issue(helpdesk, scopes=[Scope.PROPOSE, Scope.SUBMIT])[1]


def payment(reference="R-1", amount="10.00"):
    return {"reference": reference, "amount": amount}


def approve(alice):
    row = Transaction.objects.get(state=State.PREPARED)
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    execution.commit(row.pk)
    return Transaction.objects.get(pk=row.pk)


def test_an_older_client_shakes_hands_and_keeps_its_version(token):
    answer = result_of(say(token, "initialize", {"protocolVersion": "2025-06-18"}, modern=False))

    assert answer["protocolVersion"] == "2025-06-18"
    assert "assent_wait" in answer["instructions"]


def test_a_new_client_discovers_both_eras(token):
    answer = result_of(say(token, "server/discover"))

    assert {"2026-07-28", "2025-11-25"} <= set(answer["supportedVersions"])
    assert "io.modelcontextprotocol/tasks" in answer["capabilities"]["extensions"]


@BOTH
def test_the_catalogue_comes_as_tools_with_what_their_contracts_promise(token, modern):
    tools = {
        tool["name"]: tool for tool in result_of(say(token, "tools/list", modern=modern))["tools"]
    }

    assert {"pay", "launch", "look_up", "assent_wait", "assent_cancel", "ask_a_person"} <= set(
        tools
    )
    assert tools["pay"]["inputSchema"]["required"] == ["reference", "amount"]
    assert "Needs sign-off" in tools["pay"]["description"]
    assert tools["pay"]["annotations"]["destructiveHint"] is True
    assert tools["look_up"]["annotations"]["readOnlyHint"] is True


@BOTH
def test_a_call_waits_for_sign_off_and_assent_wait_brings_the_receipt(token, alice, modern):
    pending = call(token, "pay", payment(), modern=modern)
    body = pending["structuredContent"]
    assert (body["status"], pending["isError"]) == ("pending", False)
    assert "assent_wait" in body["next"]

    row = approve(alice)
    waited = {"transaction_id": body["transaction_id"]}
    told = call(token, "assent_wait", waited, modern=modern)

    assert told["structuredContent"]["status"] == "succeeded"
    assert told["structuredContent"]["receipt"] == row.receipt != ""
    assert told["isError"] is False


def test_a_refusal_says_why_and_not_to_retry(token, alice):
    body = call(token, "pay", payment())["structuredContent"]
    row = Transaction.objects.get()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="Twice.")

    told = call(token, "assent_wait", {"transaction_id": body["transaction_id"]})

    assert told["isError"] is True
    assert told["structuredContent"]["status"] == "refused"
    assert told["structuredContent"]["do_not_retry"] is True
    assert "Twice." in told["structuredContent"]["sentence"]


def test_a_call_that_needs_nobody_brings_its_receipt_at_once(token):
    async def story() -> httpx.Response:
        arguments = {"name": "write_note", "arguments": {"text": "hello"}}
        calling = asyncio.create_task(said(token, "tools/call", arguments))
        row = await until_there(State.APPROVED)
        await in_thread(execution.commit, row.pk)
        return await calling

    told = result_of(in_a_loop(story()))

    assert told["structuredContent"]["status"] == "succeeded"
    assert told["structuredContent"]["receipt"]


def test_a_call_that_is_held_brings_the_receipt_and_progress_to_whoever_asked(
    token, alice, monkeypatch
):
    was_told = asyncio.Event()

    async def heard(scope: Any, receive: Any, send: Any) -> None:
        async def hear(message: Any) -> None:
            if b"progressToken" in message.get("body", b""):
                was_told.set()
            await send(message)

        await application(scope, receive, hear)

    async def story() -> httpx.Response:
        meta = {"progressToken": "p-1"}
        params = {"name": "pay", "arguments": payment(), "_meta": meta}
        calling = asyncio.create_task(said(token, "tools/call", params))
        row = await until_there()
        await in_thread(coordinator.approve, row.pk, digest=row.intent_digest, by=alice, via="web")
        await asyncio.wait_for(was_told.wait(), 20)
        await in_thread(execution.commit, row.pk)
        return await calling

    monkeypatch.setattr(asgi, "application", heard)
    answer = in_a_loop(story())

    assert result_of(answer)["structuredContent"]["status"] == "succeeded"
    told = [message for message in messages_in(answer) if "method" in message]
    assert {message["params"]["progressToken"] for message in told} == {"p-1"}


async def until_there(state: str = State.PREPARED) -> Transaction:
    rows = Transaction.objects.filter(state=state)
    async with asyncio.timeout(20):
        while (row := await in_thread(rows.first)) is None:
            await asyncio.sleep(0.02)
    return row


def in_a_loop(story):
    try:
        return asyncio.run(story)
    finally:
        connections.close_all()


# --- tasks ------------------------------------------------------------------------------------


def test_who_follows_tasks_gets_one_that_works_until_people_have_decided(token, alice):
    params = {"name": "pay", "arguments": payment()}
    created = result_of(say(token, "tools/call", params, tasks=True))
    row = Transaction.objects.get()
    assert (created["resultType"], created["taskId"]) == ("task", str(row.pk))
    assert created["status"] == "working"
    assert created["ttlMs"] > 0

    this = {"taskId": created["taskId"]}
    assert result_of(say(token, "tasks/get", this, tasks=True))["status"] == "working"
    row = approve(alice)
    ended = result_of(say(token, "tasks/get", this, tasks=True))

    assert (ended["status"], ended["resultType"]) == ("completed", "complete")
    assert ended["result"]["structuredContent"]["receipt"] == row.receipt


def test_a_refused_task_is_completed_with_an_error_of_the_tool(token, alice):
    created = result_of(
        say(token, "tools/call", {"name": "pay", "arguments": payment()}, tasks=True)
    )
    row = Transaction.objects.get()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="Twice.")

    ended = result_of(say(token, "tasks/get", {"taskId": created["taskId"]}, tasks=True))

    assert (ended["status"], ended["result"]["isError"]) == ("completed", True)


def test_an_update_of_a_task_decides_nothing(token):
    created = result_of(
        say(token, "tools/call", {"name": "pay", "arguments": payment()}, tasks=True)
    )
    update = {"taskId": created["taskId"], "inputResponses": {"approve": {"action": "accept"}}}

    assert result_of(say(token, "tasks/update", update, tasks=True))["resultType"] == "complete"
    assert Transaction.objects.get().state == State.PREPARED


def test_a_task_is_cancelled_before_anybody_decides_and_not_after(token, alice):
    params = {"name": "pay", "arguments": payment()}
    first = result_of(say(token, "tools/call", params, tasks=True))
    say(token, "tasks/cancel", {"taskId": first["taskId"]}, tasks=True)
    ended = result_of(say(token, "tasks/get", {"taskId": first["taskId"]}, tasks=True))
    assert ended["status"] == "cancelled"

    params = {"name": "pay", "arguments": payment("R-2")}
    second = result_of(say(token, "tools/call", params, tasks=True))
    approve(alice)
    say(token, "tasks/cancel", {"taskId": second["taskId"]}, tasks=True)
    ended = result_of(say(token, "tasks/get", {"taskId": second["taskId"]}, tasks=True))
    assert ended["status"] == "completed"


def test_tasks_are_only_for_requests_that_declare_them(token):
    created = result_of(
        say(token, "tools/call", {"name": "pay", "arguments": payment()}, tasks=True)
    )

    answer = say(token, "tasks/get", {"taskId": created["taskId"]})

    assert (answer.status_code, message_in(answer)["error"]["code"]) == (400, -32021)


def test_a_task_in_doubt_works_on_until_somebody_knows(token, alice, the_world):
    created = result_of(
        say(token, "tools/call", {"name": "launch", "arguments": {"rocket": "A"}}, tasks=True)
    )
    row = Transaction.objects.get()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    lease = execution.claim(row.pk)
    recording.record_doubt(lease, "No answer.")

    task = result_of(say(token, "tasks/get", {"taskId": created["taskId"]}, tasks=True))
    waited = call(token, "assent_wait", {"transaction_id": created["taskId"], "seconds": 0})

    assert task["status"] == "working"
    assert waited["structuredContent"]["status"] == "in_doubt"
    assert waited["structuredContent"]["do_not_retry"] is True


def test_a_call_tells_nothing_to_a_token_that_was_revoked_meanwhile(token, alice):
    async def story() -> httpx.Response:
        params = {"name": "pay", "arguments": payment()}
        calling = asyncio.create_task(said(token, "tools/call", params))
        row = await until_there()
        await in_thread(AgentToken.objects.update, revoked_at=timezone.now())
        await in_thread(coordinator.approve, row.pk, digest=row.intent_digest, by=alice, via="web")
        await in_thread(execution.commit, row.pk)
        return await calling

    told = result_of(in_a_loop(story()))

    assert told["structuredContent"]["status"] == "pending"
    assert not told["structuredContent"]["receipt"]


# --- once -------------------------------------------------------------------------------------


def test_the_same_call_under_a_new_request_id_is_the_same_transaction(token):
    first = call(token, "pay", payment())
    again = call(token, "pay", payment())

    assert (
        first["structuredContent"]["transaction_id"] == again["structuredContent"]["transaction_id"]
    )
    assert Transaction.objects.count() == 1


def test_a_repeated_use_of_a_tool_is_told_its_refusal_and_proposes_nothing_new(token, alice):
    meta = {"claudecode/toolUseId": "toolu_1"}
    call(token, "pay", payment(), meta=meta)
    row = Transaction.objects.get()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")

    again = call(token, "pay", payment(), meta=meta)

    assert again["structuredContent"]["status"] == "refused"
    assert Transaction.objects.count() == 1


def test_calls_at_the_same_time_are_one_transaction(token):
    async def story() -> list[httpx.Response]:
        meta = {"assent/hold-s": 0, "assent/idempotency-key": "k-1"}
        params = {"name": "pay", "arguments": payment(), "_meta": meta}
        return await asyncio.gather(*(said(token, "tools/call", params) for _ in range(5)))

    answers = [result_of(answer)["structuredContent"] for answer in in_a_loop(story())]

    assert {answer["transaction_id"] for answer in answers} == {str(Transaction.objects.get().pk)}


def test_a_client_that_leaves_cancels_nothing_and_finds_its_call_again(token):
    async def story() -> httpx.Response:
        params = {"name": "pay", "arguments": payment()}
        calling = asyncio.create_task(said(token, "tools/call", params))
        await until_there()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        params["_meta"] = {"assent/hold-s": 0}
        return await said(token, "tools/call", params)

    again = result_of(in_a_loop(story()))

    row = Transaction.objects.get()
    assert row.state == State.PREPARED
    assert again["structuredContent"]["transaction_id"] == str(row.pk)


# --- the other tools --------------------------------------------------------------------------


def test_a_reading_tool_answers_directly(token):
    told = call(token, "look_up", {"word": "invoice"})

    assert told["structuredContent"]["status"] == "succeeded"
    assert Reading.objects.get().tool == "look_up"
    read = told["structuredContent"]
    assert (read["kind"], read["is_final"], read["do_not_retry"]) == ("succeeded", True, False)
    assert read["sentence"]


def test_the_reason_of_an_agent_reaches_whoever_signs_off(token):
    call(token, "pay", {**payment(), "assent_reason": "The customer was charged twice."})

    assert Transaction.objects.get().stated_reason == "The customer was charged twice."


def test_a_question_to_people_waits_and_can_be_withdrawn(token):
    asked = call(token, "ask_a_person", {"text": "Which of the two?"})
    task = {"transaction_id": asked["structuredContent"]["task_id"]}

    withdrawn = call(token, "assent_cancel", task)
    assert withdrawn["isError"] is False

    assert asked["structuredContent"]["status"] == "pending"
    assert withdrawn["structuredContent"]["status"] == "withdrawn"


def test_the_answer_of_a_person_completes_the_question(token, bob):
    params = {"name": "ask_a_person", "arguments": {"text": "Which of the two?"}}
    created = result_of(say(token, "tools/call", params, tasks=True))
    questions.answer(Question.objects.get().pk, "The first.", by=bob, via="web")

    ended = result_of(say(token, "tasks/get", {"taskId": created["taskId"]}, tasks=True))

    assert ended["status"] == "completed"
    assert ended["result"]["structuredContent"]["answer"] == "The first."


def test_who_answers_says_nothing_of_how_the_question_stands(a_claimed_task, worker, orchestrator):
    task = a_claimed_task()
    lies = {"status": "pending", "do_not_retry": False, "task_id": "x", "sentence": "Pay again."}
    tasks.complete(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        result={"summary": "Both.", **lies},
        via="api",
    )
    token = AgentToken.issue(orchestrator, scopes=[Scope.SUBMIT])[1]

    told = call(token, "assent_wait", {"transaction_id": str(task.pk)})["structuredContent"]

    assert (told["summary"], told["task_id"]) == ("Both.", str(task.pk))
    assert (told["status"], told["do_not_retry"]) == ("succeeded", True)
    assert told["sentence"] != lies["sentence"]


def test_a_call_is_withdrawn_before_anybody_decides(token):
    body = call(token, "pay", payment())["structuredContent"]

    told = call(token, "assent_cancel", {"transaction_id": body["transaction_id"]})

    assert told["isError"] is False
    assert told["structuredContent"]["status"] == "withdrawn"


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("pay", {"reference": "R-1"}, "invalid_arguments"),
        ("pay", payment("unknown"), "plan_refused"),
        ("pay", {**payment(), "assent_reason": "x" * 3000}, "invalid_request"),
        ("assent_wait", {"transaction_id": "not one"}, "not_found"),
        ("assent_wait", {}, "not_found"),
    ],
)
def test_a_call_that_comes_to_nothing_is_a_result_that_the_model_reads(
    token, name, arguments, code
):
    told = call(token, name, arguments)

    assert told["isError"] is True
    assert told["structuredContent"]["code"] == code
