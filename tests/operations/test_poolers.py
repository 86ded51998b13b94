"""PgBouncer before PostgreSQL: both ways of pooling work, and a process is told which it is."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from ledger.foundation.postgres import sessions
from ledger.workers.start_checks import EXIT_UNSAFE
from tests.operations.clusters import SERVICE_USER, Cluster, from_the_page, home, shell, until
from tests.operations.installation import installed
from tests.processes import _listens, free_port

PGBOUNCER = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not Path(PGBOUNCER).exists(), reason="needs PgBouncer (Debian: apt-get install pgbouncer)"
    ),
]
PUBLIC = {
    "ASSENT_PUBLIC_URL": "https://assent.example",
    "ASSENT_LIVE_URL": "https://assent.example",
    "ASSENT_ALLOWED_HOSTS": "assent.example",
}


@pytest.fixture(scope="module")
def folder():
    with home() as folder:
        yield folder


@pytest.fixture(scope="module")
def main(folder):
    return Cluster(folder, "main").create()


@pytest.fixture(scope="module")
def desk(main):
    with installed(main.url(), main.url("postgres"), "sandbox") as desk:
        shell(from_the_page("role-limits"), OWNER_URL=main.url("postgres"))
        yield desk


@contextmanager
def pgbouncer(main: Cluster, folder: Path, mode: str) -> Iterator[str]:
    """PgBouncer as docs/scaling.md configures it; its URL for the application's role."""
    port = free_port()
    text = from_the_page("pgbouncer").replace("pool_mode = session", f"pool_mode = {mode}")
    changes = {
        "host=.*": f"host=127.0.0.1 port={main.port} dbname=assent",
        "listen_addr = .*": f"listen_addr = 127.0.0.1\nunix_socket_dir =\nlisten_port = {port}",
        "listen_port = 6432": "",
        "auth_type = .*": "auth_type = trust",
        "auth_file = .*": f"auth_file = {folder}/users",
    }
    for pattern, replacement in changes.items():
        text, found = re.subn(pattern, replacement, text)
        assert found == 1, f"{pattern} stands {found} times in the configuration"
    configuration = folder / f"{mode}.ini"
    configuration.write_text(text)
    (folder / "users").write_text('"assent_app" ""\n"assent_log" ""\n')
    with (folder / f"{mode}.log").open("wb") as log:
        command = [PGBOUNCER, "-u", SERVICE_USER, str(configuration)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: _listens(port), what="PgBouncer listens")
        yield f"postgresql://assent_app@127.0.0.1:{port}/assent"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("mode", [pytest.param("session", marks=pytest.mark.large), "transaction"])
def test_the_product_works_through_a_pooler(main, folder, desk, mode):
    pooling = {"ASSENT_DATABASE_POOLING": mode}
    with pgbouncer(main, folder, mode) as url:
        desk.move_to(url, main.url("postgres"))
        desk.start("web", "worker", "sweeper", "courier", **pooling)
        before = desk.effects()["by_kind"].get("refund", 0)
        refunds = [desk.propose() for _ in range(8)]  # more than it takes to prepare statements
        for refund in refunds:
            desk.approve(refund)
        for refund in refunds:
            desk.until_state(refund, "committed")
        assert "The ledger is whole" in desk.manage("verify_ledger", **pooling)
        desk.kill_all()

    assert desk.effects()["by_kind"]["refund"] == before + 8


def test_a_pooler_drops_the_limits_of_a_process_and_those_of_the_role_hold(main, folder, desk):
    own = {"options": "-c statement_timeout=1s"}
    with pgbouncer(main, folder, "session") as url, psycopg.connect(url, **own) as connection:
        names = ("statement_timeout", "idle_in_transaction_session_timeout", "lock_timeout")
        limits = {name: connection.execute(f"SHOW {name}").fetchone()[0] for name in names}

    assert limits == {
        "statement_timeout": f"{sessions.STATEMENT_S}s",
        "idle_in_transaction_session_timeout": f"{sessions.IDLE_IN_TRANSACTION_S}s",
        "lock_timeout": f"{sessions.LOCK_S}s",
    }


@pytest.mark.parametrize("process", ["work", "sweep"])
def test_a_process_that_is_not_told_of_transaction_pooling_does_not_start(
    main, folder, desk, process
):
    with pgbouncer(main, folder, "transaction") as url:
        desk.move_to(url, main.url("postgres"))
        key = "11" * 32 if process == "sweep" else ""
        ended = desk.run("manage.py", process, seconds=90, **PUBLIC, ASSENT_AUDIT_KEY=key)

    assert ended is not None, "it runs"
    assert ended.returncode == EXIT_UNSAFE
    assert "Set ASSENT_DATABASE_POOLING=transaction" in ended.stderr


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_process_at_a_public_address_starts_through_a_pooler(main, folder, desk, mode):
    told = {**PUBLIC, "ASSENT_AUDIT_KEY": "11" * 32, "ASSENT_DATABASE_POOLING": mode}
    with pgbouncer(main, folder, mode) as url:
        desk.move_to(url, main.url("postgres"))
        desk.start("sweeper", **told)
        until(lambda: "Sweeping once a second" in desk.log("sweeper"))
        desk.kill("sweeper")
