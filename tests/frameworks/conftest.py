"""The product as its own processes, and the programs of pages that work with it as they stand."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ledger.models import Agent, AgentToken, Event, Scope, Transaction
from ledger.states import EventKind, State
from ledger.transactions import coordinator
from ledger.transactions.requests import talk
from tests.forgery import move_deadline
from tests.peers import python_with
from tests.processes import ROOT, Product, running, until

EXAMPLES = ROOT / "examples" / "frameworks"


@pytest.fixture
def product(acme: Any) -> Iterator[Product]:
    with running("sandbox", "live", "worker", "sweeper") as product:
        yield product


@pytest.fixture
def environment(product: Product, helpdesk: Agent, tmp_path: Path) -> dict[str, str]:
    """What a program finds where its agent works."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(EXAMPLES),
        "PYTHONUNBUFFERED": "1",
        "ASSENT_URL": f"http://localhost:{product.live_port}",
        "ASSENT_TOKEN": AgentToken.issue(helpdesk, scopes=[Scope.PROPOSE])[1],
    }


class Program:
    """A page's program, in an environment that has what its page says to install."""

    def __init__(self, python: Path, file: Path, environment: dict[str, str]) -> None:
        self.python, self.file, self.environment = python, file, environment
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [str(self.python), str(self.file), *arguments],
            cwd=self.file.parent,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def kill(self) -> None:
        """As a power cut would: what it started itself dies too."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if process.stderr and not process.stderr.closed:
                sys.stderr.write(process.communicate(timeout=10)[1])  # shown if the test fails
        self.processes = []


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Program]]:
    made: list[Program] = []

    def make(page: str, heading: str, framework: str) -> Program:
        section = (ROOT / "docs" / page).read_text().partition(f"\n## {heading}\n")[2]
        (code,) = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.S)
        file = tmp_path / "refunds.py"
        file.write_text(code)
        python = python_with(framework, EXAMPLES / "requirements" / f"{framework}.txt")
        made.append(Program(python, file, environment))
        return made[-1]

    yield make
    for one in made:
        one.kill()


class Person:
    """Decides on the one transaction that waits, as soon as it does."""

    def __init__(self, by: Any) -> None:
        self.by = by

    def sees(self) -> Transaction:
        found: Transaction = until(
            lambda: Transaction.objects.filter(state=State.PREPARED).first(), 60, "it waits"
        )
        return found

    def approves(self) -> Transaction:
        row = self.sees()
        coordinator.approve(row.pk, digest=row.intent_digest, by=self.by, via="web")
        return row

    def rejects(self, reason: str) -> Transaction:
        row = self.sees()
        coordinator.reject(row.pk, digest=row.intent_digest, by=self.by, via="web", reason=reason)
        return row

    def asks(self, text: str) -> Transaction:
        return talk.ask(self.sees().pk, by=self.by, via="web", text=text)

    def reads_the_answer(self) -> str:
        answers = Event.objects.filter(kind=EventKind.ANSWERED)
        return str(until(answers.first, 60, "it answers").reason)

    def lets_it_expire(self) -> Transaction:
        row = self.sees()
        move_deadline(row.pk)
        return row


@pytest.fixture
def person(alice: Any) -> Person:
    return Person(alice)


def said_by(process: subprocess.Popen[str], seconds: float = 60) -> str:
    """The last line that it prints; it ends well."""
    said, complaints = process.communicate(timeout=seconds)
    # temporalio's threads may abort a program as Python ends, when all is said.
    assert process.returncode == 0 or "PyGILState_Release" in complaints, complaints[-3000:]
    return said.splitlines()[-1]
