"""From a release to this code: its database is migrated while its own processes work on.

What is recorded of a release is beside this file; ``test_record.py`` says how.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from django.db import connection

from approvals.local import embedded_services
from approvals.local.database_passwords import as_role
from tests.processes import ROOT, Product, until
from tests.upgrade.releases import Release, filled, lost, migrations_now, releases

EVERY = pytest.mark.parametrize("release", releases(), ids=lambda release: release.version)
ENDED_THEN = ("committed", "aborted")

APPROVE = """
import sys, django; django.setup()
from ledger.models import Transaction
from ledger.principals import Principal
from ledger.transactions import coordinator
row = Transaction.objects.get(pk=sys.argv[1])
by = Principal("user", sys.argv[2], "Alice Moreau")
coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")
"""


class Installation:
    """The processes of two versions, and one database."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self._token = url, token
        self.old, self.new = Product(), Product()
        for product in (self.old, self.new):
            product.environment |= {
                "DATABASE_URL": as_role(url, embedded_services.APPLICATION),
                embedded_services.LOG_URL: as_role(url, embedded_services.LOG),
            }

    def manage(self, root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run(root, "manage.py", *arguments)

    def approve(self, transaction: str, alice: str) -> None:
        """As the desk of this version does."""
        self._run(ROOT, "-c", APPROVE, transaction, alice).check_returncode()

    def _run(self, root: Path, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            cwd=root,
            env={
                **self.old.environment,
                "ASSENT_OWNER_DATABASE_URL": self.url,
                "DJANGO_SETTINGS_MODULE": "approvals.settings",
            },
            capture_output=True,
            text=True,
            timeout=240,
        )

    def propose(self, product: Product) -> httpx.Response:
        return httpx.post(
            f"http://127.0.0.1:{product.web_port}/api/v1/transactions",
            json={"tool": "pay", "arguments": {"reference": uuid4().hex, "amount": "48.20"}},
            headers={**self._authorization, "Idempotency-Key": uuid4().hex},
            timeout=30,
        )

    def proposed(self, product: Product) -> str:
        answer = self.propose(product)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["transaction_id"])

    def state_of(self, product: Product, transaction: str) -> str:
        address = f"http://127.0.0.1:{product.web_port}/api/v1/transactions/{transaction}"
        answer = httpx.get(address, headers=self._authorization, timeout=30)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["status"])

    def wait_for(self, product: Product, transaction: str, state: str) -> None:
        until(lambda: self.state_of(product, transaction) == state, 60, f"it is {state}")

    def stop(self) -> None:
        self.old.stop()
        self.new.stop()

    @property
    def _authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}


@pytest.fixture
def installed(engines: None) -> Iterator[Callable[[Release], Installation]]:
    with_databases: list[Any] = []
    installations: list[Installation] = []

    def make(release: Release) -> Installation:
        restored = release.restored()
        with_databases.append(restored)
        installations.append(Installation(restored.__enter__(), release.facts["token"]))
        return installations[-1]

    yield make
    for installation in installations:
        installation.stop()
    for restored in with_databases:
        restored.__exit__(None, None, None)


@pytest.mark.slow
@EVERY
def test_a_database_of_a_release_is_migrated_and_carries_a_transaction_through(installed, release):
    installation = installed(release)
    before = filled(installation.url)
    migrated = installation.manage(ROOT, "migrate", "--noinput")
    assert migrated.returncode == 0, migrated.stderr
    assert lost(before, filled(installation.url)) == set()

    installation.new.start("web", "sweeper", "commits", "courier")
    transaction = installation.proposed(installation.new)
    installation.approve(transaction, release.facts["alice"])
    installation.wait_for(installation.new, transaction, "committed")
    for key, state in release.facts["transactions"].items():
        waited = state not in ENDED_THEN  # and is past its time limit now
        expected = "aborted" if waited else state
        installation.wait_for(installation.new, key, expected)
    verified = installation.manage(ROOT, "verify_ledger", "--full")
    assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.slow
@EVERY
def test_processes_of_the_release_work_on_while_and_after_it_is_migrated(
    installed, release, tmp_path
):
    if not release.unpack_code(tmp_path):
        pytest.skip(f"git's history does not reach back to {release.version}")
    installation = installed(release)
    installation.old.root = tmp_path
    prepared = installation.manage(tmp_path, "migrate", "--noinput")
    assert prepared.returncode == 0, prepared.stderr
    installation.old.start("web", "sweeper", "commits", "courier")
    answers = [installation.propose(installation.old)]
    migrated = threading.Event()

    def ask_all_the_time() -> None:
        while not migrated.is_set():
            answers.append(installation.propose(installation.old))

    agent = threading.Thread(target=ask_all_the_time)
    agent.start()
    try:
        done = installation.manage(ROOT, "migrate", "--noinput")
    finally:
        migrated.set()
        agent.join()
    assert done.returncode == 0, done.stderr
    answers.append(installation.propose(installation.old))
    assert {answer.text for answer in answers if answer.status_code != 201} == set()

    of_old, of_later = (answers[place].json()["transaction_id"] for place in (0, -1))
    installation.approve(of_later, release.facts["alice"])
    installation.wait_for(installation.old, of_later, "committed")

    installation.new.start("web", "commits")
    installation.old.kill("commits")
    installation.approve(of_old, release.facts["alice"])
    installation.wait_for(installation.new, of_old, "committed")
    verified = installation.manage(ROOT, "verify_ledger", "--full")
    assert verified.returncode == 0, verified.stdout + verified.stderr


@EVERY
def test_no_migration_of_a_release_has_changed_since(release):
    now = migrations_now()

    assert {path: now.get(path) for path in release.migrations} == release.migrations


def test_a_changed_migration_is_noticed(tmp_path, monkeypatch):
    """The judge itself: one byte more in one file."""
    path = next(iter(migrations_now()))
    for each in migrations_now():
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_bytes((ROOT / each).read_bytes())
    before = migrations_now()
    monkeypatch.setattr("tests.upgrade.releases.ROOT", tmp_path)
    (tmp_path / path).write_bytes((ROOT / path).read_bytes() + b"\n")

    assert {each for each, digest in migrations_now().items() if before[each] != digest} == {path}


@pytest.mark.django_db(transaction=True)
def test_a_row_or_a_value_that_is_lost_is_noticed():
    """The judge of what a migration kept."""
    url = os.environ["DATABASE_URL"].replace("/assent?", f"/{connection.settings_dict['NAME']}?")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE scratch AS SELECT 1 AS number, 'two' AS word")
        try:
            before = filled(url)
            cursor.execute("ALTER TABLE scratch ADD third int")
            assert lost(before, filled(url)) == set()
            cursor.execute("UPDATE scratch SET word = NULL")
            assert lost(before, filled(url)) == {"scratch.word"}
            cursor.execute("DELETE FROM scratch")
            assert lost(before, filled(url)) == {"scratch.number", "scratch.word"}
        finally:
            cursor.execute("DROP TABLE scratch")


def test_each_version_that_somebody_can_have_is_kept():
    headings = re.findall(r"^## (\S+)(.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    released = {version for version, more in headings if "unreleased" not in more}

    assert released <= {release.version for release in releases()}
