"""A poll that others would be refused is held back, and answered with 200 in the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.db import connections
from django.test import override_settings

from approvals.http.admission.throttled_polls import HAS_STOOD_BACK, Patience
from ledger.limits import rates, terms
from tests import asgi
from tests.humanlayer.conftest import HumanLayer

CALL = "/humanlayer/v1/function_calls/call-1"


def answers(*statuses: int) -> tuple[Any, list[Any]]:
    """An application that answers so, one after the other; and what it was asked."""
    left, asked = list(statuses), []

    async def inside(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope)
        await send({"type": "http.response.start", "status": left.pop(0), "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    return inside, asked


def status_of(inside: Any, *, method: str = "GET", path: str = "/humanlayer/v1/x", **times: float):
    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    scope = {"type": "http", "method": method, "path": path}
    asyncio.run(Patience(inside, **times)(scope, None, send))
    return said[0]["status"]


@pytest.mark.parametrize("refusal", [429, 503])
def test_a_poll_that_is_refused_for_now_is_asked_again(refusal):
    inside, asked = answers(refusal, refusal, 200)

    assert status_of(inside, every_s=0.01) == 200
    assert len(asked) == 3


def test_after_its_time_it_passes_the_limits():
    inside, asked = answers(429, 200)

    assert status_of(inside, longest_s=0.01, every_s=1) == 200
    assert [bool(scope.get(HAS_STOOD_BACK)) for scope in asked] == [False, True]


@pytest.mark.parametrize(("method", "path"), [("POST", "/humanlayer/v1/x"), ("GET", "/api/v1/x")])
def test_all_else_is_answered_at_once(method, path):
    inside, asked = answers(429)

    assert status_of(inside, method=method, path=path) == 429
    assert len(asked) == 1


def test_what_is_not_there_is_said_at_once():
    inside, asked = answers(404)

    assert status_of(inside) == 404
    assert len(asked) == 1


@pytest.mark.django_db(transaction=True)
def test_many_polls_of_one_agent_are_all_answered(humanlayer: HumanLayer, token):
    humanlayer.call(call_id="call-1")

    assert asgi.requested("GET", CALL, token).status_code == 200

    async def polls() -> list[Any]:
        return await asyncio.gather(*(asgi.request("GET", CALL, token) for _ in range(30)))

    with override_settings(LIMITS=["token.requests=10"]):
        rates.forget()
        terms.forget()
        try:
            said = asyncio.run(polls())
        finally:
            connections.close_all()
            rates.forget()
            terms.forget()

    assert {answer.status_code for answer in said} == {200}
