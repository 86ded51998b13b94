"""A2A 1.0 and 0.3 at our doors: every operation, every refusal, nothing that surfaces as -32603."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import httpx
import pytest

from a2a import questions, tasks
from a2a.models import Task
from approvals.asgi import application
from ledger.models import Agent, AgentToken, Scope
from tests.agents_at_work import GOOD_INPUT

pytestmark = pytest.mark.django_db(transaction=True)


class Peer:
    """A client that speaks JSON-RPC by hand, so that it can speak badly as well."""

    def __init__(self, agent: Agent, *scopes: str) -> None:
        _, self.token = AgentToken.issue(agent, scopes=list(scopes))

    def http(self, method: str, path: str, **said: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}", "A2A-Version": "1.0"}
        headers |= said.pop("headers", {})

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(application)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                return await http.request(method, path, headers=headers, timeout=30, **said)

        return asyncio.run(send())

    def rpc(self, method: str, params: Any = None, path: str = "/a2a/v1", **said: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        return self.http("POST", path, json=body, **said).json()

    def send(self, value: Any = GOOD_INPUT, skill: str = "consolidate", **message: Any) -> Any:
        parts = [{"data": {"skill": skill, "input": value}}]
        message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": parts, **message}
        answer = self.rpc(
            "SendMessage", {"message": message, "configuration": {"returnImmediately": True}}
        )
        return answer["result"]["task"] if "result" in answer else answer["error"]


@pytest.fixture
def peer(orchestrator: Agent) -> Peer:
    return Peer(orchestrator, Scope.SUBMIT)


def test_a_message_becomes_a_task_that_is_read_listed_and_canceled(peer, consolidate):
    task = peer.send()
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"

    read = peer.rpc("GetTask", {"id": task["id"]})["result"]
    assert read["history"][0]["parts"][0]["data"]["input"] == GOOD_INPUT
    assert "history" not in peer.rpc("GetTask", {"id": task["id"], "historyLength": 0})["result"]
    listed = peer.rpc("ListTasks", {"contextId": task["contextId"]})["result"]
    assert [item["id"] for item in listed["tasks"]] == [task["id"]]
    assert listed["nextPageToken"] == ""
    canceled = peer.rpc("CancelTask", {"id": task["id"]})["result"]
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    reason = canceled["status"]["message"]["parts"][1]["data"]["reason"]
    assert reason["code"] == "canceled_by_client"
    assert peer.rpc("CancelTask", {"id": task["id"]})["error"]["code"] == -32002
    assert peer.rpc("SubscribeToTask", {"id": task["id"]})["error"]["code"] == -32004


@pytest.mark.parametrize("path", ["/a2a/v1", "/a2a/rest/message:send"])
def test_an_idempotency_key_in_the_header_makes_one_task(peer, consolidate, path):
    def send(value):
        parts = [{"data": {"skill": "consolidate", "input": value}}]
        message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": parts}
        params = {"message": message, "configuration": {"returnImmediately": True}}
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        body = rpc if path == "/a2a/v1" else params
        return peer.http("POST", path, json=body, headers={"Idempotency-Key": '"k-1"'}).json()

    first, again, other = send(GOOD_INPUT), send(GOOD_INPUT), send({"transcripts": []})

    assert "error" not in first
    assert Task.objects.get().idempotency_key == "k-1"
    assert str(Task.objects.get().pk) in json.dumps(again)
    assert "idempotency_key_reused" in json.dumps(other)


def test_pages_are_cut_where_asked_newest_first(peer, consolidate):
    ids = [peer.send()["id"] for _ in range(5)]
    seen, token = [], ""
    while True:
        page = peer.rpc("ListTasks", {"pageSize": 2, "pageToken": token})["result"]
        seen += [task["id"] for task in page["tasks"]]
        if not (token := page["nextPageToken"]):
            break

    assert seen == ids[::-1]
    assert page["totalSize"] == 5
    for wrong in ({"pageSize": 0}, {"pageSize": 101}, {"pageToken": "x"}):
        assert peer.rpc("ListTasks", wrong)["error"]["code"] == -32602


def test_a_question_is_answered_by_a_message_on_the_task(peer, consolidate, worker):
    task = peer.send()
    work = tasks.claim(worker.principal, skills=[], via="api")
    form = {
        "type": "object",
        "properties": {"date": {"enum": ["May 3", "May 5"]}},
        "required": ["date"],
    }
    questions.ask(
        work.pk,
        agent=worker.principal,
        fencing_token=work.fencing_token,
        text="Which date?",
        form=form,
        via="api",
    )

    asked = peer.rpc("GetTask", {"id": task["id"]})["result"]["status"]
    assert asked["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert asked["message"]["parts"][0]["text"] == "Which date?"
    assert asked["message"]["parts"][1]["data"]["question"]["form"] == form
    wrong = peer.send(taskId=task["id"], parts=[{"text": "June"}])
    assert wrong["code"] == -32602
    assert "answer_invalid" in json.dumps(wrong["data"])
    answered = peer.send(taskId=task["id"], parts=[{"text": "May 3"}])
    assert answered["status"]["state"] == "TASK_STATE_WORKING"
    assert Task.objects.get().questions.get().answer == {"date": "May 3"}


def test_a_message_to_a_task_that_has_ended_is_refused(peer, consolidate):
    task = peer.send()
    peer.rpc("CancelTask", {"id": task["id"]})

    assert peer.send(taskId=task["id"])["code"] == -32004


def test_a_blocking_send_waits_until_the_task_rests(peer, consolidate, worker, settings):
    settings.BLOCKING_SEND_S = 10
    message = {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [{"data": {"skill": "consolidate", "input": GOOD_INPUT}}],
    }

    async def together() -> Any:
        transport = httpx.ASGITransport(application)
        headers = {"Authorization": f"Bearer {peer.token}", "A2A-Version": "1.0"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            sent = asyncio.create_task(http.post("/a2a/v1", json=body, headers=headers, timeout=30))
            await asyncio.to_thread(_complete_first_task, worker)
            return (await sent).json()

    task = asyncio.run(together())["result"]["task"]

    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"][0]["data"] == {"summary": "ok"}


def _complete_first_task(worker: Agent) -> None:
    from django.db import connection

    from tests.processes import until

    task = until(lambda: tasks.claim(worker.principal, skills=[], via="api"))
    tasks.complete(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        result={"summary": "ok"},
        via="api",
    )
    connection.close()


def test_without_a_token_there_is_401_and_nothing_else(consolidate):
    async def ask(path: str) -> httpx.Response:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.post(path, json={}, headers={"Authorization": "Bearer nope"})

    for path in ("/a2a/v1", "/a2a/v1/", "/a2a/v0.3", "/a2a/rest/message:send"):
        answer = asyncio.run(ask(path))
        assert (answer.status_code, answer.headers["www-authenticate"]) == (
            401,
            'Bearer realm="assent"',
        )


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


BAD_BODIES = {
    "nul": json.dumps({"text": "a\x00b"}),
    "surrogate": '{"text": "\\ud800"}',
    "deep": '{"data": ' + '{"a":' * 80 + "1" + "}" * 80 + "}",
    "very deep": '{"data": ' + "[" * 5000 + "]" * 5000 + "}",
    "huge integer": '{"data": {"a": 1' + "0" * 400 + "}}",
    "huger integer": '{"data": {"a": ' + "1" * 5000 + "}}",
    "not a number": '{"data": {"a": NaN}}',
    "infinite": '{"data": {"a": 1e999}}',
    "unknown part": '{"hologram": {"x": 1}}',
    "empty part": "{}",
    "two kinds": '{"text": "a", "url": "b"}',
    "wrong type": '{"text": 5}',
    "bad base64": '{"raw": "@@@"}',
}


@pytest.mark.parametrize("name", BAD_BODIES)
@pytest.mark.parametrize("binding", ["v1", "v0.3", "rest"])
def test_nothing_that_a_client_sends_is_an_internal_error(peer, consolidate, name, binding):
    part = BAD_BODIES[name]
    if binding == "v0.3":
        part = part[:1] + '"kind": "data", ' + part[1:] if part != "{}" else part
        message = f'{{"kind": "message", "messageId": "m", "role": "user", "parts": [{part}]}}'
        body = (
            f'{{"jsonrpc":"2.0","id":1,"method":"message/send","params":{{"message":{message},'
            f'"configuration":{{"blocking":false}}}}}}'
        )
        path, version = "/a2a/v0.3", "0.3"
    else:
        message = f'{{"messageId": "m", "role": "ROLE_USER", "parts": [{part}]}}'
        params = f'{{"message": {message}, "configuration": {{"returnImmediately": true}}}}'
        body = f'{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{params}}}'
        path, version = "/a2a/v1", "1.0"
        if binding == "rest":
            body, path = params, "/a2a/rest/message:send"

    headers = {"A2A-Version": version, "Content-Type": "application/json"}
    answer = peer.http("POST", path, content=body.encode(), headers=headers)

    assert answer.status_code < 500, answer.text
    assert "-32603" not in answer.text, answer.text


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (b"[" * 3000, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"Nope"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":7}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"\\u0000"}}', -32001),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}', -32001),
    ],
)
def test_malformed_requests_are_said_as_the_specification_says(peer, body, code):
    answer = peer.http("POST", "/a2a/v1", content=body)

    assert answer.json()["error"]["code"] == code


def test_a_body_over_the_limit_is_refused_before_it_is_parsed(peer, settings):
    settings.A2A_BODY_MAX = 1000
    answer = peer.http("POST", "/a2a/v1", content=b"x" * 1001)

    assert answer.status_code == 413
    assert "at most 1000 bytes" in answer.json()["error"]["message"]


def test_another_version_is_refused(peer, consolidate):
    assert peer.rpc("ListTasks", headers={"A2A-Version": "0.3"})["error"]["code"] == -32009
    assert peer.rpc("ListTasks", headers={"A2A-Version": ""})["error"]["code"] == -32009
    assert "result" in peer.rpc("ListTasks", headers={"A2A-Version": "1.1"})


def test_the_tenant_of_a_request_is_the_one_of_its_token(peer, consolidate):
    assert peer.rpc("ListTasks", {"tenant": "globex"})["error"]["code"] == -32602
    assert "result" in peer.rpc("ListTasks", {"tenant": "acme"})
    assert peer.http("GET", "/a2a/rest/acme/tasks").status_code == 200
    assert peer.http("GET", "/a2a/rest/globex/tasks").status_code == 400


def test_over_http_and_json(peer, consolidate):
    body = {
        "message": {
            "messageId": "m",
            "role": "ROLE_USER",
            "parts": [{"data": {"skill": "consolidate", "input": GOOD_INPUT}}],
        },
        "configuration": {"returnImmediately": True},
    }
    task = peer.http("POST", "/a2a/rest/message:send", json=body).json()["task"]

    assert peer.http("GET", f"/a2a/rest/tasks/{task['id']}").json()["id"] == task["id"]
    missing = peer.http("GET", f"/a2a/rest/tasks/{uuid4()}")
    assert missing.status_code == 404
    assert missing.json()["error"]["details"][0]["domain"] == "a2a-protocol.org"
    assert peer.http("POST", f"/a2a/rest/tasks/{task['id']}:cancel").status_code == 200


def test_version_0_3_has_a_path_and_a_card_of_its_own(peer, consolidate, client):
    message = {
        "kind": "message",
        "messageId": "m",
        "role": "user",
        "parts": [{"kind": "data", "data": {"skill": "consolidate", "input": GOOD_INPUT}}],
    }
    sent = peer.rpc(
        "message/send",
        {"message": message, "configuration": {"blocking": False}},
        path="/a2a/v0.3",
        headers={"A2A-Version": "0.3"},
    )["result"]

    assert (sent["kind"], sent["status"]["state"]) == ("task", "submitted")
    card = client.get("/a2a/v0.3/agent-card.json").json()
    assert card["protocolVersion"].startswith("0.3")
    assert card["url"].endswith("/a2a/v0.3")
    read = peer.rpc(
        "tasks/get", {"id": sent["id"]}, path="/a2a/v0.3", headers={"A2A-Version": "0.3"}
    )["result"]
    assert read["id"] == sent["id"]


def test_numbers_come_back_as_they_were_sent(peer, worker):
    from a2a.models import Skill

    Skill.objects.create(
        agent=worker,
        slug="count",
        name="Count",
        input_schema={"properties": {"n": {"type": "integer"}}},
    )
    task = peer.send({"n": 42}, skill="count")

    assert Task.objects.get(pk=task["id"]).input == {"n": 42}
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
