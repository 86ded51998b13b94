"""What people ask, change and send back, as an MCP client reads it and answers."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from ledger import execution
from ledger.models import AgentToken, Scope, Transaction
from ledger.transactions import coordinator
from tests.mcp.wire import call, result_of, said, say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.of_app("a2a.doors.mcp_server")]

QUESTION, ANSWER = "Which order is it for?", "For the one of March."
WRONG = {"order": "o1", "amount": "482.00"}


@pytest.fixture
def token(helpdesk):
    return AgentToken.issue(helpdesk, scopes=[Scope.PROPOSE])[1]


def told(token, name, **arguments):
    answer = call(token, name, arguments)
    return answer["structuredContent"], answer["isError"]


@pytest.fixture
def row(token):
    told(token, "refund", **WRONG)
    return Transaction.objects.get()


def asked(row, alice):
    return coordinator.ask(row.pk, by=alice, via="web", text=QUESTION)


def test_a_wait_ends_with_the_question_and_the_answer_goes_to_the_people(token, row, alice):
    async def waiting():
        params = {"name": "assent_wait", "arguments": {"transaction_id": str(row.pk)}}
        wait = asyncio.create_task(said(token, "tools/call", params))
        await asyncio.sleep(0)
        await sync_to_async(asked)(row, alice)
        return await asyncio.wait_for(wait, 20)

    try:
        answer = asyncio.run(waiting())
    finally:
        connections.close_all()
    body = result_of(answer)["structuredContent"]
    assert (body["status"], body["question"]["text"]) == ("pending", QUESTION)
    assert body["next"].startswith("Call assent_answer")

    body, is_error = told(token, "assent_answer", transaction_id=str(row.pk), text=ANSWER)

    assert (body["question"], is_error) == (None, False)
    row.refresh_from_db()
    assert row.asked_at is None
    assert row.events.get(kind="answered").via == "mcp"


def test_a_task_goes_on_working_and_says_the_question(token, row, alice):
    asked(row, alice)

    task = result_of(say(token, "tasks/get", {"taskId": str(row.pk)}, tasks=True))

    assert task["status"] == "working"
    assert QUESTION in task["statusMessage"]


def test_nobody_but_whoever_proposed_it_answers(token, row, alice, orchestrator, helpdesk):
    asked(row, alice)
    reader = AgentToken.issue(orchestrator, scopes=[Scope.PROPOSE, Scope.READ_ALL])[1]
    weak = AgentToken.issue(helpdesk, scopes=[Scope.SUBMIT, Scope.READ_ALL])[1]

    for stranger in (reader, weak):
        body, is_error = told(stranger, "assent_answer", transaction_id=str(row.pk), text=ANSWER)
        assert (is_error, body["code"]) == (True, "not_allowed")
    row.refresh_from_db()
    assert row.asked_at is not None


@pytest.mark.parametrize(
    "arguments", [{"transaction_id": "x", "text": "x"}, {"text": 7}, {"text": " "}, {}]
)
def test_an_answer_that_names_nothing_or_says_nothing_is_refused(token, row, alice, arguments):
    asked(row, alice)

    _, is_error = told(token, "assent_answer", **{"transaction_id": str(row.pk)} | arguments)

    row.refresh_from_db()
    assert is_error
    assert row.asked_at is not None


def test_what_was_changed_comes_with_the_receipt(token, row, alice):
    row = coordinator.revise(
        row.pk, {"amount": "48.20"}, digest=row.intent_digest, by=alice, via="web"
    )
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    execution.commit(row.pk)

    body, is_error = told(token, "assent_wait", transaction_id=str(row.pk))

    assert (body["status"], is_error, body["revision"]) == ("succeeded", False, 2)
    assert {"path": "arguments.amount", "from": "482.00", "to": "48.20"} in body["changed"]


def test_what_was_sent_back_says_how_and_is_called_again_in_its_place(token, row, alice):
    coordinator.send_back(
        row.pk, digest=row.intent_digest, by=alice, via="web", reason="Take 40 off."
    )
    execution.roll_back(row.pk)

    body, is_error = told(token, "assent_wait", transaction_id=str(row.pk))
    assert (is_error, body["do_not_retry"]) == (True, False)
    assert body["change_request"]["text"] == "Take 40 off."
    assert body["next"].endswith(f"with assent_replaces: {row.pk}.")

    again, _ = told(token, "refund", order="o1", amount="442.00", assent_replaces=str(row.pk))
    assert again["replaces"] == str(row.pk)


@pytest.mark.parametrize("replaces", ["the last one", 7, "own"])
def test_what_was_not_sent_back_is_replaced_by_nothing(token, row, replaces):
    named = str(row.pk) if replaces == "own" else replaces

    body, is_error = told(token, "refund", order="o2", amount="1.00", assent_replaces=named)

    assert (is_error, body["code"]) == (True, "invalid_request")
    assert Transaction.objects.count() == 1
