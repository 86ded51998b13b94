"""What a browser may send that nobody would: answered, and logged in no more than a line."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from asgiref.testing import ApplicationCommunicator
from django.urls import reverse

from approvals.web import live
from tests.asgi import requested


@pytest.mark.django_db
@pytest.mark.parametrize("day", ["9999-12-31", "0001-01-01"])
@pytest.mark.parametrize("bound", ["since", "until"])
def test_the_first_and_the_last_day_that_there_is_are_days(as_vera, a_payment, day, bound):
    a_payment()
    is_shown = (bound == "until") == (day == "9999-12-31")

    for name, form in (("desk:history", {}), ("desk:history-export", {"form": "json"})):
        answer = as_vera.get(reverse(name, kwargs=form), {bound: day, "state": "any"})
        assert answer.status_code == 200
        text = b"".join(answer.streaming_content) if answer.streaming else answer.content
        assert (b"Pay 48.20 EUR" in text) is is_shown


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("frame", [{"text": "{"}, {"text": "[" * 100_000}, {"bytes": b"\xff\x00"}])
def test_a_bad_frame_on_the_live_socket_is_an_ordinary_one(as_vera, frame, caplog):
    async def talk() -> dict[str, object]:
        cookie = f"assent_session={as_vera.cookies['assent_session'].value}".encode()
        scope = {"type": "websocket", "path": "/ws/desk", "headers": [(b"cookie", cookie)]}
        socket = ApplicationCommunicator(live.application, scope)
        await socket.send_input({"type": "websocket.connect"})
        assert (await socket.receive_output(timeout=10))["type"] == "websocket.accept"
        await socket.receive_output(timeout=10)
        await socket.send_input({"type": "websocket.receive", **frame})
        answer = await socket.receive_output(timeout=10)
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await socket.wait(timeout=10)
        return json.loads(answer["text"])

    with caplog.at_level(logging.INFO):
        answer = asyncio.run(talk())

    assert answer["changed"] == []
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("charset", ["rot13", "utf-7", "utf-16", "none-such"])
@pytest.mark.parametrize("path", ["/sign-in/?next=+AAA-", "/api/v1/permits/introspect?a=1"])
def test_the_charset_that_a_client_names_changes_nothing(path, charset):
    headers = {"Content-Type": f"application/x-www-form-urlencoded; charset={charset}"}

    answer = requested("POST", path, "none", content=b"token=a", headers=headers)

    assert answer.status_code in {200, 403}  # without the page's CSRF token


@pytest.mark.django_db
@pytest.mark.parametrize(
    "body",
    [
        {"data": b"token=", "content_type": "multipart/form-data"},
        {"data": b"a=1&" * 11_000, "content_type": "application/x-www-form-urlencoded"},
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/permits/introspect", "/sign-in/"])
def test_a_form_that_cannot_be_read_is_a_problem(client, path, body):
    answer = client.post(path, **body)

    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/api/v1/permits/introspect", "/sign-in/"])
def test_a_form_beyond_the_limit_is_too_large(client, path):
    form = "application/x-www-form-urlencoded"

    answer = client.post(path, b"token=" + b"a" * 300_000, content_type=form)

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


@pytest.mark.django_db
def test_a_tool_of_which_the_name_cannot_be_stored_is_refused(as_helpdesk):
    answer = as_helpdesk.propose("\0")

    assert (answer.status_code, answer.json()["code"]) == (422, "unsafe_text")


@pytest.mark.django_db
def test_nothing_has_an_address_that_cannot_be_stored(as_alice):
    assert as_alice.get("/policies/acme/%00/").status_code == 404


@pytest.mark.django_db
def test_a_query_that_cannot_be_stored_fits_nothing(as_vera, a_payment):
    a_payment()

    answer = as_vera.get("/history/?tool=pay%00")

    assert answer.status_code == 200
    assert b"Pay 48.20 EUR" not in answer.content


@pytest.mark.django_db
def test_a_cookie_that_cannot_be_stored_is_none_of_ours(client):
    client.cookies["assent_session"] = "\0" * 32

    assert client.get("/").status_code == 302
