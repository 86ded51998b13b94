"""The JavaScript SDK's client does the whole story over each binding that it and we speak."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

import pytest

from ledger.models import Agent, AgentToken, Scope
from tests.a2a.test_peers import Worker, archivist, product  # noqa: F401
from tests.peers import javascript_client
from tests.processes import Product

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.skipif(
        not shutil.which("npm") and not os.environ.get("CI"),
        reason="needs Node.js (Debian: apt-get install nodejs npm)",
    ),
]

ASKED_AND_ANSWERED = ["SUBMITTED", "WORKING", "INPUT_REQUIRED", "WORKING"]


@pytest.fixture(scope="session")
def command() -> list[str]:
    return javascript_client()


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "0.3"])
def test_the_javascript_client_streams_answers_reads_and_lists(
    product: Product,  # noqa: F811
    archivist: Worker,  # noqa: F811
    orchestrator: Agent,
    command: list[str],
    binding: str,
) -> None:
    _, token = AgentToken.issue(orchestrator, scopes=[Scope.SUBMIT])
    # Cards of version 0.3 name the live process themselves; all cards are at both.
    said: list[dict[str, Any]] = []
    with subprocess.Popen(
        [*command, product.url, token, binding, "May 3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdout is not None
        assert client.stderr is not None
        for line in client.stdout:
            said.append(json.loads(line))
            if said[-1].get("seen") == "SUBMITTED":
                archivist.claim()
                archivist.say("ask", text="Which date?")
            if [one["seen"] for one in said if "seen" in one] == ASKED_AND_ANSWERED:
                archivist.say("complete", result={"summary": "ok"})
        assert client.wait(20) == 0, client.stderr.read()

    seen = [one["seen"] for one in said if "seen" in one]
    assert seen == [*ASKED_AND_ANSWERED, "artifact", "COMPLETED"]
    rest = [one for one in said if "seen" not in one]
    assert rest.pop(0) == {"closed": True}
    assert rest[0] == {"read": "COMPLETED", "result": {"summary": "ok"}}
    assert rest[-1]["refused"].endswith("TaskNotCancelableError")
    if binding != "0.3":
        assert {"listed": 1} in rest
