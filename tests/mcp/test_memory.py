"""Calls that wait keep nothing of what was sent: many of them do not fill the memory."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc

import pytest
from django.db import connections

from a2a.doors.mcp_server import waiting
from approvals.asgi import application
from ledger.models import AgentToken, Scope
from tests.conftest import propose

pytestmark = pytest.mark.django_db(transaction=True)
CALLS, LISTS = 6, 100_000  # several megabytes for each call, once they are read


class Waiting:
    """One call over ASGI, whose client stays until it is told to go."""

    def __init__(self, token: str, body: bytes) -> None:
        self.is_held, self._is_over = asyncio.Event(), asyncio.Event()
        self._body: bytes | None = body
        self._headers = [
            (b"host", b"localhost"),
            (b"authorization", f"Bearer {token}".encode()),
            (b"accept", b"application/json, text/event-stream"),
            (b"content-type", b"application/json"),
        ]

    async def run(self) -> None:
        scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b""}
        client = {"client": ("127.0.0.1", 1), "headers": self._headers}
        await application({**scope, **client}, self.receive, self.send)

    async def receive(self):
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._is_over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.is_held.set()  # the first sign of life

    def leave(self) -> None:
        self._is_over.set()


def test_a_call_that_waits_holds_nothing_of_what_was_sent(helpdesk, monkeypatch):
    monkeypatch.setattr(waiting, "SIGN_OF_LIFE_S", 0.2)
    token = AgentToken.issue(helpdesk, scopes=[Scope.PROPOSE])[1]
    arguments = {"transaction_id": str(propose().pk), "ballast": [[] for _ in range(LISTS)]}
    params = {"name": "assent_wait", "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    body = json.dumps(message, separators=(",", ":")).encode()
    del arguments, params, message

    async def held() -> int:
        calls = [Waiting(token, body) for _ in range(CALLS)]
        tracemalloc.start()
        running = [asyncio.create_task(call.run()) for call in calls]
        try:
            await asyncio.gather(*(call.is_held.wait() for call in calls))
            gc.collect()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
            for call in calls:
                call.leave()
            await asyncio.gather(*running)

    try:
        kept = asyncio.run(held())
    finally:
        connections.close_all()

    assert kept < CALLS * 1_000_000
