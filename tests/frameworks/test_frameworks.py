"""Runs of real agent frameworks pause here, are decided on, and resume in another process.

Each framework has an environment of its own, with what examples/frameworks/requirements pins.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now

from ledger import execution
from ledger.models import Agent, AgentToken, Scope, Transaction
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.forgery import move_deadline
from tests.peers import python_with
from tests.processes import ROOT

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(900),  # the first test of each installs its packages
]
EXAMPLES = ROOT / "examples" / "frameworks"
HERE = Path(__file__).parent
FRAMEWORKS = ["langgraph", "openai_agents", "pydantic_ai", "adk"]
# The others take results from outside as they are; nothing is carried out by them either.
ASKS_THE_LEDGER = {"langgraph", "openai_agents"}
KILLED = 9


class Run:
    """One run of an agent, each action in a process of its own."""

    def __init__(self, framework: str, python: Path, folder: Path, environment: Any) -> None:
        self.command = [str(python), str(HERE / f"play_{framework}.py")]
        self.framework, self.folder, self.environment = framework, folder, environment

    def calls(self, *arguments: dict[str, Any]) -> None:
        """What the model will call, all at once."""
        self.calls_of("pay", *arguments)

    def calls_of(self, tool: str, *arguments: dict[str, Any]) -> None:
        calls = [{"tool": tool, "arguments": said} for said in arguments]
        (self.folder / "calls.json").write_text(json.dumps(calls))

    def process(self, action: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, action, str(self.folder)],
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def act(self, action: str) -> dict[str, Any]:
        done = self.process(action)
        assert done.returncode == 0, done.stderr[-3000:]
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return said


@pytest.fixture(params=FRAMEWORKS)
def run(request, tmp_path, live_server, settings, helpdesk: Agent) -> Run:
    settings.PUBLIC_URL = settings.LIVE_URL = live_server.url
    framework = request.param
    python = python_with(framework, EXAMPLES / "requirements" / f"{framework}.txt")
    _, token = AgentToken.issue(helpdesk, scopes=[Scope.PROPOSE])
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": f"{EXAMPLES}{os.pathsep}{HERE}",
        "ASSENT_URL": live_server.url,
        "ASSENT_TOKEN": token,
    }
    return Run(framework, python, tmp_path, environment)


def payment(reference: str) -> Transaction:
    return Transaction.objects.get(payload__reference=reference)


def approve(reference: str, by: Any) -> Transaction:
    row = payment(reference)
    return coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")


def find_out(row: Transaction) -> None:
    """The inquiry of a worker, before it would be due."""
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())
    execution.commit(row.pk)


def test_a_run_resumes_elsewhere_with_the_receipt_and_only_once(run, alice, the_world):
    run.calls({"reference": "o1", "amount": "48.20"})

    assert run.act("start") == {"waiting": 1, "told": {}, "said": ""}
    assert run.act("resume")["waiting"] == 1, "resumed too early, it still waits"
    if run.framework in ASKS_THE_LEDGER:
        assert run.act("forge")["waiting"] == 1, "whatever it is resumed with"
    assert not the_world.effects

    execution.commit(approve("o1", alice).pk)
    ended = run.act("resume")
    again = run.act("resume")

    told = ended["told"]["call-0"]
    assert (told["status"], told["receipt"]) == ("succeeded", payment("o1").receipt)
    assert told["decided_by"] == ["Alice Moreau"]
    assert (ended["waiting"], ended["said"]) == (0, "done")
    assert (again["waiting"], again["said"]) == (0, "done")
    assert the_world.effects.total() == 1
    assert Transaction.objects.count() == 1


def test_calls_side_by_side_end_each_in_its_own_way(run, alice, the_world):
    run.calls(*({"reference": name, "amount": "48.20"} for name in ("no", "late", "lost")))
    assert run.act("start")["waiting"] == 3

    row = payment("no")
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="Paid before.")
    move_deadline(payment("late").pk)
    sweeper.expire_what_is_due()
    the_world.after = [no_answer]
    execution.commit(approve("lost", alice).pk)
    assert payment("lost").state == "in_doubt"
    doubtful = run.act("resume")
    find_out(payment("lost"))
    told = run.act("resume")["told"]

    assert doubtful["waiting"] >= 1, "doubt is not an outcome"
    assert doubtful["told"] == {}, "the model is told nothing while it lasts"
    assert [told[call]["status"] for call in sorted(told)] == ["refused", "expired", "succeeded"]
    assert told["call-0"]["reason"] == "Paid before."
    assert "Paid before." in told["call-0"]["message"]
    assert told["call-0"]["decided_by"] == ["Alice Moreau"]
    assert [told[call]["do_not_retry"] for call in sorted(told)] == [True, True, True]
    assert the_world.effects.total() == 1


def no_answer() -> None:
    raise ConnectionError("The answer was lost.")


def test_a_run_killed_after_it_proposed_proposes_the_same_again(run, alice, the_world):
    run.calls({"reference": "o1", "amount": "48.20"})

    assert run.process("start", ASSENT_DIE="1").returncode == KILLED
    proposed = Transaction.objects.get()
    assert run.act("again")["waiting"] == 1

    assert Transaction.objects.get() == proposed
    execution.commit(approve("o1", alice).pk)
    (told,) = run.act("resume")["told"].values()
    assert told["receipt"] == payment("o1").receipt
    assert the_world.effects.total() == 1


def test_what_the_tool_refuses_is_told_to_the_model_at_once(run):
    run.calls({"reference": "unknown", "amount": "1"})

    ended = run.act("start")

    told = ended["told"]["call-0"]
    assert (ended["waiting"], ended["said"]) == (0, "done")
    assert (told["status"], told["code"], told["do_not_retry"]) == (
        "refused",
        "plan_refused",
        False,
    )
    assert "There is no such payment." in told["message"]


def test_a_tool_that_only_reads_answers_without_a_pause(run):
    run.calls_of("look_up", {"word": "lamp"}, {"wrong": "argument"})

    ended = run.act("start")

    found, refused = ended["told"]["call-0"], ended["told"]["call-1"]
    assert (ended["waiting"], ended["said"]) == (0, "done")
    assert "LAMP" in json.dumps(found)
    assert (refused["status"], refused["code"]) == ("refused", "invalid_arguments")
    assert not Transaction.objects.exists()
