"""The example service in a process of its own: killed after its effect, and found again."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
import yaml
from django.core.management import call_command

from ledger import execution
from ledger.contracts import Context, NothingHappenedYet
from ledger.models import Tenant
from ledger.tools import catalogue, registrations
from ledger.tools.manifests import HttpManifest
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.http_tools.conftest import OPERATOR

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

EXAMPLE = Path(__file__).parents[2] / "examples" / "http_tool"
# Stands before the answer of a commit: the process dies with the effect made and nothing said.
DIES_ONCE = """
import os, pathlib, runpy, sys
sys.argv = sys.argv[1:]
import json
send = None
from http.server import BaseHTTPRequestHandler
respond = BaseHTTPRequestHandler.send_response
marker = pathlib.Path(sys.argv[3]).with_suffix(".died")
def send_response(self, *args):
    if self.path.endswith("/commit") and not marker.exists():
        marker.touch()
        os._exit(9)
    respond(self, *args)
BaseHTTPRequestHandler.send_response = send_response
runpy.run_path(sys.argv[0], run_name="__main__")
"""


# The same for Node, as a module that is loaded first.
NODE_DIES_ONCE = """
import { existsSync, writeFileSync } from "node:fs";
import { ServerResponse } from "node:http";
const writeHead = ServerResponse.prototype.writeHead;
const marker = process.argv[4].replace(".json", ".died");
ServerResponse.prototype.writeHead = function (...all) {
  if (this.req.url.endsWith("/commit") && !existsSync(marker)) {
    writeFileSync(marker, "");
    process.exit(9);
  }
  return writeHead.apply(this, all);
};
"""
PYTHON = (sys.executable, str(EXAMPLE / "tool.py"))
NODE = (shutil.which("node") or "", str(EXAMPLE / "tool.mjs"))


def dying(program: str, folder: Path) -> list[str]:
    if program == sys.executable:
        return ["-c", DIES_ONCE]
    module = folder / "dies_once.mjs"
    module.write_text(NODE_DIES_ONCE)
    return ["--import", str(module)]


class Example:
    def __init__(self, assent: str, folder: Path, command: Sequence[str] = PYTHON) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.ledger = folder / "refunds.json"
        self.command = command
        self.arguments = [str(self.port), assent, str(self.ledger)]
        self.process = self.start()

    def start(self, *, dies: bool = False, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """``before`` stands between the program and the example."""
        program, example = self.command
        before = dying(program, self.ledger.parent) if dies else before
        self.process = subprocess.Popen([program, *before, example, *self.arguments])
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                httpx.get(f"http://127.0.0.1:{self.port}/operations/x")
            except httpx.TransportError:
                assert self.process.poll() is None
            else:
                return self.process
        raise TimeoutError("the example does not answer")

    def apply(self, **changes: object) -> None:
        """Register its tool, with these ``changes`` to its manifest."""
        content = yaml.safe_load((EXAMPLE / "tools.yaml").read_text())
        content["tools"][0] |= {"address": f"http://127.0.0.1:{self.port}", **changes}
        file = self.ledger.with_name("tools.yaml")
        file.write_text(yaml.safe_dump(content))
        call_command("tools", "apply", str(file))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def rows(self):
        return json.loads(self.ledger.read_text()) if self.ledger.exists() else {}


@pytest.fixture(params=[PYTHON, NODE], ids=["python", "node"])
def example(request, live_server, settings, tmp_path, acme):
    if not request.param[0]:
        pytest.skip("Node is not on this machine.")
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    example = Example(live_server.url, tmp_path, request.param)
    example.apply()
    yield example
    example.stop()


def signed_off(alice, **arguments):
    row = propose("refund_invoice", **({"invoice": "2042", "amount": "48.20"} | arguments))
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    return row


def test_the_example_refunds_once_and_says_so(example, alice):
    row = signed_off(alice)

    execution.commit(row.pk)

    row.refresh_from_db()
    assert row.state == "committed"
    assert example.rows()[row.operation_key]["receipt"] == {"id": row.receipt}


def test_what_was_signed_off_for_another_tool_cannot_be_sent_on_to_the_example(
    example, alice, service
):
    """Its owner passes on a request that Assent has signed, with the Host that it was for."""
    passed_on = []

    def pass_on(handler):
        body = handler.server.RequestHandlerClass.service.asked[-1].body
        headers = dict(handler.headers)
        passed_on.append(
            httpx.post(
                f"http://127.0.0.1:{example.port}{handler.path}",
                content=json.dumps(body, ensure_ascii=False),
                headers=headers,
            )
        )
        return 200, {"receipt": {"id": "mine"}}

    service.answers["commit"] = pass_on
    content = yaml.safe_load((EXAMPLE / "tools.yaml").read_text())["tools"][0]
    registrations.register(
        Tenant.objects.get(slug="acme"),
        HttpManifest.read(
            {**content, "name": "repay", "address": service.address, "routes": ["find_receipt"]}
        ),
        by=OPERATOR,
        via="command",
    )
    row = propose("repay", invoice="2042", amount="48.20")
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    execution.commit(row.pk)

    assert [answer.status_code for answer in passed_on] == [401]
    assert example.rows() == {}


def test_a_tool_of_the_same_address_in_another_tenant_does_nothing_at_the_example(example, globex):
    content = yaml.safe_load((EXAMPLE / "tools.yaml").read_text())["tools"][0]
    manifest = {
        **content,
        "address": f"http://127.0.0.1:{example.port}",
        "routes": ["find_receipt"],
    }
    tool = catalogue.tool_from(HttpManifest.read(manifest), globex.slug)
    context = Context(uuid4(), "globex", "refund_invoice:globex:1", timedelta(seconds=10))

    with pytest.raises(NothingHappenedYet, match="another tenant or tool"):
        tool.run("execute", tool.validate({"invoice": "1", "amount": "1.00"}), context)

    assert example.rows() == {}


def test_a_service_that_dies_after_its_effect_is_asked_what_became_of_it(example, alice):
    row = signed_off(alice)
    example.stop()
    example.start(dies=True)

    execution.commit(row.pk)
    row.refresh_from_db()
    assert row.state == "in_doubt"
    assert example.process.wait(20) == 9
    (done,) = example.rows().values()

    example.start()
    execution.commit(row.pk)

    row.refresh_from_db()
    assert (row.state, row.receipt) == ("committed", done["receipt"]["id"])
    assert len(example.rows()) == 1


def test_nobody_but_assent_is_served(example, alice):
    refused = httpx.post(
        f"http://127.0.0.1:{example.port}/commit",
        json={"operation_key": "k", "transaction_id": "t", "arguments": {}},
    )

    assert (refused.status_code, refused.json()["type"]) == (401, "nothing-happened")
    assert example.rows() == {}


def test_a_rejected_refund_is_let_go_of_and_cannot_be_made_later(example, alice):
    row = propose("refund_invoice", invoice="2042", amount="48.20")
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")
    execution.roll_back(row.pk)
    row.refresh_from_db()

    assert row.state == "aborted"
    assert example.rows()[row.operation_key]["state"] == "undone"
