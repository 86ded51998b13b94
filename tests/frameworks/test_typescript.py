"""Frameworks in TypeScript, with their real packages, wait for people and tell their models."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ledger.models import Transaction
from tests.frameworks.conftest import Program, said_by
from tests.frameworks.model import ANSWER
from tests.peers import installed, typescript_client
from tests.processes import ROOT

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(900),  # the first test installs the packages
    pytest.mark.skipif(
        not shutil.which("npm") and not os.environ.get("CI"),
        reason="needs Node.js (Debian: apt-get install nodejs npm)",
    ),
]


@pytest.fixture(scope="module")
def folder() -> Path:
    """Programs beside the adapters, as one copies them; their types fit the packages'."""
    client, peers = typescript_client(), installed("typescript", "ai")
    build = peers / "build"
    build.mkdir(exist_ok=True)
    for file in (*peers.glob("*.ts"), *(client / "adapters").glob("*.ts")):
        shutil.copy(file, build)
    subprocess.run([peers / "node_modules" / ".bin" / "tsc", "-p", peers], check=True)
    return build


@pytest.fixture(params=["ai_sdk", "langgraph", "mastra"])
def run(request, folder, environment):
    """Its own Node, which reads TypeScript as it is."""
    node = folder.parent / "node_modules" / "node" / "bin" / "node"
    program = Program(node, folder / f"play_{request.param}.ts", environment)
    yield program
    program.kill()


def test_the_model_is_told_what_people_decided_and_what_they_asked(run, person, product):
    process = run.start("run-1")
    person.rejects("Paid before.")
    refused = json.loads(said_by(process))
    process = run.start("run-2")
    person.lets_it_expire()
    late = json.loads(said_by(process))
    process = run.start("run-3")
    person.asks("Where are the photos?")
    assert person.reads_the_answer() == ANSWER
    person.approves()
    approved = json.loads(said_by(process))

    said = [one["status"] for one in (refused, late, approved)]
    assert said == ["refused", "expired", "succeeded"]
    assert (refused["reason"], refused["do_not_retry"]) == ("Paid before.", True)
    assert approved["receipt"] == Transaction.objects.get(state="committed").receipt
    assert product.effects()["total"] == 1


def test_a_run_that_was_killed_and_begun_again_proposes_nothing_twice(run, person, product):
    run.start("run-7")
    proposed = person.sees()
    run.kill()
    process = run.start("run-7")
    person.approves()

    assert json.loads(said_by(process))["transaction_id"] == str(proposed.pk)
    assert Transaction.objects.get() == proposed
    assert product.effects()["total"] == 1


def test_the_program_of_the_page_runs_as_it_stands(folder, environment, person, product):
    page = (ROOT / "docs" / "frameworks.md").read_text()
    (code,) = re.findall(r"^cat > refund.mjs <<'END'\n(.*?)^END$", page, re.S | re.M)
    file = folder / "refund.mjs"
    file.write_text(code)
    program = Program(Path(shutil.which("node") or "node"), file, environment)

    process = program.start()
    person.approves()
    said_by(process)

    assert product.effects()["total"] == 1
