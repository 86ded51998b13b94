"""Bombs, silent sockets and slow plans: a manager's page opens, another agent's prepare passes."""

from __future__ import annotations

import gzip
import json
import re
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from a2a.models import Task
from ledger.models import Transaction
from tests import faults
from tests.limits.requests import address_of, as_agent, http, is_silent, opens, propose, send
from tests.processes import Product, running

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

MIB = 1024 * 1024
PROPOSAL = '{"tool": "pay", "arguments": {"reference": "r", "amount": %s}}'
MESSAGE = (
    '{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": '
    '{"messageId": "m", "role": "ROLE_USER", "parts": [{"data": %s}]}}}'
)
MALFORMED = {
    "nested without end": "[" * 200_000,
    "nested deeply": "[" * 50_000 + "]" * 50_000,
    "an integer of many digits": "9" * 200_000,
    "an exponent without end": "1e999999999",
}
LARGE = {
    "many keys": json.dumps({f"key {number}": number for number in range(30_000)}),
    "one key many times": "{" + ",".join(['"key": 1'] * 30_000) + "}",
    "text without end": '"' + "x" * 400_000,
}


def resident(product: Product) -> int:
    """MiB of the web process."""
    pids = faults.family(product.processes["web"].pid)
    pages = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return sum(int(re.findall(r"VmRSS:\s+(\d+)", page)[0]) for page in pages) // 1024


def post(product: Product, path: str, token: str, body: bytes, **headers: str) -> httpx.Response:
    usual = {**as_agent(token), "Content-Type": "application/json", "A2A-Version": "1.0"}
    return http.post(address_of(product) + path, content=body, headers={**usual, **headers})


def is_refused(answer: httpx.Response) -> bool:
    """By a status, or by an error of JSON-RPC."""
    return 400 <= answer.status_code < 500 or "error" in answer.json()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_no_bomb_is_stored_or_fills_the_memory_or_stops_a_page(live, tokens, as_manager):
    opens(live, as_manager)  # compiles the templates
    assert propose(live, tokens[1]).status_code == 201
    before = resident(live)

    for name, bomb in (MALFORMED | LARGE).items():
        answers = [
            post(live, "/api/v1/transactions", tokens[0], (PROPOSAL % bomb).encode()),
            post(live, "/a2a/v1", tokens[0], (MESSAGE % bomb).encode()),
        ]
        assert is_refused(answers[0]), name
        # What can be read may become a task: there are limits on its size and the number of tasks.
        assert is_refused(answers[1]) or (name in LARGE and answers[1].status_code == 200), name
        opens(live, as_manager)
    packed = gzip.compress(b" " * 200 * MIB)
    for path in ("/api/v1/transactions", "/a2a/v1", "/sign-in/"):
        answer = post(live, path, tokens[0], packed, **{"Content-Encoding": "gzip"})
        assert 400 <= answer.status_code < 500 or "error" in answer.json(), path

    assert resident(live) - before < 150
    assert Transaction.objects.count() == 1
    assert Task.objects.count() <= len(LARGE)
    assert propose(live, tokens[1]).status_code == 201


SILENT = 2_000


def test_thousands_of_silent_connections_stop_neither_pages_nor_agents(live, tokens, as_manager):
    opens(live, as_manager)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    with ExitStack() as stack:
        number = min(SILENT, most - 200)
        silent = [stack.enter_context(send(live, b"")) for _ in range(number)]

        opens(live, as_manager)
        prepared = propose(live, tokens[0]).status_code
        still = sum(map(is_silent, silent))

    assert still == number, "answered before any of them was given up"
    assert prepared == 201


@pytest.fixture
def with_sandbox(acme) -> Iterator[Product]:
    with running("sandbox", "web") as product:
        yield product


def test_a_dozen_slow_plans_stop_neither_pages_nor_another_agent(with_sandbox, tokens, as_manager):
    product, (busy, quiet) = with_sandbox, tokens
    opens(product, as_manager)
    for _ in range(12):
        fault = {"path": "/airline/holds", "mode": "delay", "seconds": 8}
        httpx.post(f"{product.sandbox_url}/faults", json=fault).raise_for_status()
    seat = {"flight_id": "QX412-2027-03-15", "max_price": "9000000"}

    def book(number: int) -> int:
        arguments = {**seat, "passenger": f"Passenger {uuid4().hex[:6]}"}
        body = json.dumps({"tool": "book_flight", "arguments": arguments}).encode()
        return post(product, "/api/v1/transactions", busy, body).status_code

    with ThreadPoolExecutor(12) as pool:
        plans = [pool.submit(book, number) for number in range(12)]
        for _ in range(3):
            opens(product, as_manager)
        prepared = [propose(product, quiet).status_code for _ in range(3)]
        still = sum(not plan.done() for plan in plans)
        statuses = sorted({plan.result() for plan in plans})

    assert still >= 3, "slow plans ran meanwhile"
    assert prepared == [201] * 3
    assert set(statuses) <= {201, 429, 502, 503}  # 502: its own time was over
