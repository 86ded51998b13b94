"""While the database is away each door has its own error, and works again as soon as it is back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest
from django.db import connection, connections

from approvals.asgi import application
from ledger.models import AgentToken
from tests.agents_at_work import GOOD_INPUT
from tests.processes import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

HOST, CLOSED_PORT = "127.0.0.1", "1"


@pytest.fixture(autouse=True)
def _closes_connections():
    yield
    connections.close_all()


def end_all_sessions() -> None:
    """As a fail-over does."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        cursor.fetchall()


@contextmanager
def database_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All sessions end, and nobody answers to new ones."""
    with monkeypatch.context() as patch:
        patch.setitem(connections.settings["default"], "HOST", HOST)
        patch.setitem(connections.settings["default"], "PORT", CLOSED_PORT)
        end_all_sessions()
        yield


def rpc(method: str, params: Any, token: str, path: str = "/a2a/v1") -> httpx.Request:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return request("POST", path, token, json=body)


def request(method: str, path: str, token: str, **content: Any) -> httpx.Request:
    headers = {"Authorization": f"Bearer {token}", "A2A-Version": "1.0"}
    headers["Idempotency-Key"] = uuid4().hex
    return httpx.Request(method, f"http://localhost{path}", headers=headers, **content)


def message() -> dict[str, Any]:
    data = {"skill": "consolidate", "input": GOOD_INPUT}
    return {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"data": data}]}


def answers_to(requests: list[httpx.Request]) -> list[httpx.Response]:
    async def send_all() -> list[httpx.Response]:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport) as http:
            return [await http.send(request) for request in requests]

    return asyncio.run(send_all())


@pytest.fixture
def doors(as_helpdesk, helpdesk, a_payment, orchestrator, consolidate) -> dict[str, httpx.Request]:
    """A request through each door; those of tokens that this process knows, and of one it knows
    not yet."""
    _, submits = AgentToken.issue(orchestrator, scopes=["submit"])
    _, unknown = AgentToken.issue(helpdesk, scopes=["propose"])
    row = f"/api/v1/transactions/{a_payment().pk}"
    at_once = {"message": message(), "configuration": {"returnImmediately": True}}
    (sent,) = answers_to([rpc("SendMessage", at_once, submits)])
    answers_to([request("GET", row, as_helpdesk.token)])
    task = {"id": sent.json()["result"]["task"]["id"]}
    launch = {"tool": "launch", "arguments": {"rocket": "r"}}
    return {
        "read": request("GET", row, as_helpdesk.token),
        "read of an unknown token": request("GET", row, unknown),
        "long-poll": request("GET", f"{row}?wait=1", as_helpdesk.token),
        "claim": request("POST", "/api/v1/work/claim", as_helpdesk.token, json={"wait_s": 1}),
        "prepare": request("POST", "/api/v1/transactions", as_helpdesk.token, json=launch),
        "GetTask": rpc("GetTask", task, submits),
        "SendMessage": rpc("SendMessage", at_once, submits),
        "ListTasks": rpc("ListTasks", {}, submits),
        "SubscribeToTask": rpc("SubscribeToTask", task, submits),
        "HTTP+JSON": request("GET", f"/a2a/rest/tasks/{task['id']}", submits),
    }


def test_each_door_says_in_its_own_way_that_the_database_is_away(doors, monkeypatch):
    with database_away(monkeypatch):
        answers = dict(zip(doors, answers_to(list(doors.values())), strict=True))

    for name in ("read", "read of an unknown token", "long-poll", "claim", "prepare"):
        answer = answers[name]
        problem = (answer.status_code, answer.headers["content-type"], answer.json()["code"])
        assert problem == (503, "application/problem+json", "database_away"), name
        assert answer.headers["retry-after"] == "5"
    for name in ("GetTask", "SendMessage", "ListTasks", "SubscribeToTask"):
        answer = answers[name].json()
        assert (answer["id"], answer["error"]["code"]) == (7, -32603), name
        assert "The database does not answer." in answer["error"]["message"]
        assert "the same Idempotency-Key" in answer["error"]["message"]
        assert answer["error"]["data"][0]["reason"] == "DATABASE_AWAY"
    error = answers["HTTP+JSON"].json()["error"]
    assert (answers["HTTP+JSON"].status_code, error["status"]) == (503, "UNAVAILABLE")

    for name in ("read", "long-poll", "claim"):
        assert answers[name].json()["detail"] == "Nothing was changed."
    for name in ("GetTask", "ListTasks"):
        assert "Nothing was changed." in answers[name].json()["error"]["message"]


def test_what_fails_outside_a_view_is_an_outage_too(as_alice, settings, monkeypatch):
    """The session is read, and written again, after the view has answered."""
    settings.SESSION_SAVE_EVERY_REQUEST = True
    name = settings.SESSION_COOKIE_NAME
    paths = ("/api/v1/docs", "/api/v1/nothing", "/")
    requests = [request("GET", path, "") for path in paths]
    for each in requests:
        del each.headers["Authorization"]
        each.headers["Cookie"] = f"{name}={as_alice.cookies[name].value}"
    with database_away(monkeypatch):
        answers = answers_to(requests)

    assert [answer.status_code for answer in answers] == [503, 503, 503]
    assert [answer.json()["code"] for answer in answers[:2]] == ["database_away"] * 2
    assert answers[2].headers["retry-after"] == "5"


@pytest.mark.of_app("approvals.oauth")
def test_a_program_that_asks_for_a_token_meanwhile_reads_json(doors, monkeypatch):
    asked = {"grant_type": "refresh_token", "refresh_token": "x", "client_id": "x"}
    with database_away(monkeypatch):
        (answer,) = answers_to([httpx.Request("POST", "http://localhost/oauth/token", data=asked)])

    assert (answer.status_code, answer.json()["code"]) == (503, "database_away")
    assert answer.headers["retry-after"] == "5"


AWAY = """
import logging, os, django
from contextlib import suppress
os.environ["DJANGO_SETTINGS_MODULE"] = "approvals.settings"
django.setup()
from psycopg_pool import ConnectionPool, PoolTimeout
pool = ConnectionPool("host=127.0.0.1 port=1 connect_timeout=1", min_size=3, max_size=3, open=True)
with suppress(PoolTimeout):
    pool.wait(timeout=0.5)
rq = logging.getLogger("rq.worker")
for _ in range(2):
    rq.error("Worker %s: could not connect to Redis instance: %s retrying in %d", "w", "gone", 1)
    rq.error("Worker %s: job %s: exception raised while executing", "w", "j")
os._exit(0)
"""


@pytest.mark.slow
def test_an_outage_that_a_pool_repeats_is_logged_once():
    done = subprocess.run(
        [sys.executable, "-c", AWAY], cwd=ROOT, capture_output=True, text=True, timeout=60
    )

    assert done.stderr.count("error connecting") == 1, done.stderr
    assert done.stderr.count("could not connect") == 1
    assert done.stderr.count("exception raised") == 2, "that is no repetition"


@pytest.mark.slow
def test_each_door_works_at_once_after_all_sessions_have_ended(doors):
    """Sessions that the process keeps are replaced, so that no request fails for them."""
    left_out = {"SubscribeToTask", "claim", "read of an unknown token"}
    usual = {name: one for name, one in doors.items() if name not in left_out}
    results = {}
    for name, one in usual.items():
        answers_to([one])
        end_all_sessions()
        (answer,) = answers_to([one])
        is_error = isinstance(answer.json().get("error"), dict)  # in JSON-RPC
        results[name] = "error" if is_error else answer.status_code

    assert results == dict.fromkeys(usual, 200) | {"prepare": 201}
