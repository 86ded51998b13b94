"""Clients of other makers, as their packages are: discovery, plain text, questions, sign-off.

None of them knows anything of Assent but an address and a token.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from a2a import tasks
from a2a.models import Question, Skill, Task
from a2a.tasks import questions
from ledger import execution
from ledger.models import AgentToken, Scope, Transaction
from ledger.transactions import coordinator
from tests.peers import python_client
from tests.processes import Product, running, until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    # The packages of a client are installed by the first test that wants them.
    pytest.mark.timeout(900),
]
# Some of them take long to import on a busy machine.
PATIENCE_S = 180
CLIENTS = ["sdk_0_3", "agent_framework", "google_adk"]
ONE_TEXT = {
    "type": "object",
    "properties": {"question": {"type": "string"}},
    "required": ["question"],
}


@pytest.fixture(params=CLIENTS)
def command(request: pytest.FixtureRequest) -> list[str]:
    return python_client(request.param)


@pytest.fixture
def product(command: list[str], acme: Any) -> Iterator[Product]:
    with running("web", "sweeper") as product:
        yield product


class Conversation:
    """A foreign client at an address: what it is told to say, and what came of it."""

    def __init__(self, command: list[str], address: str, token: str, *options: str) -> None:
        self.process = subprocess.Popen(
            [*command, address, token, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def turn(self, text: str) -> dict[str, Any]:
        """One turn, until the client gives the word back; fails as the client fails."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            said: dict[str, Any] = json.loads(line)
            if said.get("over"):
                return said
        raise AssertionError(self.process.stderr.read()[-3000:])

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def talk(command, product, orchestrator) -> Iterator[Any]:
    _, token = AgentToken.issue(orchestrator, scopes=[Scope.SUBMIT, Scope.PROPOSE])
    conversations = []

    def to(path: str) -> Conversation:
        address = f"http://localhost:{product.web_port}{path}"
        conversations.append(Conversation(command, address, token))
        return conversations[-1]

    yield to
    for conversation in conversations:
        conversation.close()


def test_people_answer_what_comes_as_plain_text_to_the_one_address(talk, alice):
    client = talk("/a2a")

    with ThreadPoolExecutor(1) as aside:
        turn = aside.submit(client.turn, "May I refund order 1042?")
        question = until(lambda: turn.done() or Question.objects.first(), PATIENCE_S)
        assert question is not True, turn.result()
        questions.answer(question.pk, "Yes, but only the fee.", by=alice, via="web")
        said = turn.result(PATIENCE_S)

    assert question.text == "May I refund order 1042?"
    assert "Yes, but only the fee." in " ".join(said["results"])
    assert Task.objects.get().state == "completed"


def test_a_skill_at_its_own_address_asks_back_and_completes_with_the_answer(talk, worker):
    Skill.objects.create(agent=worker, slug="research", name="Research", input_schema=ONE_TEXT)
    client = talk("/a2a/skills/research")

    with ThreadPoolExecutor(1) as aside:
        turn = aside.submit(client.turn, "How did the market do?")
        work = until(
            lambda: turn.done() or tasks.claim(worker.principal, skills=[], via="api"), PATIENCE_S
        )
        assert work is not True, turn.result()
        assert work.input == {"question": "How did the market do?"}
        held = {"agent": worker.principal, "fencing_token": work.fencing_token, "via": "api"}
        questions.ask(work.pk, text="Of which year?", **held)
        turn.result(PATIENCE_S)
        assert Task.objects.get().state == "input-required", "the client has the word"

        turn = aside.submit(client.turn, "2025")
        until(lambda: turn.done() or Task.objects.get().state == "working", PATIENCE_S)
        assert Question.objects.get().answer == "2025"
        tasks.complete(work.pk, result={"summary": "It rose."}, **held)
        said = turn.result(PATIENCE_S)

    assert "It rose." in " ".join(said["results"])
    assert Task.objects.count() == 1


def test_a_proposal_waits_for_sign_off_and_ends_with_the_receipt(talk, alice):
    client = talk("/a2a/skills/prepare_transaction")
    wanted = {"tool": "pay", "arguments": {"reference": "order-7", "amount": "48.20"}}

    with ThreadPoolExecutor(1) as aside:
        turn = aside.submit(client.turn, json.dumps(wanted))
        row = until(lambda: turn.done() or Transaction.objects.first(), PATIENCE_S)
        assert row is not True, turn.result()
        until(lambda: Task.objects.get().state == "auth-required", PATIENCE_S)
        assert not turn.done(), "the stream stays open while people decide"
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
        execution.commit(row.pk)
        said = turn.result(PATIENCE_S)

    row.refresh_from_db()
    assert row.receipt
    assert row.receipt in " ".join(said["results"])
