"""``manage.py up``: how long a worker may take to end."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from approvals.local import embedded_services
from approvals.local.database_passwords import as_role
from approvals.local.management.commands import up


def test_every_process_that_calls_tools_is_given_that_long():
    working, asking = up.Command().stages(up.Ports(8000, 8002, 8003), workers=2, environment={})
    workers = [program for program in working if program.name.startswith("worker-")]

    assert len(workers) == 2
    assert all(program.patience_s > up.LONGEST_JOB_S for program in workers)
    others = [program for program in (*working, *asking) if program not in workers]
    assert all(program.patience_s < 60 for program in others)


@pytest.mark.slow
def test_the_servers_that_come_along_hold_no_key(tmp_path, monkeypatch):
    """An administrator of the database can read the environment of its process."""
    monkeypatch.setenv("ASSENT_SECRET_KEY", "a-key")

    with ExitStack() as stack:
        owner = embedded_services.start_postgres(tmp_path / "postgres", stack)
        embedded_services.start_redis(tmp_path, stack)
        with psycopg.connect(owner) as session:
            session.execute("CREATE TEMP TABLE seen (line text)")
            session.execute("COPY seen FROM PROGRAM 'env'")
            lines = session.execute("SELECT line FROM seen").fetchall()
        redis = (tmp_path / "redis.pid").read_text().partition(":")[0]
        environments = ["\n".join(line for (line,) in lines)]
        environments.append(Path(f"/proc/{redis}/environ").read_text())

    assert os.environ["ASSENT_SECRET_KEY"] == "a-key"
    assert "PATH=" in environments[0]  # Valkey writes its title over its own
    for environment in environments:
        assert "ASSENT_" not in environment
        assert "DATABASE_URL" not in environment


@pytest.mark.slow
def test_the_database_that_comes_along_lets_nobody_in_without_the_password_of_a_role(
    tmp_path, monkeypatch
):
    for name in ("DATABASE_URL", "ASSENT_OWNER_DATABASE_URL", "ASSENT_LOG_DATABASE_URL"):
        monkeypatch.setenv(name, "")  # so that its end also takes away what was not set before
        monkeypatch.delenv(name)
    with ExitStack() as stack:  # a folder of a version that trusted everybody
        trusting = embedded_services.start_postgres(tmp_path / "postgres", stack)
        with psycopg.connect(trusting, autocommit=True) as session:
            session.execute(f"CREATE ROLE {embedded_services.APPLICATION} LOGIN")

    for _ in ("the first start", "the next"):
        with embedded_services.running_services(tmp_path) as started:
            record = tmp_path / "services.json"
            assert record.stat().st_mode & 0o777 == 0o600, "it holds the passwords"
            with psycopg.connect(started["ASSENT_OWNER_DATABASE_URL"]) as session:
                session.execute("SELECT 1")
            for url in (trusting, as_role(trusting, embedded_services.APPLICATION)):
                with pytest.raises(psycopg.OperationalError, match="password"):
                    psycopg.connect(url)
            password = (tmp_path / "assent_app_password").read_text()
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(as_role(trusting, "postgres", password))
        for name in started:
            monkeypatch.delenv(name)


@pytest.mark.slow
def test_a_lost_password_of_the_database_is_told_at_once(tmp_path):
    with ExitStack() as stack:
        embedded_services.start_postgres(tmp_path / "postgres", stack, "a-password")

    with (
        ExitStack() as stack,
        pytest.raises(embedded_services.EngineMissing, match="postgres_password"),
    ):
        embedded_services.start_postgres(tmp_path / "postgres", stack, "another")
