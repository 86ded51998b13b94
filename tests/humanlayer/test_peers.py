"""The unmodified clients, each with two changed variables, at a live process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from a2a.doors.humanlayer.calls import bindings
from a2a.models import Question
from a2a.tasks import questions
from ledger import execution
from ledger.models import Transaction
from ledger.transactions import coordinator
from tests.forgery import move_deadline
from tests.peers import javascript_client, python_client
from tests.processes import Product, running, until
from tests.toolbox.world import world

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(900),  # the first test of each installs its packages
]
NODE = pytest.mark.skipif(
    not shutil.which("npm") and not os.environ.get("CI"),
    reason="needs Node.js (Debian: apt-get install nodejs npm)",
)
KINDS = ["sync", "async", pytest.param("javascript", marks=NODE)]


@pytest.fixture
def live(acme) -> Iterator[Product]:
    with running("web") as product:
        yield product


class Peer:
    """A client at work: it goes on when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def says(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()[-3000:]
        return json.loads(line)

    def polls(self) -> dict[str, Any]:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.says()


@pytest.fixture
def peer(live: Product, token: str) -> Callable[..., Any]:
    @contextmanager
    def start(kind: str, what: str) -> Iterator[Peer]:
        client = (
            javascript_client("humanlayer_javascript", "@humanlayer/sdk")
            if kind == "javascript"
            else python_client("humanlayer_python")
        )
        environment = {
            "HUMANLAYER_API_BASE": f"http://localhost:{live.web_port}/humanlayer/v1",
            "HUMANLAYER_API_KEY": token,
        }
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [*client, kind, what],
            env=os.environ | environment,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        ) as process:
            yield Peer(process)

    return start


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_waits_through_a_restart_and_runs_once_it_is_approved(peer, live, decide, kind):
    with peer(kind, "approve") as client:
        assert client.says() == {"seen": "waits"}
        assert client.polls() == {"seen": "waits"}
        live.kill("web")
        live.start("web")
        decide("approve")

        assert client.polls() == {"seen": "result", "text": "sent to ann"}
    assert Transaction.objects.get().state == "handed_over"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reason", ["Not now, ask tomorrow", "Wrong address"])
def test_a_rejection_reaches_the_model_with_its_reason(peer, decide, kind, reason):
    with peer(kind, "approve") as client:
        client.says()
        decide("reject", reason)

        assert reason in client.polls()["text"]


def test_a_rejection_without_words_reaches_the_model_as_one(peer, decide):
    with peer("sync", "approve") as client:
        client.says()
        row = decide("reject", "x")
        Transaction.objects.filter(pk=row.pk).update(ending_reason="")

        said = client.polls()["text"]

    assert said == "User denied send_email with message: No reason given."


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_expired_is_denied_in_words(peer, kind):
    with peer(kind, "approve") as client:
        client.says()
        row = Transaction.objects.get()
        move_deadline(row.pk)
        coordinator.expire(row.pk)

        assert "Nobody signed it off in time" in client.polls()["text"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_assent_carries_out_is_not_run_by_the_client_too(peer, decide, kind, acme, alice):
    bindings.bind(acme, None, "fly", "launch", by=alice, via="admin")
    with peer(kind, "bound") as client:
        assert client.says() == {"seen": "waits"}
        row = decide("approve")
        assert client.polls() == {"seen": "waits"}
        execution.commit(row.pk)

        said = client.polls()

    assert said["seen"] == "result"
    assert "Done by Assent: re_1. Do not run it yourself." in said["text"]
    assert "itself" not in said["text"].replace("yourself", "")
    assert sum(world.effects.values()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_is_answered_with_text(peer, alice, kind):
    has_options = kind != "javascript"  # its human_as_tool takes none
    with peer(kind, "ask") as client:
        client.says()
        question = until(Question.objects.first)
        value = {"answer": "later"} if has_options else "Not now, ask tomorrow"
        questions.answer(question.pk, value, by=alice, via="web")

        assert client.polls()["text"] == "Not now, ask tomorrow"


@pytest.mark.parametrize("kind", ["sync", pytest.param("javascript", marks=NODE)])
def test_no_client_decides_on_its_own_call(peer, kind):
    with peer(kind, "respond") as client:
        text = client.says()["text"]
        assert "403" in text or "No agent decides" in text
    assert Transaction.objects.get().state == "prepared"
