"""``migrate`` is interrupted, by the death of its host, and run again."""

from __future__ import annotations

import os
import subprocess
import sys

import psycopg
import pytest

from tests.operations.clusters import Cluster, home, until
from tests.processes import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
# What the migrations of a running installation have built; everything else is one transaction.
BUILT_BESIDE = "app = 'ledger' AND name >= '0005' OR app = 'a2a' AND name >= '0002'"
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
    migrate(main)
    count = f"SELECT count(*) FROM django_migrations WHERE {BUILT_BESIDE}"
    recorded = main.ask(count)
    with psycopg.connect(main.url("postgres")) as session:
        session.execute(f"DELETE FROM django_migrations WHERE {BUILT_BESIDE}")  # type: ignore[arg-type]

    migrate(main)

    assert main.ask(count) == recorded
