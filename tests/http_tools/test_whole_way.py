"""A client of MCP, the desk and a tool over HTTP, each a process: a refund from call to receipt.

As in ``make demo``; the tool dies after its effect once, and says after its return what it did.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command

from ledger.models import AgentToken, Scope, Transaction
from ledger.transactions import coordinator
from tests.http_tools.test_example import EXAMPLE, Example
from tests.processes import ROOT, Product, running, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def product(acme: Any) -> Iterator[Product]:
    with running("web", "sweeper", "worker", ASSENT_WEBHOOK_NETWORKS="127.0.0.0/8") as product:
        yield product


@pytest.fixture
def example(product: Product, settings: Any, tmp_path: Path) -> Iterator[Example]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    example = Example(product.environment["ASSENT_LIVE_URL"], tmp_path)
    content = yaml.safe_load((EXAMPLE / "tools.yaml").read_text())
    content["tools"][0]["address"] = f"http://127.0.0.1:{example.port}"
    file = tmp_path / "tools.yaml"
    file.write_text(yaml.safe_dump(content))
    call_command("tools", "apply", str(file))
    yield example
    example.stop()


@pytest.fixture
def client(product: Product, helpdesk: Any) -> Iterator[subprocess.Popen[str]]:
    """The client of the demo, started: it calls ``refund_invoice`` once."""
    token = AgentToken.issue(helpdesk, scopes=[Scope.PROPOSE])[1]
    client = subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "mcp_client.py"), "once"],
        env=os.environ
        | {"ASSENT_URL": product.environment["ASSENT_LIVE_URL"], "ASSENT_TOKEN": token},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield client
    client.kill()
    client.wait()


def signed_off(alice: Any) -> Transaction:
    row = until(lambda: Transaction.objects.filter(state="prepared").first(), 60, "it is proposed")
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    return Transaction.objects.get(pk=row.pk)


def test_the_receipt_of_a_tool_elsewhere_comes_back_as_the_result_of_the_call(
    example, client, alice
):
    row = signed_off(alice)

    said, _ = client.communicate(timeout=60)

    row.refresh_from_db()
    assert client.returncode == 0
    assert row.state == "committed"
    assert said.splitlines()[-1] == f"✓ receipt {row.receipt}"
    assert example.rows()[row.operation_key]["receipt"] == {"id": row.receipt}


def test_a_tool_that_dies_after_its_effect_says_later_what_it_did_and_the_client_hears_it(
    example, client, alice
):
    example.stop()
    example.start(dies=True)
    row = signed_off(alice)
    assert example.process.wait(60) == 9
    until(lambda: Transaction.objects.get(pk=row.pk).state == "in_doubt", 60, "it is in doubt")

    example.start()
    said, _ = client.communicate(timeout=120)

    row.refresh_from_db()
    (done,) = example.rows().values()
    assert (row.state, row.receipt) == ("committed", done["receipt"]["id"])
    assert said.splitlines()[-1] == f"✓ receipt {row.receipt}"
