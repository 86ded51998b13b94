"""One origin: pages, REST, cards and A2A from the asynchronous process."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from django.core.signals import request_started
from django.db import connection

from approvals.asgi import application
from approvals.http.admission.pages import Pages
from ledger.foundation.lanes import Lane

pytestmark = pytest.mark.django_db(transaction=True)


def ask(method: str, path: str, app: Any = application, **said: Any) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.request(method, path, **said)

    return asyncio.run(send())


def pages(inside: Any, lane: Lane | None = None, *, body_within_s: float = 5) -> Pages:
    lane = lane or Lane("test", 2)
    return Pages(inside, lane, largest_body=1000, body_within_s=body_within_s)


def test_pages_cards_and_the_doors_that_they_name_share_one_origin(settings):
    page, card = ask("GET", "/sign-in/"), ask("GET", "/.well-known/agent-card.json")

    assert page.status_code == 200
    assert "content-security-policy" in page.headers
    for face in card.json()["supportedInterfaces"]:
        there = urlsplit(face["url"])
        assert f"{there.scheme}://{there.netloc}" == settings.PUBLIC_URL
        assert ask("POST", there.path, json={}).status_code in {401, 404}
    assert ask("POST", "/a2a/rest/message:send", json={}).status_code == 401


def test_rest_over_it_is_as_over_wsgi(as_helpdesk):
    headers = {"Authorization": f"Bearer {as_helpdesk.token}", "Idempotency-Key": "k-1"}
    body = {"tool": "pay", "arguments": {"reference": "order-7", "amount": "48.20"}}

    made = ask("POST", "/api/v1/transactions", json=body, headers=headers)

    assert made.status_code == 201, made.text
    read = ask("GET", f"/api/v1/transactions/{made.json()['transaction_id']}", headers=headers)
    assert read.json()["transaction_id"] == made.json()["transaction_id"]
    assert ask("GET", "/api/v1/nothing", headers=headers).status_code == 404


def test_many_requests_share_the_connections_of_a_few_threads(as_helpdesk, settings):
    headers = {"Authorization": f"Bearer {as_helpdesk.token}"}
    earlier, numbers = set(threading.enumerate()), list[int]()
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"

    async def burst() -> None:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            asked = [http.get("/api/v1/tools", headers=headers) for _ in range(40)]
            assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}
        begun = set(threading.enumerate()) - earlier
        numbers.append(len([each for each in begun if each.name == "pages"]))

    asyncio.run(burst())
    with connection.cursor() as cursor:
        cursor.execute(count)
        (before,) = cursor.fetchone()
    asyncio.run(burst())
    with connection.cursor() as cursor:
        cursor.execute(count)
        assert cursor.fetchone()[0] <= before

    assert 0 < max(numbers) <= settings.PAGE_THREADS


def test_what_is_too_large_is_refused_before_it_is_taken_in():
    def never(environ: Any, start: Any) -> list[bytes]:
        raise AssertionError("it was let in")

    answer = ask("POST", "/", pages(never), content=b"x" * 1001)

    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:assent:problem:too_large"


def test_a_body_that_stops_in_the_middle_is_not_waited_for_without_end():
    said: list[Any] = []

    async def receive() -> Any:
        if not said:
            said.append(None)
            return {"type": "http.request", "body": b"half", "more_body": True}
        await asyncio.sleep(3600)

    async def send(message: Any) -> None:
        said.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    asyncio.run(pages(None, body_within_s=0.1)(scope, receive, send))

    assert said[1]["status"] == 408
    assert json.loads(said[2]["body"])["code"] == "body_too_slow"


def test_headers_cannot_pose_as_others():
    seen: dict[str, Any] = {}

    def keep(environ: Any, start: Any) -> list[bytes]:
        seen.update(environ)
        start("200 OK", [])
        return [b"ok"]

    headers = [
        ("X_Forwarded_Proto", "https"),
        ("Cookie", "a=1"),
        ("Cookie", "b=2"),
        ("Content-Length", "3"),
    ]
    ask("POST", "/caf%C3%A9?q=1", pages(keep), content=b"abc", headers=headers)

    assert "HTTP_X_FORWARDED_PROTO" not in seen
    assert seen["HTTP_COOKIE"] == "a=1; b=2"
    assert seen["PATH_INFO"].encode("latin-1").decode() == "/café"
    assert (seen["QUERY_STRING"], seen["CONTENT_LENGTH"]) == ("q=1", "3")


def test_a_large_answer_is_sent_as_it_comes_and_is_closed_at_the_end():
    closed = []

    class Chunks:
        def __iter__(self) -> Any:
            return iter([b"x" * 100_000] * 20)

        def close(self) -> None:
            closed.append(True)

    def large(environ: Any, start: Any) -> Any:
        start("200 OK", [("Content-Type", "text/plain")])
        return Chunks()

    answer = ask("GET", "/", pages(large))

    assert len(answer.content) == 2_000_000
    assert closed == [True]


def test_a_client_that_does_not_read_lets_go_of_the_thread():
    closed = threading.Event()

    class Chunks:
        def __iter__(self) -> Any:
            return iter([b"x" * 100_000] * 20)

        def close(self) -> None:
            closed.set()

    def large(environ: Any, start: Any) -> Any:
        start("200 OK", [])
        return Chunks()

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    asyncio.run(asyncio.wait_for(pages(large, body_within_s=0.2)(scope, receive, send), 20))

    assert closed.is_set()


def test_a_client_that_does_not_read_a_short_answer_is_not_waited_for_without_end():
    def short(environ: Any, start: Any) -> list[bytes]:
        start("200 OK", [])
        return [b"ok"]

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    asyncio.run(asyncio.wait_for(pages(short, body_within_s=0.2)(scope, receive, send), 5))


def scope_of(method: str = "GET") -> dict[str, Any]:
    return {"type": "http", "method": method, "path": "/", "headers": []}


async def nothing_more() -> Any:
    return {"type": "http.request", "body": b"", "more_body": False}


def test_answers_that_nobody_reads_take_no_other_requests_place():
    def short(environ: Any, start: Any) -> list[bytes]:
        start("200 OK", [])
        return [b"ok"]

    app = pages(short, Lane("test", 1, most_waiting=0), body_within_s=60)

    async def story() -> int:
        is_sending = asyncio.Event()

        async def send(message: Any) -> None:
            is_sending.set()
            await asyncio.Event().wait()

        unread = asyncio.create_task(app(scope_of(), nothing_more, send))
        await is_sending.wait()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
            answer = await http.get("http://localhost/")
        unread.cancel()
        return answer.status_code

    assert asyncio.run(story()) == 200


def test_nobody_waits_long_for_a_thread_and_what_never_began_is_refused():
    goes_on, done = threading.Event(), []

    def held_up(environ: Any, start: Any) -> list[bytes]:
        goes_on.wait(30)
        done.append(environ["PATH_INFO"])
        start("200 OK", [])
        return [b"ok"]

    async def story() -> tuple[httpx.Response, httpx.Response]:
        transport = httpx.ASGITransport(pages(held_up, Lane("test", 1, within=0.2)))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            first = asyncio.create_task(http.post("/first"))
            await asyncio.sleep(0)
            second = await http.post("/second")
            goes_on.set()
            return await first, second

    first, second = asyncio.run(story())

    assert (first.status_code, second.status_code, done) == (200, 503, ["/first"])
    assert (second.json()["code"], second.headers["retry-after"]) == ("busy", "2")
    assert "Nothing was done." in second.json()["detail"]


def test_exports_have_threads_of_their_own(as_alice, a_payment):
    row = a_payment()
    cookie = {"Cookie": f"assent_session={as_alice.cookies['assent_session'].value}"}

    threads = []

    def note(**_: Any) -> None:
        threads.append(threading.current_thread().name)

    request_started.connect(note)
    try:
        answer = ask("GET", "/history/export.csv", headers=cookie)
    finally:
        request_started.disconnect(note)

    assert str(row.pk) in answer.text
    assert threads == ["exports"]


def test_nobody_leaves_the_threads_of_the_pages_by_asking_to_wait(settings):
    """Elsewhere a request takes a thread and a session of its own, without bounds on its body."""
    body = b"x" * (2 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)

    for path in ("/sign-in/?wait=1", "/api/v1/log/inclusion?event=1&wait=1"):
        assert ask("POST", path, content=body).json()["code"] == "too_large"


def test_pages_are_compressed_and_answers_to_agents_are_not(as_alice, as_helpdesk, a_payment):
    row = a_payment()
    wanted = {"Accept-Encoding": "gzip"}

    page = as_alice.get("/", headers=wanted)
    answer = as_helpdesk.get(f"/transactions/{row.pk}", accept_encoding="gzip")

    assert page["Content-Encoding"] == "gzip"
    assert row.headline in gzip.decompress(page.content).decode()
    assert "Content-Encoding" not in answer
    assert answer.json()["transaction_id"] == str(row.pk)
