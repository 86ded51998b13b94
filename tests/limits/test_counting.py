"""What counts against whom: at the gate, and in the buckets of each kind of limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from django.db import connections
from django.db.models.functions import Now

from approvals.http import gate
from approvals.http.gate import Gate, Holders
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
