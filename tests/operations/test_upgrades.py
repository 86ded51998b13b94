"""Upgrades without downtime: old code works on the new schema.

Until a release is tagged there is no older code with the same migrations. This tree stands for the
old release, and a copy of it with made-up later migrations for the new one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from approvals.management.commands import migrate
from tests.operations import trees
from tests.operations.clusters import Cluster, home
from tests.operations.installation import Installation, installed
from tests.processes import ROOT, until

WAITS_FOR_A_LOCK = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
COLUMNS = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'later'"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def main():
    with home() as folder:
        yield Cluster(folder, "main").create()


@pytest.fixture
def later_release(tmp_path):
    return trees.later_release(tmp_path / "later")


def test_the_code_before_the_newest_migration_works_on_the_new_schema(main, later_release):
    """The old web process runs while ``migrate`` does; the others start on the new schema."""
    with installed(main.url(), main.url("postgres"), "sandbox", "web") as desk:
        desk.root = later_release
        desk.manage("migrate")
        assert main.ask(COLUMNS) == 3

        desk.root = ROOT
        desk.start("worker", "sweeper")
        carried_out, waiting = desk.propose(), desk.propose()
        desk.approve(carried_out)
        desk.until_state(carried_out, "committed")
        assert "The ledger is whole" in desk.manage("verify_ledger")
        desk.kill_all()

        desk.root = later_release
        desk.start("web", "worker", "sweeper")
        desk.approve(waiting)
        desk.until_state(waiting, "committed")
        assert "The ledger is whole" in desk.manage("verify_ledger")
        assert desk.effects()["by_kind"] == {"refund": 2}


def test_a_migration_that_has_to_wait_for_a_dump_keeps_nobody_waiting(main, later_release):
    """A dump locks each table against changes; who wants to read behind the change would wait."""
    desk = Installation(main.url(), main.url("postgres"))
    desk.root = later_release
    desk.manage("migrate", "ledger", "9002")
    with (
        psycopg.connect(main.url("postgres")) as dump,
        psycopg.connect(main.url("postgres"), autocommit=True) as page,
        ThreadPoolExecutor(1) as pool,
    ):
        dump.execute("LOCK TABLE ledger_agent IN ACCESS SHARE MODE")
        page.execute(f"SET lock_timeout = '{migrate.LOCK_S + 3}s'")
        migrated = pool.submit(desk.manage, "migrate", "ledger", "9003")
        until(lambda: page.execute(WAITS_FOR_A_LOCK).fetchone(), 60, "the migration waits")

        page.execute("SELECT count(*) FROM ledger_agent")
        until(lambda: not page.execute(WAITS_FOR_A_LOCK).fetchone(), 90, "it has given up")
        dump.rollback()

        assert "A table is locked by somebody else" in migrated.result(120)
    assert main.ask("SELECT count(*) FROM django_migrations WHERE name = '9003_columns'") == 1
