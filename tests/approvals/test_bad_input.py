"""What a browser may send that nobody would: answered, and logged in no more than a line."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from asgiref.testing import ApplicationCommunicator
from django.urls import reverse

from approvals.web import live


@pytest.mark.django_db
@pytest.mark.parametrize("day", ["9999-12-31", "0001-01-01"])
@pytest.mark.parametrize("bound", ["since", "until"])
def test_the_first_and_the_last_day_that_there_is_are_days(as_vera, a_payment, day, bound):
    a_payment()
    is_shown = (bound == "until") == (day == "9999-12-31")

    for name, form in (("desk:history", {}), ("desk:history-export", {"form": "json"})):
        answer = as_vera.get(reverse(name, kwargs=form), {bound: day})
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
