"""``migrate`` is interrupted, by the death of its host, and run again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.operations.clusters import Cluster, home, until
from tests.processes import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
# What is built beside a running installation, so that a step may be done and not recorded; every
# other migration is one transaction, with its record. In an order that their dependencies allow.
BUILT_BESIDE = [
    ("ledger", "0003"),
    ("ledger", "0005"),
    ("ledger", "0006"),
    ("ledger", "0007"),
    ("ledger", "0009"),
    ("ledger", "0018"),
    ("a2a", "0002"),
    ("a2a", "0003"),
    ("a2a", "0006"),
]
BROKEN = "SELECT string_agg(indexrelid::regclass::text, ' ') FROM pg_index WHERE NOT indisvalid"


@pytest.fixture
def main():
    with home() as folder:
        yield Cluster(folder, "main").create()


def start(main: Cluster, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "manage.py", "migrate", *arguments],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": main.url("postgres")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def migrate(main: Cluster, *arguments: str) -> None:
    process = start(main, *arguments)
    output, _ = process.communicate()
    assert process.returncode == 0, output


def interrupt_where_it_waits_for(statement: str, main: Cluster, is_there: str) -> None:
    """Kill ``migrate`` and its session while ``statement`` is in the way and ``is_there`` holds."""
    with psycopg.connect(main.url("postgres")) as in_the_way:
        in_the_way.execute(statement)  # type: ignore[arg-type]
        process = start(main)
        until(lambda: main.ask(is_there), what=is_there)
        process.kill()
        process.communicate()
        ours = in_the_way.info.backend_pid
        others = f"FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> {ours}"
        main.ask(f"SELECT count(pg_terminate_backend(pid)) {others} AND pid <> pg_backend_pid()")
        until(lambda: main.ask(f"SELECT count(*) {others} AND pid <> pg_backend_pid()") == 0)


def test_a_migration_goes_on_wherever_it_was_interrupted(main):
    migrate(main, "ledger", "0004")
    # While the table of words is there, and its triggers are not.
    interrupt_where_it_waits_for(
        "LOCK TABLE ledger_transaction IN SHARE MODE",
        main,
        "SELECT to_regclass('ledger_searchterm') IS NOT NULL",
    )
    assert main.ask("SELECT count(*) FROM django_migrations WHERE name LIKE '0005%'") == 0
    migrate(main, "ledger", "0005")
    # While the first index is being built, and the fifth, after four whole ones.
    for table, index in (
        ("ledger_event", "ledger_event_of_tenant"),
        ("ledger_transaction", "ledger_tx_by_state"),
    ):
        interrupt_where_it_waits_for(
            f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE",
            main,
            f"SELECT ({BROKEN}) = '{index}'",
        )
        assert main.ask(BROKEN) == index

    migrate(main)

    assert main.ask(BROKEN) is None
    assert main.ask("SELECT count(*) FROM django_migrations WHERE name LIKE '0006_lists%'") == 1


def test_what_was_done_and_not_recorded_is_done_again(main):
    beside = {path.parts[-3:] for path in ROOT.glob("*/migrations/0*.py") if is_beside(path)}
    assert {(app, name[:4]) for app, _, name in beside} == set(BUILT_BESIDE)
    for app, number in BUILT_BESIDE:
        migrate(main, app, number)
        this = f"FROM django_migrations WHERE app = '{app}' AND name LIKE '{number}%'"
        with psycopg.connect(main.url("postgres")) as session:
            session.execute(f"DELETE {this}")  # type: ignore[arg-type]
        migrate(main, app, number)
        assert main.ask(f"SELECT count(*) {this}") == 1
        assert not main.ask(BROKEN)


def is_beside(path: Path) -> bool:
    return "atomic = False" in path.read_text()
