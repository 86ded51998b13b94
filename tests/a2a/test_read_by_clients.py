"""The answer of a person, as the users of other makers' clients read it.

Each client is given the origin and a token, asks in plain text, and shows what it shows.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from a2a.models import Question
from a2a.tasks import questions
from ledger.models import AgentToken, Scope
from tests.a2a.test_foreign_clients import PATIENCE_S, Conversation
from tests.peers import PEERS, javascript_client, python_client
from tests.processes import Product, running, until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    # The packages of a client are installed by the first test that wants them.
    pytest.mark.timeout(900),
]
NEEDS_NODE = pytest.mark.skipif(
    not shutil.which("npm") and not os.environ.get("CI"),
    reason="needs Node.js (Debian: apt-get install nodejs npm)",
)


def our_own_sdk() -> list[str]:
    """The client of the SDK that Assent itself runs on."""
    return [sys.executable, "-I", str(PEERS / "sdk_1_0" / "client.py")]


# The command of each client, and its options.
Client = tuple[Callable[[], list[str]], list[str]]
PYTHON: dict[str, Client] = {
    "a2a-sdk, JSON-RPC": (our_own_sdk, ["JSONRPC"]),
    "a2a-sdk, HTTP+JSON": (our_own_sdk, ["HTTP+JSON"]),
    "a2a-sdk 0.3": (partial(python_client, "sdk_0_3"), []),
    "google-adk": (partial(python_client, "google_adk"), []),
    "agent-framework-a2a": (partial(python_client, "agent_framework"), []),
    "Strands": (partial(python_client, "strands"), []),
    "BeeAI": (partial(python_client, "beeai"), []),
    "CrewAI": (partial(python_client, "crewai"), []),
    "a2a-handler": (partial(python_client, "handler"), []),
    "a2a-handler, streaming": (partial(python_client, "handler"), ["--stream"]),
}
sdk = partial(javascript_client, script="read.mjs")
JAVASCRIPT: dict[str, Client] = {
    "@a2a-js/sdk, JSON-RPC": (sdk, ["JSONRPC"]),
    "@a2a-js/sdk, HTTP+JSON": (sdk, ["HTTP+JSON"]),
    "a2a-ai-provider": (partial(javascript_client, "ai_sdk", "a2a-ai-provider"), []),
}


@pytest.fixture(
    params=[
        *(pytest.param(client, id=name) for name, client in PYTHON.items()),
        *(pytest.param(client, id=name, marks=NEEDS_NODE) for name, client in JAVASCRIPT.items()),
    ]
)
def client(request: pytest.FixtureRequest, tmp_path: Any, monkeypatch: Any) -> Client:
    command, options = request.param
    installed = command()
    monkeypatch.setenv("HOME", str(tmp_path))  # where some keep what they were told
    return installed, options


@pytest.fixture
def conversation(client: Any, acme: Any, orchestrator: Any) -> Iterator[Conversation]:
    command, options = client
    _, token = AgentToken.issue(orchestrator, scopes=[Scope.SUBMIT])
    with running("web", "sweeper") as product:
        conversation = Conversation(command, origin_of(product), token, *options)
        yield conversation
        conversation.close()


def origin_of(product: Product) -> str:
    return f"http://localhost:{product.web_port}"


def test_the_answer_is_what_the_client_shows_last(conversation, alice):
    with ThreadPoolExecutor(1) as aside:
        turn = aside.submit(conversation.turn, "Which colour shall the door have?")
        question = until(lambda: turn.done() or Question.objects.first(), PATIENCE_S)
        assert question is not True, turn.result()
        questions.answer(question.pk, "blue", by=alice, via="web")
        last = turn.result(PATIENCE_S)

    # The provider of the AI SDK joins the status and the artifact, and so shows it twice.
    assert last["read"].rstrip().endswith("blue"), last
