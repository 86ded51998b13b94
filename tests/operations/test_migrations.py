"""``migrate`` is interrupted, by the death of its host, and run again.

The migrations are those of the product and of a made-up later release (``trees.later_release``).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.house.source import ROOMS
from tests.operations import trees
from tests.operations.clusters import Cluster, home, until
from tests.processes import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
BROKEN = "SELECT string_agg(indexrelid::regclass::text, ' ') FROM pg_index WHERE NOT indisvalid"
RECORDED = "SELECT count(*) FROM django_migrations WHERE app = '{}' AND name = '{}'"


class Upgrade:
    """A database, and the code that migrates it."""

    def __init__(self, cluster: Cluster, tree: Path) -> None:
        self.cluster, self.ask, self.tree = cluster, cluster.ask, tree

    def manage(self, *arguments: str) -> str:
        process = self.start(*arguments)
        output, _ = process.communicate()
        assert process.returncode == 0, output
        return output

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=self.tree,
            env=os.environ | {"DATABASE_URL": self.cluster.url("postgres")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def interrupt_where_it_waits_for(self, statement: str, is_there: str) -> None:
        """Kill ``migrate`` and its session while ``statement`` is in the way, at ``is_there``."""
        with psycopg.connect(self.cluster.url("postgres")) as in_the_way:
            in_the_way.execute(statement)  # type: ignore[arg-type]
            process = self.start("migrate")
            try:
                until(lambda: self.ask(is_there), what=is_there)
            finally:
                process.kill()
                process.communicate()
            ours = in_the_way.info.backend_pid
            others = (
                "FROM pg_stat_activity WHERE backend_type = 'client backend' "
                f"AND pid NOT IN ({ours}, pg_backend_pid())"
            )
            self.ask(f"SELECT count(pg_terminate_backend(pid)) {others}")
            until(lambda: self.ask(f"SELECT count(*) {others}") == 0)


@pytest.fixture
def upgrade(tmp_path):
    with home() as folder:
        tree = trees.later_release(tmp_path / "later")
        yield Upgrade(Cluster(folder, "main").create(), tree)


def test_a_migration_goes_on_wherever_it_was_interrupted(upgrade):
    Upgrade(upgrade.cluster, ROOT).manage("migrate")
    # While the table of notes is there, and its trigger is not.
    upgrade.interrupt_where_it_waits_for(
        "LOCK TABLE ledger_transaction IN SHARE MODE",
        "SELECT to_regclass('ledger_note') IS NOT NULL",
    )
    assert upgrade.ask(RECORDED.format("ledger", "9001_notes")) == 0
    upgrade.manage("migrate", "ledger", "9001")
    # While the first index is being built, and the third, after two whole ones.
    for table, index in (
        ("ledger_event", "later_event_kind"),
        ("ledger_transaction", "later_tx_tool"),
    ):
        upgrade.interrupt_where_it_waits_for(
            f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE", f"SELECT ({BROKEN}) = '{index}'"
        )
        assert upgrade.ask(BROKEN) == index

    upgrade.manage("migrate")

    assert upgrade.ask(BROKEN) is None
    assert upgrade.ask(RECORDED.format("ledger", "9002_indexes")) == 1


@pytest.mark.large
def test_what_was_done_and_not_recorded_is_done_again(upgrade):
    steps = built_beside(upgrade)
    assert {("ledger", "9001_notes"), ("ledger", "9002_indexes")} <= set(steps)
    for app, name in steps:
        upgrade.manage("migrate", app, name)
        with psycopg.connect(upgrade.cluster.url("postgres")) as session:
            session.execute(
                "DELETE FROM django_migrations WHERE (app, name) = (%s, %s)", [app, name]
            )
        upgrade.manage("migrate", app, name)
        assert upgrade.ask(RECORDED.format(app, name)) == 1
        assert not upgrade.ask(BROKEN)


def built_beside(upgrade: Upgrade) -> list[tuple[str, str]]:
    """The migrations beside running processes, in the order in which they are done.

    Such a step may be done and not recorded; every other one is one database transaction, with its
    record.
    """
    paths = [path for room in ROOMS for path in (upgrade.tree / room).rglob("migrations/*.py")]
    beside = {(path.parts[-3], path.stem) for path in paths if "atomic = False" in path.read_text()}
    plan = re.findall(r"^\[.\] +(\w+)\.(\w+)$", upgrade.manage("showmigrations", "--plan"), re.M)
    return [step for step in plan if step in beside]
