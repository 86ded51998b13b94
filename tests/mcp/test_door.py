"""Who gets in at ``/mcp``, and what is refused before anything is done."""

from __future__ import annotations

import asyncio
import threading
from urllib.parse import urlsplit

import pytest
from django.db import connections

from a2a.protocol.threads import MOST_WAITING, quick
from ledger.models import AgentToken, Scope, Transaction
from tests import asgi
from tests.mcp.wire import MODERN, body_of, call, headers_of, message_in, result_of, said, say

pytestmark = pytest.mark.django_db(transaction=True)
THREADS_OF_ONE_AGENT = 4


@pytest.fixture
def token(helpdesk):
    return AgentToken.issue(helpdesk, scopes=[Scope.PROPOSE])[1]


def post(token, body=None, *, method="POST", **options):
    try:
        return asyncio.run(asgi.request(method, "/mcp", token, **options))
    finally:
        connections.close_all()


def test_a_stranger_is_told_where_to_read_how_it_is_protected(client):
    answer = say("assent_never-issued", "tools/list")

    assert answer.status_code == 401
    challenge = answer.headers["www-authenticate"]
    address = challenge.partition('resource_metadata="')[2].rstrip('"')
    metadata = client.get(urlsplit(address).path).json()
    assert metadata["resource"].endswith("/mcp")
    assert metadata["bearer_methods_supported"] == ["header"]


@pytest.mark.parametrize("header", ["Origin", "Host"])
def test_pages_of_other_origins_and_rebound_names_are_refused(token, header):
    value = "https://evil.example" if header == "Origin" else "evil.example"

    assert say(token, "tools/list", **{header: value}).status_code == 403


def test_there_is_no_stream_to_open_and_no_session_to_end(token):
    for method in ("GET", "DELETE"):
        answer = post(token, method=method)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"Mcp-Method": "tools/list"}, -32020),
        ({"MCP-Protocol-Version": "2025-11-25"}, -32020),
        ({"Mcp-Name": "launch"}, -32020),
    ],
)
def test_headers_that_say_something_else_than_the_body_are_refused(token, change, code):
    params = {"name": "pay", "arguments": {"reference": "R-1", "amount": "1"}}

    answer = say(token, "tools/call", params, **change)

    assert (answer.status_code, message_in(answer)["error"]["code"]) == (400, code)
    assert not Transaction.objects.exists()


def test_a_version_of_the_future_is_told_what_is_spoken_here(token):
    body = body_of("tools/list", {}, modern=True)
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2030-01-01"
    headers = {**headers_of(body, modern=True), "MCP-Protocol-Version": "2030-01-01"}

    answer = post(token, json=body, headers=headers)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, -32022)
    assert MODERN in error["data"]["supported"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":5}',
        b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
    ],
)
def test_what_is_no_message_is_refused_clearly(token, content):
    answer = post(token, content=content, headers={"Content-Type": "application/json"})

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in {-32700, -32600}


def test_a_message_that_is_too_large_is_refused_unread(token, settings):
    content = b"x" * (2 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)

    assert post(token, content=content).status_code == 413


def test_a_method_of_no_server_is_not_found(token):
    for method in ("tools/approve", "initialize", "sampling/createMessage"):
        answer = say(token, method)
        assert (answer.status_code, message_in(answer)["error"]["code"]) == (404, -32601)


def test_notifications_are_taken_and_change_nothing(token):
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}

    assert post(token, json=body).status_code == 202


def test_a_token_for_one_tool_sees_and_calls_that_one(helpdesk):
    token = AgentToken.issue(helpdesk, scopes=["propose:order"])[1]

    names = {tool["name"] for tool in result_of(say(token, "tools/list"))["tools"]}
    answer = say(token, "tools/call", {"name": "pay", "arguments": {}})

    assert names == {"order", "assent_wait", "assent_answer", "assent_cancel"}
    assert message_in(answer)["error"]["code"] == -32602


def test_another_agents_transaction_is_not_there(token, stranger):
    body = call(token, "pay", {"reference": "R-1", "amount": "1"})["structuredContent"]
    theirs = AgentToken.issue(stranger, scopes=[Scope.PROPOSE, Scope.READ_ALL])[1]

    told = call(theirs, "assent_wait", {"transaction_id": body["transaction_id"]})
    task = say(theirs, "tasks/get", {"taskId": body["transaction_id"]}, tasks=True)

    assert told["structuredContent"]["code"] == "not_found"
    assert message_in(task)["error"]["code"] == -32602


def test_an_agent_with_too_many_calls_at_once_is_told_to_repeat_them(token, helpdesk):
    async def story():
        gate = threading.Event()
        calls = [
            asyncio.create_task(quick.run(str(helpdesk.principal), gate.wait))
            for _ in range(MOST_WAITING + THREADS_OF_ONE_AGENT)
        ]
        try:
            return await said(token, "tools/list")
        finally:
            gate.set()
            await asyncio.gather(*calls)

    try:
        answer = asyncio.run(story())
    finally:
        connections.close_all()

    assert answer.status_code == 429
    assert message_in(answer)["error"]["data"] == {"code": "limit_reached"}
