"""Tools that only read, at a service that hangs: nobody else waits for it."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import httpx
import pytest
from django.db import connections

from approvals.asgi import application
from ledger.api.fast.readings import MOST_OF_ONE
from ledger.contracts import readonly_tools
from ledger.models import AgentToken, Reading, Scope
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def hanging(monkeypatch):
    """A tool that does not answer until the event is set."""
    over, tool = threading.Event(), readonly_tools["look_up"]
    begun = []

    def hang(word):
        begun.append(word)
        over.wait(60)
        return {"word": word}

    monkeypatch.setattr(tool, "function", hang)
    monkeypatch.setattr(tool, "timeout", timedelta(seconds=60))
    yield over, begun
    over.set()


def test_a_service_that_hangs_delays_no_page_and_has_so_many_calls_at_once(helpdesk, hanging):
    over, begun = hanging
    token = AgentToken.issue(helpdesk, scopes=[Scope.PROPOSE])[1]
    calls = 2 * MOST_OF_ONE

    async def all_of_it():
        transport = httpx.ASGITransport(application)
        headers = {"Authorization": f"Bearer {token}"}
        options = {"transport": transport, "base_url": "http://localhost", "headers": headers}
        async with httpx.AsyncClient(**options, timeout=60) as http:
            body = {"arguments": {"word": "x"}}
            asked = [
                asyncio.create_task(http.post("/api/v1/tools/look_up/call", json=body))
                for _ in range(calls)
            ]
            await asyncio.to_thread(until, lambda: len(begun) == MOST_OF_ONE, what="they hang")
            async with asyncio.timeout(4):  # less than a page waits for a thread
                page = await http.get("/api/v1/tools")
            refused = asyncio.as_completed(asked)
            for _ in range(calls - MOST_OF_ONE):
                await next(refused)
            over.set()
            return page, await asyncio.gather(*asked)

    try:
        page, answers = asyncio.run(all_of_it())
    finally:
        connections.close_all()

    assert page.status_code == 200
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [200] * MOST_OF_ONE + [502] * (calls - MOST_OF_ONE)
    assert Reading.objects.filter(error__contains="have not come back").exists()
