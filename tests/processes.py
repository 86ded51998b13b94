"""The product as its own processes, against the database of the test: real web, live, workers."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from django.conf import settings
from django.db import connection

from approvals.local import embedded_services
from approvals.local.database_passwords import as_role
from approvals.processes import BUS, COURIER, SLACK, SWEEPER, WEB, WORKER, environment_of
from tests import services

ROOT = Path(settings.BASE_DIR)


def until(
    condition: Callable[[], Any], seconds: float = 60, what: str | Callable[[], str] = ""
) -> Any:
    """The first truthy value of ``condition``, asked every few milliseconds.

    ``what`` was waited for; a function of it tells what it is like in the end.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    told = what() if callable(what) else what
    raise AssertionError(f"did not come true within {seconds} s: {told or condition}")


_given: set[int] = set()
# Any other name is a worker that is a courier as well.
KINDS = {
    "web": WEB,
    "live": WEB,
    "sweeper": SWEEPER,
    "bus": BUS,
    "commits": WORKER,
    "listener": SLACK,
}


def free_port() -> int:
    """Below those that the kernel gives to outgoing connections, one of which may take it first.

    Until somebody listens there, neither this process nor another worker of pytest is given it.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = 20_000 + secrets.randbelow(12_000 // workers) * workers + worker
        if port in _given:
            continue
        _given.add(port)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Product:
    """Starts what a test names; kills it at the end. Logs are shown when a start fails."""

    def __init__(self, *, is_split: bool = False) -> None:
        """``is_split``: ``live`` has an origin of its own, for what waits, as an operator may."""
        self.web_port, self.sandbox_port = free_port(), free_port()
        self.live_port = free_port() if is_split else self.web_port
        self.url = f"http://localhost:{self.web_port}"
        self.sandbox_url = f"http://127.0.0.1:{self.sandbox_port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.root = ROOT  # of the code that the processes run
        self.logs = Path(tempfile.mkdtemp(prefix="assent-logs-"))
        name = connection.settings_dict["NAME"]
        owner = os.environ["DATABASE_URL"].replace("/assent?", f"/{name}?")
        self.environment = os.environ | {
            "DATABASE_URL": as_role(owner, embedded_services.APPLICATION),
            embedded_services.LOG_URL: as_role(owner, embedded_services.LOG),
            "ASSENT_PUBLIC_URL": self.url,
            "ASSENT_LIVE_URL": f"http://localhost:{self.live_port}",
            "ASSENT_SANDBOX_URL": self.sandbox_url,
            "ASSENT_LEASE_S": "1.5",
            "ASSENT_LOG_LEVEL": "INFO",
            "ASSENT_LIMITS": "off",  # but for the tests of limits
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, *names: str, **environment: str) -> None:
        for name in names:
            log = (self.logs / f"{name}.log").open("ab")
            self.processes[name] = subprocess.Popen(
                [sys.executable, *self._command(name)],
                cwd=self.root,
                env=self._environment_of(name) | environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            log.close()
            services.watch(self.processes[name].pid)
        for name in names:
            self._wait_until_up(name)

    def _environment_of(self, name: str) -> dict[str, str]:
        return environment_of(KINDS.get(name, COURIER), self.environment)

    def _command(self, name: str) -> list[str]:
        listen = ["--host", "127.0.0.1", "--log-level", "warning"]
        return {
            "web": [*WEB.command, *listen, "--port", str(self.web_port)],
            "live": [*WEB.command, *listen, "--port", str(self.live_port)],
            "sandbox": [
                "-m",
                "examples.sandbox",
                "--port",
                str(self.sandbox_port),
                "--data",
                str(self.logs / "sandbox.sqlite3"),
            ],
            "sweeper": [*SWEEPER.command],
            "courier": [*COURIER.command],
            "bus": [*BUS.command],
            "commits": [*WORKER.command],
            "listener": [*SLACK.command],
        }.get(name, ["manage.py", "work"])

    def _wait_until_up(self, name: str) -> None:
        if (port := self._port(name)) is not None:
            until(lambda: _listens(port), 60, f"{name} listens")

    def _port(self, name: str) -> int | None:
        ports = {"web": self.web_port, "live": self.live_port, "sandbox": self.sandbox_port}
        return ports.get(name)

    def log(self, name: str) -> str:
        return (self.logs / f"{name}.log").read_text(errors="replace")[-4000:]

    def kill(self, name: str) -> None:
        """As a power cut would: no handler runs."""
        process = self.processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        services.unwatch(process.pid)
        # Its children die a moment later; until then the port still answers.
        if (port := self._port(name)) is not None:
            until(lambda: not _listens(port), what=f"{name} is gone")

    def stop(self) -> None:
        for name in list(self.processes):
            self.kill(name)
        shutil.rmtree(self.logs, ignore_errors=True)

    def effects(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{self.sandbox_url}/effects").json()
        return found


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(*names: str, **environment: str) -> Iterator[Product]:
    product = Product(is_split="live" in names)
    try:
        product.start(*names, **environment)
        yield product
    finally:
        product.stop()
