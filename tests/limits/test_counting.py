"""What counts against whom: at the gate, and in the buckets of each kind of limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from django.db import connection, connections
from django.db.models.functions import Now

from approvals.http.admission import gate
from approvals.http.admission.gate import Gate, Holders
from ledger.errors import LimitReached
from ledger.limits import rates, terms
from ledger.limits.rates import Holder
from ledger.limits.terms import Limit, Of
from ledger.models import AgentToken, Tenant

pytestmark = pytest.mark.django_db(transaction=True)
HERE = "203.0.113.7"


async def read_all(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(4):
        yield b"x" * (size // 4)


def statuses(*requests: dict[str, Any]) -> list[int]:
    """Of requests to one gate."""

    async def send() -> list[int]:
        transport = httpx.ASGITransport(Gate(read_all))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return [(await http.post("/", **each)).status_code for each in requests]

    try:
        return asyncio.run(send())
    finally:
        connections.close_all()


def test_a_revoked_token_vouches_no_longer_at_the_gate(helpdesk, monkeypatch):
    monkeypatch.setattr(gate, "LEARN_AGAIN_S", 0.0)
    row = AgentToken.issue(helpdesk, scopes=["propose"])[0]
    holders = Holders()
    assert asyncio.run(holders.learn(row.token_hash))
    AgentToken.objects.filter(pk=row.pk).update(revoked_at=Now())

    async def is_forgotten() -> bool:
        async with asyncio.timeout(5):
            while holders.known(row.token_hash) is not None:
                await asyncio.sleep(0.02)
        return True

    assert asyncio.run(is_forgotten())


async def settled(holders: Holders) -> None:
    """Wait for what is done beside the requests."""
    while holders._reading:
        await asyncio.wait(holders._reading)
        await asyncio.sleep(0)


def used_at(row: AgentToken) -> datetime | None:
    return AgentToken.objects.values_list("last_used_at", flat=True).get(pk=row.pk)


def request_with(gate_of_one: Gate, token: str) -> int:
    """The status of one request, after what was done beside it."""

    async def send() -> int:
        transport = httpx.ASGITransport(gate_of_one)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            answer = await http.post("/", headers={"Authorization": f"Bearer {token}"})
        await settled(gate_of_one._holders)
        return answer.status_code

    try:
        return asyncio.run(send())
    finally:
        connections.close_all()


def test_the_first_use_of_a_token_is_noted_and_not_each_one(helpdesk, monkeypatch):
    monkeypatch.setattr(gate, "LEARN_AGAIN_S", 0.0)  # as seldom as seconds pass between requests
    row, token = AgentToken.issue(helpdesk, scopes=["propose"])
    the_gate = Gate(read_all)
    assert used_at(row) is None

    assert request_with(the_gate, token) == 200
    first = used_at(row)
    AgentToken.objects.filter(pk=row.pk).update(last_used_at=None)  # a second note would show
    assert [request_with(the_gate, token) for _ in range(3)] == [200] * 3

    assert first is not None
    assert used_at(row) is None


def test_a_use_is_noted_again_after_an_hour(helpdesk, monkeypatch):
    monkeypatch.setattr(gate, "LEARN_AGAIN_S", 0.0)
    monkeypatch.setattr(gate, "NOTE_USE_S", 0.0)  # so that the database alone says how old it is
    row, token = AgentToken.issue(helpdesk, scopes=["propose"])
    the_gate = Gate(read_all)

    def noted_after(age: timedelta) -> bool:
        AgentToken.objects.filter(pk=row.pk).update(last_used_at=Now() - age)
        before = used_at(row)
        assert request_with(the_gate, token) == 200
        return used_at(row) != before

    assert not noted_after(timedelta(minutes=59))
    assert noted_after(timedelta(minutes=61))


@pytest.mark.parametrize("refused", ["unknown", "revoked", "expired"])
def test_the_use_of_a_token_that_is_refused_is_not_noted(helpdesk, refused):
    row, token = AgentToken.issue(helpdesk, scopes=["propose"])
    column = {"revoked": "revoked_at", "expired": "expires_at"}.get(refused)
    if column:
        AgentToken.objects.filter(pk=row.pk).update(**{column: Now() - timedelta(seconds=1)})

    request_with(Gate(read_all), f"{token}x" if refused == "unknown" else token)

    assert used_at(row) is None


def test_a_request_is_answered_although_its_use_cannot_be_noted_and_the_next_one_is(
    helpdesk, monkeypatch
):
    monkeypatch.setattr(gate, "LEARN_AGAIN_S", 0.0)
    row, token = AgentToken.issue(helpdesk, scopes=["propose"])
    the_gate = Gate(read_all)

    with forbidden_to_note_uses():
        assert [request_with(the_gate, token) for _ in range(2)] == [200] * 2
        assert used_at(row) is None

    assert request_with(the_gate, token) == 200
    assert used_at(row) is not None


@contextmanager
def forbidden_to_note_uses() -> Iterator[None]:
    """As if the process had no right to write it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE ledger_agenttoken ADD CONSTRAINT no_use CHECK (last_used_at IS NULL)"
        )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE ledger_agenttoken DROP CONSTRAINT no_use")


@pytest.mark.parametrize("is_chunked", [True, False])
def test_bytes_count_whether_they_are_declared_or_come_in_chunks(helpdesk, settings, is_chunked):
    settings.LIMITS = ["agent.bytes=1"]
    terms.forget()
    headers = {"Authorization": f"Bearer {AgentToken.issue(helpdesk, scopes=['propose'])[1]}"}
    size = 400_000

    sent = [
        {"headers": headers, "content": chunks(size) if is_chunked else b"x" * size}
        for _ in range(4)
    ]
    first, *_, last = statuses(*sent)

    assert (first, last) == (200, 429)


def test_a_request_with_two_tokens_is_refused(helpdesk):
    own = f"Bearer {AgentToken.issue(helpdesk, scopes=['propose'])[1]}"

    headers = [("Authorization", own), ("Authorization", "Bearer other")]

    assert statuses({"headers": headers}, {"headers": headers[:1]}) == [400, 200]


def test_a_flood_of_addresses_frees_nobody_who_has_to_wait_elsewhere(monkeypatch):
    monkeypatch.setattr(rates, "MOST_BUCKETS", 10)
    for _ in range(rates.OF_ACCOUNT_HERE):
        rates.attempt_sign_in(HERE, "alice")

    for number in range(20):
        rates.check_address(f"2001:db8:0:{number:x}::1")

    with pytest.raises(LimitReached):
        rates.attempt_sign_in(HERE, "alice")


def test_a_refused_sign_in_counts_against_no_other_account():
    for _ in range(30):
        try:
            rates.attempt_sign_in(HERE, "alice")
        except LimitReached:
            continue

    assert rates.attempt_sign_in(HERE, "bob") is None  # and raises nothing


def test_what_one_limit_refuses_counts_against_no_other(helpdesk):
    """An agent that waits for its tenant's rate loses none of its bytes of the day."""
    Tenant.objects.filter(pk=helpdesk.tenant_id).update(limits={"requests": 1})
    holder = Holder(helpdesk.tenant_id, helpdesk.slug)
    terms.forget()
    rates.forget()
    terms.refresh(holder.tenant, holder.slug)

    for _ in range(50):
        with suppress(LimitReached):
            rates.check_holder("token", holder, size=1_000_000)

    name = f"{holder.tenant}/{holder.slug}"
    of_agent = rates._measure(Limit.BYTES, Of.AGENT, name, holder)
    assert of_agent.bucket.level > of_agent.capacity - 5_000_000, "a few were let in"
