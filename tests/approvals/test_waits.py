"""Requests that wait: answered as the ordinary view answers, as soon as there is something new."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import pytest
from django.db import connections
from django.db.models.functions import Now
from redis import Redis

from a2a import tasks
from a2a.models import Skill, Task
from approvals import lanes
from approvals.asgi import pages
from approvals.http.admission import long_polls
from approvals.http.admission.long_polls import SMALL_BODY, Received, Waits
from ledger.api.http.polling import POLL_WATCHERS
from ledger.api.waiting.bells import changes
from ledger.api.waiting.waiters import Kind, in_all_processes, waiters
from ledger.errors import LimitReached
from ledger.foundation import doorbell
from ledger.limits import terms
from ledger.models import Agent, AgentToken, Scope
from ledger.transactions import coordinator
from tests.agents_at_work import speaking_as
from tests.asgi import request, token_of

pytestmark = pytest.mark.django_db(transaction=True)

TASKS, CLAIM = "/api/v1/tasks", "/api/v1/work/claim"


@pytest.fixture(autouse=True)
def _closes_connections():
    yield
    connections.close_all()


async def waiting(number: int = 1) -> None:
    while sum(waiters.by_kind().values()) < number:
        await asyncio.sleep(0.01)


async def meanwhile(happens: Callable[..., Any], *waits: Awaitable[Any]) -> list[Any]:
    """The answers to what waits, after something happened while all of it waited."""
    answers = asyncio.gather(*waits)
    await waiting(len(waits))
    await asyncio.to_thread(_and_close, happens)
    return await asyncio.wait_for(answers, 20)


def _and_close(happens: Callable[..., Any]) -> None:
    happens()
    connections.close_all()


def scope_of(method: str, path: str, token: str, query: bytes = b"") -> dict[str, Any]:
    headers = {"authorization": f"Bearer {token}", "host": "localhost"}
    headers["content-type"] = "application/json"
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }


def without_clock(text: str) -> str:
    return re.sub(r'"(expires_in|date)": [^,]*', "", text)


def approve(row, alice) -> Callable[[], Any]:
    return lambda: coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")


# --- answers -----------------------------------------------------------------------------------


def test_what_waited_is_answered_as_what_did_not(as_helpdesk, a_payment, alice):
    row = a_payment()
    path = f"/api/v1/transactions/{row.pk}"

    (waited,) = asyncio.run(
        meanwhile(approve(row, alice), request("GET", f"{path}?wait=30", as_helpdesk.token))
    )

    plain = as_helpdesk.get(f"/transactions/{row.pk}")
    assert waited.json()["status"] == "approved"
    assert without_clock(waited.text) == without_clock(plain.content.decode())
    for name in set(dict(plain.items())) - {"Content-Length"}:
        assert waited.headers[name] == plain[name]


def test_a_task_that_changed_is_answered_at_once(a_task, as_orchestrator, worker):
    task = a_task()

    (waited,) = asyncio.run(
        meanwhile(
            lambda: tasks.claim(worker.principal, skills=[], via="api"),
            request("GET", f"{TASKS}/{task.pk}?wait=30", token_of(as_orchestrator)),
        )
    )

    assert waited.json()["state"] == "working"


@pytest.fixture
def no_limits(settings):
    settings.LIMITS = ["off"]
    terms._installation.cache_clear()
    yield
    terms._installation.cache_clear()


@pytest.mark.slow
@pytest.mark.usefixtures("no_limits")
def test_all_who_wait_for_the_same_task_are_answered(a_task, as_orchestrator, worker):
    """They are more than may wait for a thread."""
    path, token = f"{TASKS}/{a_task().pk}?wait=30", token_of(as_orchestrator)
    happens = partial(tasks.claim, worker.principal, skills=[], via="api")
    number = lanes.pages.most_waiting + 100

    async def all_wait() -> list[Any]:
        return await meanwhile(happens, *(request("GET", path, token) for _ in range(number)))

    assert Counter(answer.status_code for answer in asyncio.run(all_wait())) == {200: number}


def test_when_nothing_happens_the_answer_says_so(as_helpdesk, a_payment):
    row = a_payment()
    path = f"/api/v1/transactions/{row.pk}?wait=0.3"
    etag = as_helpdesk.get(f"/transactions/{row.pk}")["ETag"]

    same = asyncio.run(request("GET", path, as_helpdesk.token, headers={"If-None-Match": etag}))

    assert (same.status_code, same.content, same.headers["Retry-After"]) == (304, b"", "2")


def test_who_has_an_older_version_does_not_wait(as_helpdesk, a_payment):
    path = f"/api/v1/transactions/{a_payment().pk}?wait=60"

    answer = asyncio.run(
        request("GET", path, as_helpdesk.token, headers={"If-None-Match": '"older"'})
    )

    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("query", "status"),
    [("wait=soon", 422), ("wait=61", 422), ("wait=nan", 422), ("wait=1&wait=2", 200)],
)
def test_an_unusual_wait_is_answered_by_the_ordinary_view(as_helpdesk, a_payment, query, status):
    answer = asyncio.run(
        request("GET", f"/api/v1/transactions/{a_payment().pk}?{query}", as_helpdesk.token)
    )

    assert answer.status_code == status


@pytest.mark.parametrize("place", ["transactions/{}", "tasks/{}", "work/{}/messages"])
def test_what_is_not_there_is_not_waited_for(as_helpdesk, place):
    path = f"/api/v1/{place.format(uuid4())}?wait=60"

    answer = asyncio.run(request("GET", path, as_helpdesk.token))

    assert answer.status_code in {403, 404}
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_revoked_token_hears_nothing_of_what_happens_afterwards(as_helpdesk, a_payment, alice):
    row = a_payment()

    def revoke_and_approve() -> None:
        AgentToken.objects.update(revoked_at=Now())
        approve(row, alice)()

    (answer,) = asyncio.run(
        meanwhile(
            revoke_and_approve,
            request("GET", f"/api/v1/transactions/{row.pk}?wait=30", as_helpdesk.token),
        )
    )

    assert answer.status_code == 401


def test_without_redis_a_change_is_noticed_within_seconds(
    as_helpdesk, a_payment, alice, settings, monkeypatch
):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    row = a_payment()

    (answer,) = asyncio.run(
        meanwhile(
            approve(row, alice),
            request("GET", f"/api/v1/transactions/{row.pk}?wait=30", as_helpdesk.token),
        )
    )

    assert answer.json()["status"] == "approved"


# --- who waits is counted ----------------------------------------------------------------------


def test_a_client_that_leaves_is_forgotten_at_once(as_helpdesk, a_payment):
    row = a_payment()
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/api/v1/transactions/{row.pk}",
        "query_string": b"wait=60",
        "headers": [(b"authorization", f"Bearer {as_helpdesk.token}".encode())],
        "client": ("192.0.2.7", 1234),
    }
    sent: list[Any] = []

    async def leave() -> None:
        messages: asyncio.Queue[Any] = asyncio.Queue()
        messages.put_nowait({"type": "http.request", "body": b""})

        async def send(message: Any) -> None:
            sent.append(message)

        answering = asyncio.create_task(Waits(pages, body_within_s=30)(scope, messages.get, send))
        await waiting()
        assert waiters.of_address("192.0.2.7") == waiters.of_kind(Kind.LONG_POLL) == 1
        assert waiters.of_principal("agent:acme/helpdesk", Kind.LONG_POLL) == 1
        messages.put_nowait({"type": "http.disconnect"})
        await asyncio.wait_for(answering, 5)

    asyncio.run(leave())

    assert sent == []
    assert waiters.of_tenant("acme") == changes.number_of_subjects == 0


def test_operators_see_how_many_wait(as_helpdesk, a_payment):
    path = f"/api/v1/transactions/{a_payment().pk}?wait=30"

    async def count() -> float:
        polls = [asyncio.create_task(request("GET", path, as_helpdesk.token)) for _ in range(3)]
        await waiting(3)
        while (seen := await asyncio.to_thread(in_all_processes)) != waiters.by_kind():
            assert seen is not None
            await asyncio.sleep(0.1)
        for poll in polls:
            poll.cancel()
        return seen[Kind.LONG_POLL]

    assert asyncio.run(asyncio.wait_for(count(), 20)) == 3


def test_a_limit_refuses_before_anything_waits(as_helpdesk, a_payment, monkeypatch):
    def refuse(waiter, counts) -> None:
        raise LimitReached("Too many wait.", retry_after_s=7)

    monkeypatch.setattr(waiters, "limits", [refuse])

    answer = asyncio.run(
        request("GET", f"/api/v1/transactions/{a_payment().pk}?wait=60", as_helpdesk.token)
    )

    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-frame-options"] == "DENY"


def test_long_polls_that_find_something_at_once_count_as_polls(as_helpdesk, a_payment):
    path = f"/api/v1/transactions/{a_payment().pk}?wait=2"
    known = {"If-None-Match": '"not the newest"'}

    async def ask() -> Counter[int]:
        polls = [request("GET", path, as_helpdesk.token, headers=known) for _ in range(8)]
        return Counter(answer.status_code for answer in await asyncio.gather(*polls))

    assert asyncio.run(ask()) == {200: POLL_WATCHERS, 429: 8 - POLL_WATCHERS}


async def half_a_claim(application: Any) -> None:
    """A stranger's request that ends in the middle of its body."""
    messages: asyncio.Queue[Any] = asyncio.Queue()
    half = b"x" * (SMALL_BODY + 1)
    messages.put_nowait({"type": "http.request", "body": half, "more_body": True})

    async def send(message: Any) -> None:
        raise AssertionError("half a request was answered")

    await application(scope_of("POST", CLAIM, "nobody's"), messages.get, send)


async def unread(application: Any, path: str, token: str, is_sending: asyncio.Event) -> None:
    """A poll whose client reads nothing of the answer."""

    async def send(message: Any) -> None:
        is_sending.set()
        await asyncio.Event().wait()

    messages: asyncio.Queue[Any] = asyncio.Queue()
    messages.put_nowait({"type": "http.request", "body": b""})
    await application(scope_of("GET", path, token, b"wait=0.1"), messages.get, send)


def test_half_requests_and_slow_readers_keep_no_poll_from_its_answer(
    as_helpdesk, a_payment, monkeypatch
):
    monkeypatch.setattr(long_polls, "ANSWERS_AT_ONCE", 1)
    application = Waits(pages, body_within_s=30)
    path = f"/api/v1/transactions/{a_payment().pk}"

    async def ask() -> int:
        is_sending = asyncio.Event()
        claiming = asyncio.create_task(half_a_claim(application))
        reading = asyncio.create_task(unread(application, path, as_helpdesk.token, is_sending))
        await asyncio.wait_for(is_sending.wait(), 10)
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            headers = {"Authorization": f"Bearer {as_helpdesk.token}"}
            answer = await asyncio.wait_for(http.get(f"{path}?wait=0.1", headers=headers), 10)
        claiming.cancel()
        reading.cancel()
        await asyncio.gather(claiming, reading, return_exceptions=True)
        return answer.status_code

    assert asyncio.run(ask()) == 200


# --- workers that wait for work ----------------------------------------------------------------


class Counted:
    """The ordinary application, and who asked it in which order."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(dict(scope["headers"])[b"authorization"].decode())
        await pages(scope, receive, send)


async def claim(application: Any, token: str, wait_s: float = 20, **members: Any) -> int:
    """The status of a claim that waits."""
    body = json.dumps({"wait_s": wait_s, **members}).encode()
    messages: asyncio.Queue[Any] = asyncio.Queue()
    messages.put_nowait({"type": "http.request", "body": body})
    statuses: list[int] = []

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    await application(scope_of("POST", CLAIM, token), messages.get, send)
    return statuses[0]


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def application(counted) -> Waits:
    return Waits(counted, body_within_s=30)


@pytest.mark.slow
def test_no_more_workers_wake_than_there_are_tasks(a_task, as_worker, application, counted):
    token = token_of(as_worker)

    async def race() -> list[int]:
        claims = [asyncio.create_task(claim(application, token, wait_s=4)) for _ in range(30)]
        await waiting(30)
        await asyncio.to_thread(_and_close, lambda: [a_task() for _ in range(2)])
        return await asyncio.gather(*claims)

    statuses = asyncio.run(race())

    assert sorted(statuses) == [200] * 2 + [204] * 28
    assert len(counted.asked) <= 4  # the two, and at most as many that came too late
    assert Task.objects.filter(state="working").count() == 2


def test_agents_are_woken_in_turn(acme, application, counted, client_of):
    from a2a import submissions
    from a2a.submissions import Submission

    tokens = {}
    for name, number in (("busy", 4), ("quiet", 1)):
        agent = Agent.objects.create(tenant=acme, slug=name, name=name)
        skill = Skill.objects.create(agent=agent, slug=name, name=name)
        tokens[name] = token_of(speaking_as(agent, Scope.WORK))
        for _ in range(number):
            submissions.submit(Submission(skill=skill.slug, input={}), caller=client_of, via="api")

    async def race() -> list[int]:
        names = ["busy"] * 4 + ["quiet"]
        return await asyncio.gather(*(claim(application, tokens[name]) for name in names))

    assert asyncio.run(race()) == [200] * 5
    assert f"Bearer {tokens['quiet']}" in counted.asked[:2]


def test_a_worker_waits_for_its_skills_only(a_task, as_worker, application):
    a_task()

    status = asyncio.run(claim(application, token_of(as_worker), 0.5, skills=["another"]))

    assert status == 204


def test_a_claim_without_a_token_is_refused_before_its_body_is_read():
    async def never_read() -> Any:
        raise AssertionError("the body was read")

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        await send({"status": 401})

    scope = {"type": "http", "method": "POST", "path": CLAIM, "headers": []}
    statuses: list[int] = []

    async def send(message: Any) -> None:
        statuses.append(message["status"])

    asyncio.run(Waits(refuse, body_within_s=30)(scope, never_read, send))

    assert statuses == [401]


def test_a_body_that_comes_byte_by_byte_is_counted_once():
    reads = 0

    class Message(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            nonlocal reads
            reads += name == "body"
            return super().get(name, default)

    async def receive() -> Any:
        return Message(type="http.request", body=b"x", more_body=True)

    assert asyncio.run(Received(receive).has_small_body()) is False
    assert reads <= SMALL_BODY + 1


def test_who_may_not_work_is_refused_at_once(as_helpdesk, application):
    assert asyncio.run(claim(application, as_helpdesk.token, 60)) == 403
    assert asyncio.run(claim(application, "nobody's", 60)) == 401


# --- what is pending for supervisors ------------------------------------------------------------


@pytest.fixture
def boss(supervisor, agent_client):
    return agent_client(supervisor, ["decide"])


def test_a_supervisor_is_told_at_once_of_what_waits_for_it(boss, a_transaction):
    (waited,) = asyncio.run(
        meanwhile(
            lambda: a_transaction("order", item="chair"),
            request("GET", "/api/v1/pending?wait=30", boss.token),
        )
    )

    assert [item["arguments"] for item in waited.json()["items"]] == [{"item": "chair"}]


def test_a_supervisor_that_knows_the_list_is_told_when_it_is_another(boss, a_transaction, alice):
    row = a_transaction("order", item="chair")
    known = boss.get("/pending")["ETag"]

    (waited,) = asyncio.run(
        meanwhile(
            approve(row, alice),
            request("GET", "/api/v1/pending?wait=30", boss.token, headers={"If-None-Match": known}),
        )
    )

    assert waited.json()["items"] == []


def test_what_happens_in_other_tenants_wakes_no_supervisor(boss, a_transaction, stranger):
    def of_others_then_ours() -> None:
        a_transaction("order", tenant="globex", item="theirs")
        a_transaction("order", item="ours")

    (waited,) = asyncio.run(
        meanwhile(of_others_then_ours, request("GET", "/api/v1/pending?wait=30", boss.token))
    )

    assert [item["arguments"] for item in waited.json()["items"]] == [{"item": "ours"}]


def test_without_redis_a_supervisor_is_told_a_little_later(boss, a_transaction, monkeypatch):
    monkeypatch.setattr(doorbell, "redis", lambda: Redis.from_url("redis://127.0.0.1:1"))

    (waited,) = asyncio.run(
        meanwhile(
            lambda: a_transaction("order", item="chair"),
            request("GET", "/api/v1/pending?wait=30", boss.token),
        )
    )

    assert len(waited.json()["items"]) == 1


@pytest.mark.parametrize("query", ["wait=abc", "wait=5&limit=1000", "wait=5&after=x"])
def test_an_unusual_request_for_the_pending_list_is_refused_as_without_waiting(boss, query):
    answer = asyncio.run(request("GET", f"/api/v1/pending?{query}", boss.token))

    assert answer.status_code == 422
