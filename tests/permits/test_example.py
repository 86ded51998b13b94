"""The example agent in a process of its own; one is killed between redeeming and telling."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.core.management import call_command

from ledger.models import AgentToken, Permit, Transaction
from ledger.transactions import coordinator
from ledger.workers import sweeper

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
# Stands in the place of the example: it dies once the file is gone, and says nothing.
DIES = """
import os, pathlib, runpy, sys
sys.argv = sys.argv[1:]
unlink = pathlib.Path.unlink
def gone(self):
    unlink(self)
    os._exit(9)
pathlib.Path.unlink = gone
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def start(live_server, acme, helpdesk):
    call_command("tools", "apply", str(EXAMPLES / "agent_with_permit.yaml"))
    _, token = AgentToken.issue(helpdesk, scopes=["propose"])
    running = []

    def run(file: Path, *prefix: str) -> subprocess.Popen[str]:
        program = [*prefix, str(EXAMPLES / "agent_with_permit.py"), live_server.url, str(file)]
        process = subprocess.Popen(
            [sys.executable, *program],
            env={**os.environ, "ASSENT_TOKEN": token},
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def draft(tmp_path):
    file = tmp_path / "old.txt"
    file.write_text("an old draft")
    return file


def proposed() -> Transaction:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if row := Transaction.objects.first():
            return row
        time.sleep(0.1)
    raise TimeoutError("nothing was proposed")


def sign_off(row, by):
    coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")


def test_the_example_deletes_the_file_once_it_was_signed_off(start, draft, alice):
    agent = start(draft)
    row = proposed()
    assert draft.exists()

    sign_off(row, alice)
    said, _ = agent.communicate(timeout=90)

    assert not draft.exists()
    assert "It was carried out." in said
    row.refresh_from_db()
    assert row.state == "committed"
    assert row.result == {"id": row.receipt, "bytes": len("an old draft")}


def test_the_example_says_that_nothing_happened_where_there_is_no_file(start, draft, alice):
    agent = start(draft)
    row = proposed()
    draft.unlink()

    sign_off(row, alice)
    agent.communicate(timeout=90)

    row.refresh_from_db()
    assert (row.ending, row.ending_reason) == ("failed", "There is no such file.")


def test_an_agent_that_dies_between_redeeming_and_telling_leaves_it_in_doubt(start, draft, alice):
    agent = start(draft, "-c", DIES)
    row = proposed()
    sign_off(row, alice)
    agent.communicate(timeout=90)
    assert agent.returncode == 9

    Transaction.objects.filter(pk=row.pk).update(lease_expires_at=row.created_at)
    sweeper.doubt_lapsed_leases()

    row.refresh_from_db()
    assert row.state == "in_doubt"
    assert Permit.objects.get().redeemed_at is not None
