"""The demo agent against a played Assent: what it sends, how patient it is, what it says."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest

from examples import agent
from examples.agent import Assent, Helpdesk, Refused, Work, describe

Handler = Callable[[httpx.Request], httpx.Response]
ALICE = {
    "verdict": "approve",
    "principal": "user:7",
    "principal_name": "Alice Moreau",
    "via": "slack",
    "reason": "",
    "at": "2026-11-20T12:00:00+00:00",
}
TOKEN = {
    "status": "prepared",
    "transaction_id": str(uuid4()),
    "action_summary": "Refund €48.20 to Ana Ruiz for order 1042",
    "warnings": ["€5.00 was refunded before."],
    "expires_in": 600.0,
    "links": {"wait": "http://live/tx?wait=30", "desk": "http://desk/tx/"},
}


@pytest.fixture(autouse=True)
def _running(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting takes no time, and the clock goes on by it."""
    now = [0.0]

    def wait(seconds: float = 0) -> bool:
        now[0] += seconds
        return False

    monkeypatch.setattr(agent.stop, "wait", wait)
    monkeypatch.setattr(agent, "monotonic", lambda: now[0])


def assent(*answers: httpx.Response | Exception) -> tuple[Assent, list[httpx.Request]]:
    """An Assent that gives these answers, and what it was sent."""
    seen: list[httpx.Request] = []
    left = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        given = next(left)
        if isinstance(given, Exception):
            raise given
        return given

    return Assent("http://assent", "tok", httpx.MockTransport(answer)), seen


def row(status: str, ledger_status: str, **more: Any) -> dict[str, Any]:
    told = {"decisions": [], "ending": "", "ending_reason": "", "error": "", "quorum": 1}
    told |= {"receipt": "", "receipt_url": "", "compensation_receipt": ""}
    return {**TOKEN, **told, "status": status, "ledger_status": ledger_status, **more}


def test_a_lost_answer_is_asked_for_again_with_the_same_key():
    client, seen = assent(
        httpx.ReadTimeout("lost"),
        httpx.Response(503),
        httpx.Response(409, headers={"Retry-After": "1"}, json={"code": "request_in_progress"}),
        httpx.Response(201, json=TOKEN),
    )

    assert client.propose({"tool": "refund_customer"}) == TOKEN

    assert len({request.headers["Idempotency-Key"] for request in seen}) == 1
    assert {request.headers["Authorization"] for request in seen} == {"Bearer tok"}
    assert seen[0].headers["Idempotency-Key"].startswith('"')


def test_a_refusal_is_not_asked_for_again():
    problem = {"title": "No", "detail": "Only €10 can be refunded.", "hint": "Ask for less."}
    client, seen = assent(httpx.Response(422, json=problem))

    with pytest.raises(Refused, match="Only €10") as refusal:
        client.propose({})

    assert (refusal.value.hint, len(seen)) == ("Ask for less.", 1)


def test_a_server_that_is_not_up_yet_is_waited_for():
    client, seen = assent(*[httpx.ConnectError("refused")] * 30, httpx.Response(200, json=[]))
    client.wait_until_up()
    assert len(seen) == 31

    client, _ = assent(*[httpx.ConnectError("refused")] * 100)
    with pytest.raises(httpx.ConnectError):
        client.wait_until_up()


def test_news_are_followed_to_the_end_with_the_etag():
    client, seen = assent(
        httpx.Response(200, headers={"ETag": '"1"'}, json=row("approved", "planned")),
        httpx.Response(304, headers={"Retry-After": "2"}),
        httpx.ReadTimeout("the proxy cut it"),
        httpx.Response(200, headers={"ETag": '"2"'}, json=row("committed", "succeeded")),
    )

    states = [now["status"] for now in client.updates(TOKEN)]

    assert states == ["approved", "committed"]
    assert [request.headers.get("If-None-Match") for request in seen] == [None, *['"1"'] * 3]


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (
            row("committed", "succeeded", receipt="re_1", receipt_url="http://s/receipts/re_1"),
            ("✓", "committed, receipt re_1 http://s/receipts/re_1"),
        ),
        (
            row(
                "aborted",
                "failed",
                ending="rejected",
                ending_reason="duplicate of yesterday",
                decisions=[{**ALICE, "verdict": "reject"}],
            ),
            ("✗", "rejected by Alice Moreau (slack): 'duplicate of yesterday'"),
        ),
        (
            row("aborted", "failed", ending="expired"),
            ("✗", "expired: nobody decided in time"),
        ),
        (
            row("prepared", "planned", quorum=2, decisions=[ALICE]),
            ("·", "Alice Moreau (slack) approved; it takes 2 of them"),
        ),
        (
            row("in_doubt", "in_progress", error="ReadTimeout"),
            ("?", "the outcome is not known yet: ReadTimeout"),
        ),
        (
            row("failed", "failed", ending="failed", ending_reason="Only 10.00 EUR is left."),
            ("✗", "did not happen: Only 10.00 EUR is left."),
        ),
        (row("committing", "in_progress"), None),
    ],
)
def test_news_are_told_in_words(now, words):
    assert describe(now, decisions_told=0) == words


def test_what_is_proposed_already_is_not_proposed_twice(capsys):
    client, _ = assent(httpx.Response(200, json={**TOKEN, "duplicate_of": "0198"}))

    assert Work(client).propose(dict) is False
    assert "nothing is done twice" in capsys.readouterr().out


def test_other_peoples_text_cannot_move_the_cursor(capsys):
    agent.say("✗", "no\x1b[2J\nand more")
    assert "no [2J and more" in capsys.readouterr().out


def test_proposals_differ_and_fit_what_was_looked_up():
    def answer(request: httpx.Request) -> httpx.Response:
        arguments = json.loads(request.content)["arguments"]
        price = {"amount": "24900", "currency": "JPY"}
        found = {
            "find_payment": {
                "id": arguments.get("payment_id"),
                "customer": "Ana Ruiz",
                "remaining": "1000",
                "currency": "JPY",
            },
            "find_flights": {
                "flights": [{"flight_id": "-".join(map(str, arguments.values())), "price": price}]
            },
        }
        return httpx.Response(200, json={"result": found[request.url.path.split("/")[-2]]})

    client = Assent("http://assent", "tok", httpx.MockTransport(answer))
    helpdesk = Helpdesk(client, random.Random(7))

    proposals = [helpdesk.anything() for _ in range(60)]

    subjects = [tuple(sorted(proposal["arguments"].items())) for proposal in proposals]
    refunds = [one for one in proposals if one["tool"] == "refund_customer"]
    assert {one["tool"] for one in proposals} == {
        "refund_customer",
        "book_flight",
        "terminate_cloud_instance",
        "goodwill_refund",
    }
    assert len(set(subjects)) == len(subjects)
    assert all(one["arguments"]["amount"].isdecimal() for one in refunds)
    assert {one.get("ttl_s") for one in refunds} == {None, 45}
    assert len({one["step_id"] for one in proposals}) == 60


def test_a_payment_that_the_agent_made_up_is_refused_in_the_providers_words(capsys):
    """Visible where the agent runs; the desk's history has it too."""
    problem = {
        "title": "Refused",
        "detail": "There is no payment pay_48213.",
        "hint": "Look it up.",
    }
    client, seen = assent(httpx.Response(422, json=problem))
    helpdesk = Helpdesk(client, random.Random(7))

    assert Work(client).propose(helpdesk.invented) is False

    assert "✗ refused: There is no payment pay_48213. Look it up." in capsys.readouterr().out
    made_up = json.loads(seen[0].content)["arguments"]["payment_id"]
    assert int(made_up.removeprefix("pay_")) > 9999


def test_a_supervisor_that_passes_on_has_not_approved():
    passed_on = {"verdict": "pass_on", "principal_name": "Goodwill", "via": "api"}
    now = {"status": "prepared", "decisions": [passed_on], "quorum": 1}

    assert describe(now, decisions_told=0) == ("·", "Goodwill (api) passed it on to people")
