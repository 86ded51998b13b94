"""An agent is tried without a server, and nobody can take that for a desk."""

from __future__ import annotations

import asyncio

import pytest

from examples.frameworks.assent_client import Assent, AsyncAssent, Refused
from examples.frameworks.assent_development import DevelopmentDesk, DevelopmentTool

ARGUMENTS = {"payment_id": "pay_1042"}


def closed(payment_id):
    raise OSError("closed")


TOOLS = {
    "refund": DevelopmentTool(lambda payment_id: {"refunded": payment_id}, "Give money back."),
    "fail": DevelopmentTool(closed),
    "look": DevelopmentTool(lambda: None, kind="readonly"),
}


def client(*decide, **more):
    return Assent(DevelopmentDesk.URL, "development", DevelopmentDesk(TOOLS, *decide), **more)


def told(decide, tool="refund", **more):
    desk = client(decide, **more)
    return desk.wait(desk.prepare(tool, ARGUMENTS).transaction_id, timeout=5).for_model()


def test_people_approve_refuse_or_do_not_come():
    approved = told(lambda desk, one: desk.approve(one.transaction_id))
    refused = told(lambda desk, one: desk.refuse(one.transaction_id, "Paid before."))
    late = told(lambda desk, one: desk.expire(one.transaction_id))
    failed = told(lambda desk, one: desk.approve(one.transaction_id), "fail")

    ended = [one["status"] for one in (approved, refused, late, failed)]
    assert ended == ["succeeded", "refused", "expired", "failed"]
    assert approved["result"] == {"refunded": "pay_1042"}
    assert (refused["reason"], failed["reason"]) == ("Paid before.", "OSError('closed')")


def test_somebody_asks_is_answered_and_decides_then():
    def decide(desk, one):
        if one.answers:
            return desk.refuse(one.transaction_id, one.answers[0])
        return desk.ask(one.transaction_id, "Which lamp?")

    assert told(decide)["question"] == "Which lamp?"
    answered = told(decide, on_question=lambda outcome: f"Not {outcome.question}")
    assert answered["reason"] == "Not Which lamp?"


def test_an_event_loop_waits_while_somebody_decides_elsewhere():
    desk = DevelopmentDesk(TOOLS)

    async def agent():
        assent = AsyncAssent(DevelopmentDesk.URL, "development", desk)
        intent = await assent.prepare("refund", ARGUMENTS)
        waiting = asyncio.create_task(assent.wait(intent.transaction_id, timeout=10))
        await asyncio.to_thread(desk.approve, intent.transaction_id)
        return await waiting

    assert asyncio.run(agent()).succeeded


def test_the_same_key_is_the_same_proposal_and_it_can_be_taken_back_once():
    desk = client()
    one, two = (desk.prepare("refund", ARGUMENTS, key="k") for _ in range(2))

    assert one == two
    assert desk.wait(one.transaction_id, timeout=0.02).kind == "pending"
    assert desk.cancel(one.transaction_id, "No.").reason == "No."
    with pytest.raises(Refused, match="does not wait"):
        desk.cancel(one.transaction_id)


def test_what_only_reads_answers_at_once_and_what_is_not_there_is_refused():
    desk = client()

    assert [(tool.name, tool.kind) for tool in desk.tools()] == [
        ("refund", "transactional"),
        ("fail", "transactional"),
        ("look", "readonly"),
    ]
    assert desk.call("look", {}) is None
    for refused in (lambda: desk.prepare("invented", {}), lambda: desk.ask("Why?")):
        with pytest.raises(Refused, match="There is no"):
            refused()


def test_it_says_loudly_and_with_each_outcome_that_it_is_no_desk(capsys):
    said = told(lambda desk, one: desk.approve(one.transaction_id))

    assert "no desk] Nobody signs off" in capsys.readouterr().err
    assert "no desk" in said["message"]
    assert said["receipt"].startswith("development-")
