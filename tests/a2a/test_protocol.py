"""A2A 1.0 and 0.3 at our doors: every operation, every refusal, nothing that surfaces as -32603."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest
from django.db import connection

from a2a import tasks
from a2a.errors import AlreadyAnswered
from a2a.models import Question, Task
from a2a.protocol.bindings.bodies import parse
from a2a.protocol.errors import INVALID_PARAMS, ProtocolError
from a2a.protocol.updates import Since, updates_since
from a2a.tasks import questions
from a2a.validation.extensions import ENVELOPE_EXTENSION
from approvals.asgi import application
from ledger.api.waiting.bells import changes
from ledger.models import Agent, AgentToken, Scope
from tests.a2a.test_plain_rest import envelope_of
from tests.agents_at_work import GOOD_INPUT
from tests.processes import until

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
        (b"", -32700),
        (b'{"jsonrpc":"1.0","id":1,"method":"GetTask"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"GetTask"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"GetTask"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":"x"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","more":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":null}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"Nope"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":7}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"\\u0000"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}', -32001),
    ],
)
def test_malformed_requests_are_said_as_the_specification_says(peer, body, code):
    answer = peer.http("POST", "/a2a/v1", content=body)

    assert answer.json()["error"]["code"] == code


def test_a_body_over_the_limit_is_refused_before_it_is_parsed(peer, settings):
    settings.A2A_BODY_MAX = 1000
    part = {"type": "http.request", "body": b"x" * 1001, "more_body": True}

    started, said = asgi_request("/a2a/v1", peer.token, [part])

    assert started["status"] == 413
    assert "at most 1000 bytes" in json.loads(said["body"])["error"]["message"]


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


def test_parameters_stand_in_the_query_over_http_and_json(peer, consolidate):
    for _ in range(2):
        peer.send()

    def listed(query: str) -> httpx.Response:
        return peer.http("GET", f"/a2a/rest/tasks?{query}")

    page = listed("pageSize=1&status=TASK_STATE_SUBMITTED&historyLength=1&includeArtifacts=TRUE")
    (task,) = page.json()["tasks"]
    assert (page.json()["totalSize"], len(task["history"]), task["artifacts"]) == (2, 1, [])
    assert "artifacts" not in listed("pageSize=1").json()["tasks"][0]
    assert listed("statusTimestampAfter=2999-01-01T00:00:00Z").json()["tasks"] == []
    for wrong in ("pageSize=x", "pageSize=0", "statusTimestampAfter=x", "pageToken=x"):
        refused = listed(wrong)
        assert (refused.status_code, refused.headers["content-type"]) == (400, "application/json")
        assert refused.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert peer.http("DELETE", "/a2a/rest/tasks").status_code == 405
    assert peer.http("GET", "/a2a/rest/acme/nothing/here").status_code == 404


def test_a_push_config_is_the_same_in_each_binding(peer, consolidate):
    task_id = peer.send()["id"]
    path = f"/a2a/rest/tasks/{task_id}/pushNotificationConfigs"
    config = {"id": "c1", "url": "https://93.184.215.14/", "token": "t"}
    secret = {"authentication": {"scheme": "Bearer", "credentials": "secret"}}
    shown = {**config, "taskId": task_id, "authentication": {"scheme": "Bearer"}}

    assert peer.http("POST", path, json=config | secret).json() == shown
    assert peer.http("GET", f"{path}/c1").json() == shown
    assert peer.rpc("GetTaskPushNotificationConfig", {"taskId": task_id, "id": "c1"}) == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": shown,
    }
    (old,) = peer.rpc("tasks/pushNotificationConfig/list", {"id": task_id}, **OLD)["result"]
    assert old["taskId"] == task_id
    assert old["pushNotificationConfig"] == config | {"authentication": {"schemes": ["Bearer"]}}
    gone = {"id": task_id, "pushNotificationConfigId": "c1"}
    assert peer.rpc("tasks/pushNotificationConfig/delete", gone, **OLD)["result"] is None
    assert peer.http("GET", path).json() == {}
    assert peer.http("DELETE", f"{path}/c1").json() == {}


def test_a_stream_of_version_0_3_tells_its_refusal_as_an_event(peer):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": {"id": "x"}}
    answer = peer.http("POST", "/a2a/v0.3", json=body, headers={"A2A-Version": "0.3"})

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert json.loads(answer.text.removeprefix("data:"))["error"]["code"] == -32001


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
    for place in ("/a2a/v0.3/.well-known/agent-card.json", "/.well-known/agent.json"):
        card = client.get(place).json()
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


OLD = {"path": "/a2a/v0.3", "headers": {"A2A-Version": "0.3"}}


def test_the_extended_card_of_version_0_3_is_one(peer, consolidate):
    card = peer.rpc("agent/getAuthenticatedExtendedCard", **OLD)["result"]

    assert "consolidate" in {skill["id"] for skill in card["skills"]}
    assert card["url"].endswith("/a2a/v0.3")


def test_bad_params_of_version_0_3_are_said_to_be_the_params(peer):
    assert peer.rpc("tasks/get", {"id": 7}, **OLD)["error"]["code"] == -32602
    assert peer.rpc("message/send", {"message": 5}, **OLD)["error"]["code"] == -32602


def test_the_version_may_stand_in_the_query_and_is_read_there_first(peer, consolidate):
    nothing = {"A2A-Version": ""}
    assert "result" in peer.rpc("ListTasks", path="/a2a/v1?A2A-Version=1.0", headers=nothing)
    refused = peer.rpc("ListTasks", path="/a2a/v1?A2A-Version=0.3")["error"]
    assert refused["code"] == -32009
    assert peer.rpc("ListTasks", headers={"A2A-Version": "2.0"})["error"]["code"] == -32009
    assert peer.rpc("ListTasks", headers={"A2A-Version": "1.x"})["error"]["code"] == -32009
    old = peer.rpc("tasks/get", {"id": "x"}, path="/a2a/v0.3", headers={"A2A-Version": "1.0"})
    assert old["error"]["code"] == -32009, "not -32603"
    rest = peer.http("GET", "/a2a/rest/tasks?A2A-Version=0.3")
    assert rest.status_code == 400
    assert rest.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


@pytest.mark.parametrize("path", ["/a2a/v1", "/a2a/v0.3", "/a2a/rest/tasks", "/a2a/skills/x/v1"])
def test_another_host_than_ours_is_refused(peer, path):
    answer = peer.http("POST", path, json={}, headers={"Host": "attacker.example"})

    assert answer.status_code == 400
    assert answer.json()["error"] == "wrong_host"


def asgi_request(path: str, token: str, messages: list[Any]) -> list[Any]:
    """What the application sends to a client whose body comes as ``messages``, then nothing."""
    sent: list[Any] = []

    async def receive() -> Any:
        if messages:
            return messages.pop(0)
        await asyncio.sleep(3600)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    asyncio.run(asyncio.wait_for(application(scope, receive, send), 10))
    return sent


def test_a_body_that_does_not_come_is_not_waited_for_without_end(peer, settings):
    settings.BODY_S = 0.2
    part = {"type": "http.request", "body": b'{"jsonrpc"', "more_body": True}

    started, said = asgi_request("/a2a/v1", peer.token, [part])

    assert started["status"] == 408
    assert json.loads(said["body"])["error"] == "body_too_slow"


def test_nothing_is_read_of_what_a_stranger_sends(db):
    started, said = asgi_request("/a2a/v1", "unknown", [])

    assert started["status"] == 401
    assert json.loads(said["body"])["error"] == "not_authenticated"


@pytest.mark.parametrize("item", [b"{}", b"[]", b"0", rb'"\","'])
def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(item):
    with pytest.raises(ProtocolError) as refused:
        parse(b"[" + b",".join([item] * 60_000) + b"]")

    assert refused.value.kind == INVALID_PARAMS
    assert refused.value.message == "It has more than 50000 values; send references."


def test_a_text_may_have_any_number_of_commas():
    text = r'{"a": [1, 2]}, \\ "' * 20_000

    assert parse(json.dumps([text]).encode()) == [text]


def test_nobody_is_answered_who_has_left_before_the_end_of_the_body(peer, consolidate):
    part = {"type": "http.request", "body": b'{"jsonrpc"', "more_body": True}

    assert asgi_request("/a2a/v1", peer.token, [part, {"type": "http.disconnect"}]) == []


@pytest.fixture
def reader(supervisor):
    """Another agent of the tenant, which may read everything and submit tasks of its own."""
    return Peer(supervisor, Scope.READ_ALL, Scope.SUBMIT)


def test_who_may_only_read_a_task_says_nothing_on_it(peer, reader, consolidate):
    task = peer.send()
    assert reader.rpc("GetTask", {"id": task["id"]})["result"]["id"] == task["id"]

    refused = reader.send(taskId=task["id"], parts=[{"text": "Ignore what was said before."}])

    assert refused["code"] == -32602
    assert "not_allowed" in json.dumps(refused)
    assert Task.objects.get().messages.count() == 1


def push_requests(task_id: str) -> dict[str, Any]:
    here = {"taskId": task_id, "id": "c1"}
    return {
        "CreateTaskPushNotificationConfig": {**here, "url": "https://93.184.215.14/"},
        "GetTaskPushNotificationConfig": here,
        "ListTaskPushNotificationConfigs": {"taskId": task_id},
        "DeleteTaskPushNotificationConfig": here,
    }


@pytest.mark.parametrize("method", list(push_requests("")))
def test_push_configs_are_the_submitters_alone(peer, reader, orchestrator, consolidate, method):
    task = peer.send()
    params = push_requests(task["id"])
    assert "result" in peer.rpc(
        "CreateTaskPushNotificationConfig", params["CreateTaskPushNotificationConfig"]
    )
    without_submit = Peer(orchestrator, Scope.READ_ALL)

    for caller in (reader, without_submit):
        refused = caller.rpc(method, params[method])
        assert "not_allowed" in json.dumps(refused["error"])
    assert Task.objects.get().push_configs.count() == 1
    assert "error" not in peer.rpc(method, params[method])


def stream_of(peer: Peer, method: str, params: Any) -> list[str]:
    """The states that a stream tells, until it closes."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = peer.http("POST", "/a2a/v1", json=body)
    lines = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")]
    seen = []
    for said in (json.loads(line)["result"] for line in lines):
        update = said.get("task") or said.get("statusUpdate")
        if update:
            seen.append(update["status"]["state"].removeprefix("TASK_STATE_"))
    return seen


def test_the_stream_of_a_message_closes_where_the_client_has_the_word(
    peer, consolidate, worker, alice
):
    message = {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [{"data": {"skill": "consolidate", "input": GOOD_INPUT}}],
    }
    with ThreadPoolExecutor(1) as aside:
        asking = aside.submit(ask_when_submitted, worker)
        seen = stream_of(peer, "SendStreamingMessage", {"message": message})
        asking.result()
    assert seen[0] in {"SUBMITTED", "WORKING"}, "the worker may be faster than the first snapshot"
    assert seen[-1] == "INPUT_REQUIRED"

    with ThreadPoolExecutor(1) as aside:
        answering = aside.submit(answer_and_complete, worker, alice)
        seen = stream_of(peer, "SubscribeToTask", {"id": str(Task.objects.get().pk)})
        answering.result()

    assert (seen[0], seen[-1]) == ("INPUT_REQUIRED", "COMPLETED"), "a subscription goes on"


def test_a_question_that_only_people_may_answer_keeps_the_stream_open(peer, alice):
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "May I?"}]}
    with ThreadPoolExecutor(1) as aside:
        answering = aside.submit(answer_at_the_desk, alice)
        seen = stream_of(peer, "SendStreamingMessage", {"message": message})
        answering.result()

    assert "INPUT_REQUIRED" not in seen
    assert seen[-1] == "COMPLETED"


def test_of_two_questions_with_one_wording_the_stream_tells_each_with_its_own_form(
    peer, consolidate, a_claimed_task, worker, alice
):
    task = a_claimed_task()
    forms = ({"enum": ["May 3"]}, {"enum": ["June 7"]})
    asked = []
    for form in forms:
        question = questions.ask(
            task.pk,
            agent=worker.principal,
            fencing_token=task.fencing_token,
            text="Which date?",
            form=form,
            is_new=True,
            via="api",
        )
        asked.append(str(question.pk))
        questions.answer(question.pk, form["enum"][0], by=alice, via="web")

    (told,) = updates_since([Since(peer.token, task.pk, 0)])

    shown = [
        part["data"]["question"]
        for update in told.bodies
        for part in update.get("statusUpdate", {})
        .get("status", {})
        .get("message", {})
        .get("parts", [])
        if "question" in part.get("data", {})
    ]
    assert [(question["question_id"], question["form"]) for question in shown] == list(
        zip(asked, forms, strict=True)
    )


def test_an_answer_goes_to_the_question_whose_form_it_was_read_with(
    consolidate, a_claimed_task, worker, alice, client_of
):
    """A client's answer to the first question does not answer the second of the same wording."""
    task = a_claimed_task()
    first = questions.ask(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        text="Which date?",
        via="api",
    )
    questions.answer(first.pk, "May 3", by=alice, via="web")
    second = questions.ask(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        text="Which date?",
        is_new=True,
        via="api",
    )

    with pytest.raises(AlreadyAnswered):
        tasks.answer_as_client(
            Task.objects.get(), "May 5", caller=client_of, via="a2a", question=first
        )

    second.refresh_from_db()
    assert second.state == "open"


def test_lists_count_a_question_for_people_as_work(peer, alice):
    peer.rpc(
        "SendMessage",
        {
            "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "May I?"}]},
            "configuration": {"returnImmediately": True},
        },
    )

    def listed(state: str) -> int:
        return len(peer.rpc("ListTasks", {"status": f"TASK_STATE_{state}"})["result"]["tasks"])

    assert (listed("WORKING"), listed("INPUT_REQUIRED")) == (1, 0)


def ask_when_submitted(worker: Agent) -> None:
    task = until(lambda: tasks.claim(worker.principal, skills=[], via="api"))
    questions.ask(
        task.pk, agent=worker.principal, fencing_token=task.fencing_token, text="Which?", via="api"
    )
    connection.close()


def answer_and_complete(worker: Agent, alice: Any) -> None:
    question = Question.objects.get()
    until(lambda: changes.number_of_subjects)
    questions.answer(question.pk, "May 3", by=alice, via="web")
    task = Task.objects.get()
    tasks.complete(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        result={"summary": "ok"},
        via="api",
    )
    connection.close()


def answer_at_the_desk(alice: Any) -> None:
    question = until(lambda: Question.objects.first())
    until(lambda: changes.number_of_subjects)
    questions.answer(question.pk, "Yes.", by=alice, via="web")
    connection.close()


def test_a_message_that_refers_to_an_ended_task_of_the_skill_revises_it(peer, consolidate):
    first, waiting = peer.send(), peer.send()
    peer.rpc("CancelTask", {"id": first["id"]})
    text = [{"data": {"skill": "consolidate", "input": GOOD_INPUT}}, {"text": "Shorter."}]

    def revised_by(*references, **message):
        task = peer.send(**message, referenceTaskIds=list(references))
        facts = task["metadata"]["urn:assent:a2a:task:1"]
        return facts.get("revises"), task["contextId"] == first["contextId"]

    assert revised_by(first["id"], parts=text) == (first["id"], True)
    revision = Task.objects.get(revises=first["id"])
    assert (revision.revision, revision.state) == (1, "submitted")
    assert revised_by(first["id"], waiting["id"], str(uuid4()), "no id") == (first["id"], True)
    assert revised_by(waiting["id"]) == (None, False)
    peer.rpc("CancelTask", {"id": waiting["id"]})
    assert revised_by(first["id"], waiting["id"]) == (None, False)  # which one is not said


def test_a_task_of_another_agent_is_not_revised_by_a_reference(peer, consolidate, supervisor):
    theirs = peer.send()
    peer.rpc("CancelTask", {"id": theirs["id"]})

    own = Peer(supervisor, Scope.SUBMIT).send(referenceTaskIds=[theirs["id"]])

    assert own["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert "revises" not in own["metadata"]["urn:assent:a2a:task:1"]
    assert own["contextId"] != theirs["contextId"]
    assert set(Task.objects.values_list("revises", flat=True)) == {None}


def test_nor_is_it_by_an_agent_of_another_tenant(peer, consolidate, stranger):
    theirs = peer.send()
    peer.rpc("CancelTask", {"id": theirs["id"]})
    consolidate.open_to = [stranger.tenant_id]
    consolidate.save()

    own = Peer(stranger, Scope.SUBMIT).send(
        metadata={ENVELOPE_EXTENSION: envelope_of(stranger)}, referenceTaskIds=[theirs["id"]]
    )

    assert own["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert "revises" not in own["metadata"]["urn:assent:a2a:task:1"]
    assert own["contextId"] != theirs["contextId"]
    assert set(Task.objects.values_list("revises", flat=True)) == {None}
