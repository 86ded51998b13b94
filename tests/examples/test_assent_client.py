"""The client for agent frameworks, against a played Assent and a real one."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import httpx
import pytest

from examples.frameworks import assent_client
from examples.frameworks.assent_client import (
    Assent,
    AsyncAssent,
    BadSignature,
    NotAnswered,
    Refused,
    Unreachable,
    key_of,
    verify_webhook,
)
from ledger import execution
from ledger.delivery.webhooks import channel
from ledger.models import Agent, AgentToken, Scope, Transaction
from ledger.transactions import coordinator

ID = "01a1fb78-53c5-70b5-af29-92d7960ba506"
TOKEN = {
    "transaction_id": ID,
    "action_summary": "Refund €48.20 to Ana Ruiz",
    "warnings": [],
    "expires_at": "2026-11-22T09:45:00Z",
    "links": {"desk": f"http://desk/transactions/{ID}/", "wait": f"http://live/x/{ID}?wait=30"},
}
ARGUMENTS = {"payment_id": "pay_1042"}


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waiting takes no time, and the clock goes on by it."""
    slept: list[float] = []
    start = time.monotonic()
    clock = SimpleNamespace(
        sleep=slept.append, monotonic=lambda: start + sum(slept), time=time.time
    )
    monkeypatch.setattr(assent_client, "time", clock)
    return slept


def played(*answers: Any) -> tuple[Assent, list[httpx.Request]]:
    seen: list[httpx.Request] = []
    left = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        given = next(left)
        if isinstance(given, Exception):
            raise given
        return given

    return Assent("http://assent", "tok", httpx.MockTransport(answer)), seen


def row(kind: str, *, is_final: bool, **more: Any) -> dict[str, Any]:
    outcome = {"kind": kind, "is_final": is_final, "sentence": "So it is.", "do_not_retry": True}
    told = {"ending_reason": "", "decisions": [], "receipt": "", "receipt_url": "", "result": None}
    told |= {"changed": [], "question": None, "change_request": None}
    return {**TOKEN, **told, "outcome": outcome, **more}


def test_a_lost_answer_is_asked_for_again_with_the_same_key(pauses):
    busy = httpx.Response(409, headers={"Retry-After": "7"}, json={"code": "request_in_progress"})
    desk, seen = played(
        httpx.ReadTimeout("lost"), httpx.Response(503), busy, httpx.Response(201, json=TOKEN)
    )

    intent = desk.prepare("refund_customer", ARGUMENTS, reason="Photos.", run_id="r")

    assert (intent.transaction_id, intent.url) == (ID, TOKEN["links"]["desk"])
    assert len({request.headers["Idempotency-Key"] for request in seen}) == 1
    assert json.loads(seen[0].content) == {
        "tool": "refund_customer",
        "arguments": ARGUMENTS,
        "reason": "Photos.",
        "run_id": "r",
    }
    assert pauses == [2.0, 4.0, 8.0]


def test_a_refusal_is_not_asked_for_again_and_says_whether_to_correct_it():
    problem = {
        "code": "plan_refused",
        "detail": "Only €10 can be refunded.",
        "hint": "Ask for less.",
    }
    desk, seen = played(httpx.Response(422, json=problem))

    with pytest.raises(Refused, match=r"Only €10 can be refunded\. Ask for less.") as refusal:
        desk.prepare("refund_customer", ARGUMENTS)

    told = refusal.value.for_model()
    assert (len(seen), told["status"], told["do_not_retry"]) == (1, "refused", False)


def test_an_address_that_leads_elsewhere_is_refused_and_not_followed():
    desk, seen = played(httpx.Response(301, headers={"Location": "http://elsewhere/"}))

    with pytest.raises(Refused, match="HTTP 301"):
        desk.get(ID)

    assert len(seen) == 1


def test_members_of_later_versions_are_ignored():
    told = row("failed", is_final=True, later="more")
    told["outcome"]["later"] = "more"
    desk, _ = played(httpx.Response(200, json=told))

    assert desk.get(ID).kind == "failed"


def test_what_no_other_arguments_would_change_is_not_to_be_tried_again():
    desk, _ = played(httpx.Response(404, json={"code": "unknown_tool", "detail": "No such tool."}))

    with pytest.raises(Refused) as refusal:
        desk.prepare("invented", {})

    assert refusal.value.for_model()["do_not_retry"] is True


def test_an_assent_that_stays_away_is_given_up_after_a_minute(pauses):
    desk, _ = played(*[httpx.ConnectError("refused")] * 20)

    with pytest.raises(Unreachable, match="does not answer"):
        desk.get(ID)

    assert 30 <= sum(pauses) <= 60


def test_waiting_goes_on_by_long_poll_until_the_outcome_is_final():
    desk, seen = played(
        httpx.Response(200, json=row("pending", is_final=False), headers={"ETag": '"1"'}),
        httpx.Response(304),
        httpx.Response(429, headers={"Retry-After": "2"}),
        httpx.Response(200, json=row("in_doubt", is_final=False), headers={"ETag": '"2"'}),
        httpx.Response(200, json=row("succeeded", is_final=True, receipt="rc_1")),
    )

    outcome = desk.wait(ID)

    assert (outcome.kind, outcome.receipt, outcome.succeeded) == ("succeeded", "rc_1", True)
    assert str(seen[1].url) == f"http://live/x/{ID}?wait=30.0"
    assert [request.headers.get("If-None-Match") for request in seen[1:]] == ['"1"'] * 3 + ['"2"']


def test_waiting_ends_in_time_with_what_is_known_then(pauses):
    pending = row("pending", is_final=False)
    desk, _ = played(httpx.Response(200, json=pending), *[httpx.Response(304)] * 9)

    outcome = desk.wait(ID, timeout=10)

    assert (outcome.kind, outcome.is_final) == ("pending", False)
    assert sum(pauses) == 10


def test_a_question_nobody_answered_is_an_error_that_says_so():
    task = {"task_id": "t1", "state": "working", "retry_after_s": 2, "reason": None, "result": None}
    ended = {**task, "state": "canceled", "reason": {"detail": "Not answered within 10m."}}
    desk, seen = played(httpx.Response(201, json=task), httpx.Response(200, json=ended))

    with pytest.raises(NotAnswered, match="within 10m"):
        desk.ask("Which lamp?", ["left", "right"])

    form = json.loads(seen[0].content)["input"]["form"]
    assert form == {"type": "string", "enum": ["left", "right"]}


def test_keys_differ_by_each_part():
    assert key_of("a", "b") == key_of("a", "b")
    assert len({key_of("a", "b"), key_of("ab"), key_of("b", "a"), key_of("a", "b", "")}) == 4


SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes ....").decode()


def test_a_webhook_as_assent_signs_it_is_verified():
    post = channel.signed("https://agent.example", SECRET, "msg_1", {"type": "x", "data": {}})

    assert verify_webhook(post.headers, post.body, SECRET) == {"type": "x", "data": {}}


def signed_at(at: str) -> dict[str, str]:
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    mac = hmac.new(key, f"msg_1.{at}.".encode() + b"{}", hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(mac).decode()}"
    return {"webhook-id": "msg_1", "webhook-timestamp": at, "webhook-signature": signature}


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "msg_2"},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": ""},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "²"},
        signed_at(str(int(time.time()) - 3600)),
    ],
)
def test_a_webhook_that_was_changed_or_is_old_is_refused(change):
    headers = {**signed_at(str(int(time.time()))), **change}

    with pytest.raises(BadSignature):
        verify_webhook(headers, b"{}", SECRET)


# --- against a real Assent ------------------------------------------------------------------------


@pytest.fixture
def desk(credentials: tuple[str, str]) -> Iterator[Assent]:
    desk = Assent(*credentials)
    yield desk
    desk.close()


@pytest.fixture
def credentials(live_server: Any, settings: Any, helpdesk: Agent) -> tuple[str, str]:
    settings.PUBLIC_URL = settings.LIVE_URL = live_server.url
    _, token = AgentToken.issue(helpdesk, scopes=[Scope.PROPOSE, Scope.SUBMIT])
    return live_server.url, token


@pytest.mark.django_db(transaction=True)
def test_both_clients_propose_the_same_transaction_and_read_its_outcome(desk, credentials, alice):
    said = ("pay", {"reference": "o1", "amount": "48.20"})
    intent = desk.prepare(*said, key="k1")

    async def elsewhere() -> tuple[str, Any, list[str]]:
        other = AsyncAssent(*credentials)
        again = await other.prepare(*said, key="k1")
        coordinated = await other.wait(again.transaction_id, timeout=0)
        names = [tool.name for tool in await other.tools()]
        await other.close()
        return again.transaction_id, coordinated, names

    again, waiting, names = asyncio.run(elsewhere())
    row = Transaction.objects.get()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    execution.commit(row.pk)
    outcome = desk.wait(intent.transaction_id, timeout=5)

    assert (again, waiting.kind) == (intent.transaction_id, "pending")
    assert {"pay", "look_up"} <= set(names)
    assert (outcome.kind, outcome.decided_by) == ("succeeded", ["Alice Moreau"])
    assert outcome.for_model()["receipt"] == Transaction.objects.get().receipt


@pytest.mark.django_db(transaction=True)
def test_a_proposal_is_taken_back_and_a_reading_answered(desk):
    intent = desk.prepare("pay", {"reference": "o1", "amount": "48.20"})

    outcome = desk.cancel(intent.transaction_id, "The customer called.")

    assert (outcome.kind, outcome.is_final, outcome.do_not_retry) == ("withdrawn", True, True)
    assert "The customer called." in outcome.for_model()["message"]
    assert desk.call("look_up", {"word": "lamp"})


# --- what people ask, change and send back ------------------------------------------------------

QUESTION = {"text": "Which lamp?", "by": "Alice", "at": "2026-11-22T09:40:00Z"}


def asks(request: httpx.Request) -> bool:
    return request.url.path.endswith(f"/{ID}/answer")


def test_a_wait_ends_with_the_question_that_nobody_answers_here():
    desk, seen = played(httpx.Response(200, json=row("pending", is_final=False, question=QUESTION)))

    outcome = desk.wait(ID)

    assert (outcome.is_final, outcome.question, len(seen)) == (False, "Which lamp?", 1)
    assert outcome.for_model()["question"] == "Which lamp?"


@pytest.mark.parametrize("is_late", [False, True])
def test_a_question_is_answered_where_the_program_says_how(is_late):
    waits, ended = row("pending", is_final=False), row("succeeded", is_final=True)
    refused = httpx.Response(409, json={"code": "not_possible"})
    answers = [refused, httpx.Response(200, json=ended)] if is_late else []
    desk, seen = played(
        httpx.Response(200, json={**waits, "question": QUESTION}),
        *(answers or [httpx.Response(200, json=waits), httpx.Response(200, json=ended)]),
    )
    desk._on_question = lambda outcome: f"Not {outcome.question}"

    assert desk.wait(ID).succeeded
    (answer,) = filter(asks, seen)
    assert json.loads(answer.content) == {"text": "Not Which lamp?"}


def test_what_was_changed_or_sent_back_is_told_to_the_model():
    change = {"path": "arguments.amount", "from": "482.00", "to": "48.20"}
    back = {**QUESTION, "text": "Take 40 off."}
    desk, _ = played(
        httpx.Response(200, json=row("succeeded", is_final=True, changed=[change])),
        httpx.Response(200, json=row("refused", is_final=True, change_request=back)),
    )

    assert desk.get(ID).for_model()["changed"] == [change]
    told = desk.get(ID).for_model()
    assert (told["change_request"], told["replaces"]) == ("Take 40 off.", ID)


@pytest.mark.django_db(transaction=True)
def test_a_real_question_is_answered_and_what_was_sent_back_is_replaced(desk, alice):
    desk._on_question = lambda outcome: "The one of March."
    intent = desk.prepare("refund", {"order": "o1", "amount": "482.00"})
    row = coordinator.ask(UUID(intent.transaction_id), by=alice, via="web", text="Which lamp?")

    assert desk.get(intent.transaction_id).question == ""
    coordinator.send_back(row.pk, digest=row.intent_digest, by=alice, via="web", reason="Less.")
    execution.roll_back(row.pk)
    outcome = desk.wait(intent.transaction_id, timeout=5)

    assert outcome.change_request == "Less."
    arguments = {"order": "o1", "amount": "48.20"}
    again = desk.prepare("refund", arguments, replaces=outcome.transaction_id)
    assert str(Transaction.objects.get(pk=again.transaction_id).replaces) == outcome.transaction_id
