"""Upgrades without downtime: old code works on the new schema."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from approvals.management.commands import migrate
from tests.operations.clusters import Cluster, home
from tests.operations.installation import Installation, installed
from tests.processes import ROOT, until

WAITS_FOR_A_LOCK = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def folder():
    with home() as folder:
        yield folder


def git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else ""


@pytest.fixture
def old_code():
    """The tree before the newest migration; its path."""
    newest = git("log", "-1", "--diff-filter=A", "--format=%H", "--", "*/migrations/0*.py")
    before = newest and git("rev-parse", "--verify", f"{newest}^")
    if not before or git("rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("needs the history of git, at least to before the newest migration")
    tree = Path(tempfile.mkdtemp(prefix="assent-old-"))
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", before], capture_output=True, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    yield tree
    shutil.rmtree(tree)


def test_the_code_before_the_newest_migration_works_on_the_new_schema(folder, old_code):
    main = Cluster(folder, "main").create()
    with installed(main.url(), main.url("postgres"), "sandbox") as desk:
        desk.root = old_code
        desk.start("web", "worker", "sweeper")
        carried_out, waiting = desk.propose(), desk.propose()
        desk.approve(carried_out)
        desk.until_state(carried_out, "committed")
        assert "The ledger is whole" in desk.manage("verify_ledger")
        desk.kill_all()

        desk.root = ROOT
        desk.start("web", "worker", "sweeper")
        desk.approve(waiting)
        desk.until_state(waiting, "committed")
        assert "The ledger is whole" in desk.manage("verify_ledger")
        assert desk.effects()["by_kind"] == {"refund": 2}


def test_a_migration_that_has_to_wait_for_a_dump_keeps_nobody_waiting(folder):
    """A dump locks each table against changes; who wants to read behind the change would wait."""
    main = Cluster(folder, "main").create()
    desk = Installation(main.url(), main.url("postgres"))
    desk.manage("migrate", "ledger", "0001")
    with (
        psycopg.connect(main.url("postgres")) as dump,
        psycopg.connect(main.url("postgres"), autocommit=True) as page,
        ThreadPoolExecutor(1) as pool,
    ):
        dump.execute("LOCK TABLE ledger_agent IN ACCESS SHARE MODE")
        page.execute(f"SET lock_timeout = '{migrate.LOCK_S + 3}s'")
        migrated = pool.submit(desk.manage, "migrate", "ledger", "0002")
        until(lambda: page.execute(WAITS_FOR_A_LOCK).fetchone(), 60, "the migration waits")

        page.execute("SELECT count(*) FROM ledger_agent")
        until(lambda: not page.execute(WAITS_FOR_A_LOCK).fetchone(), 20, "it has given up")
        dump.rollback()

        assert "A table is locked by somebody else" in migrated.result(120)
    assert main.ask("SELECT count(*) FROM django_migrations WHERE name = '0002_limits'") == 1
