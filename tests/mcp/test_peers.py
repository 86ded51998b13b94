"""Unmodified clients of others, at two live processes: a call at one, its outcome at the other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from ledger import execution
from ledger.models import AgentToken, Scope, Transaction
from ledger.transactions import coordinator
from tests.peers import javascript_client, python_client
from tests.processes import Product, running

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(900),  # the first test of each installs its packages
]


@pytest.fixture
def addresses(acme: Any) -> Iterator[list[str]]:
    with running("web") as one, running("web") as other:
        yield [address_of(one), address_of(other)]


def address_of(product: Product) -> str:
    return f"http://localhost:{product.web_port}/mcp"


@pytest.fixture
def token(helpdesk):
    return AgentToken.issue(helpdesk, scopes=[Scope.PROPOSE])[1]


def signed_off_when(seen: str, command: list[str], alice: Any) -> list[dict[str, Any]]:
    """All that a client says; its call is signed off and carried out once it says ``seen``."""
    said: list[dict[str, Any]] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        assert client.stderr is not None
        for line in client.stdout:
            said.append(json.loads(line))
            if said[-1]["seen"] == seen:
                row = Transaction.objects.get()
                coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
                execution.commit(row.pk)
        assert client.wait() == 0, client.stderr.read()[-3000:]
    return said


def receipt_of_the_one_transaction() -> str:
    row = Transaction.objects.get()
    assert row.receipt
    return row.receipt


@pytest.mark.parametrize("mode", ["2026-07-28", "auto", "legacy"])
def test_the_sdks_client_of_each_era_waits_at_another_process(addresses, token, alice, mode):
    command = [*python_client("mcp_python"), *addresses, token, mode]

    tools, pending, ended = signed_off_when("pending", command, alice)

    assert {"pay", "assent_wait"} <= set(tools["names"])
    assert pending["seen"] == "pending"
    assert ended == {"seen": "succeeded", "receipt": receipt_of_the_one_transaction()}


def test_a_client_that_follows_tasks_outlasts_its_own_time_outs(addresses, token, alice):
    command = [*python_client("mcp_python"), *addresses, token, "tasks"]

    said = signed_off_when("outlasted", command, alice)

    assert said[-1] == {"seen": "succeeded", "receipt": receipt_of_the_one_transaction()}


@pytest.mark.skipif(
    not shutil.which("npm") and not os.environ.get("CI"),
    reason="needs Node.js (Debian: apt-get install nodejs npm)",
)
def test_a_client_that_gives_up_after_a_minute_is_told_before_what_to_call(addresses, token, alice):
    command = [
        *javascript_client("mcp_javascript", "@modelcontextprotocol"),
        *addresses,
        token,
    ]

    _, pending, ended = signed_off_when("pending", command, alice)

    assert pending["seen"] == "pending"
    assert ended == {"seen": "succeeded", "receipt": receipt_of_the_one_transaction()}
