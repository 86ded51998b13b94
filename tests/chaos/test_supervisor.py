"""`make up` whose supervisor is killed: nothing goes on unseen, and the next start is clean."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from approvals.embedded import start_redis
from approvals.keep_running import is_alive
from tests.processes import ROOT, free_port, until

pytestmark = pytest.mark.slow
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".assent", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".hypothesis", "staticfiles",
)  # fmt: skip


class Up:
    """``manage.py up`` in a copy of the project, with engines of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.said = home.with_name("said.txt")
        self.process: Any = None

    def start(self) -> None:
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in {"DATABASE_URL", "REDIS_URL"} and not name.startswith("ASSENT_")
        }
        ports = {"ASSENT_PORT": free_port(), "ASSENT_LIVE_PORT": free_port()}
        with self.said.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--workers", "1"],
                cwd=self.home,
                env=environment | {name: str(port) for name, port in ports.items()},
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        until(self.is_up_or_ended, 120, "it is up")
        assert self.process.poll() is None, self.said.read_text()

    def is_up_or_ended(self) -> bool:
        is_up = self.running("granian") and self.running("manage.py work")
        return bool(is_up) or self.process.poll() is not None

    def running(self, what: str = "") -> list[str]:
        """Command lines of the processes that work in this copy."""
        return [line for line in command_lines(self.home) if what in line]


def command_lines(home: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            here = os.readlink(entry / "cwd")
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if here.startswith(str(home)) or str(home) in line:
            found.append(line)
    return found


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    home = tmp_path / "assent"
    shutil.copytree(ROOT, home, ignore=LEFT_OUT)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)  # PostgreSQL gives up its privileges
    up = Up(home)
    yield up
    if up.process is not None and up.process.poll() is None:
        up.process.send_signal(signal.SIGTERM)
        up.process.wait(30)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_nothing_goes_on_after_the_supervisor_was_killed(up: Any) -> None:
    up.start()
    up.process.kill()
    up.process.wait()

    until(lambda: not up.running("granian"), 30, "the servers ended")
    until(lambda: not up.running("manage.py"), 30, "workers and sweeper ended")

    up.start()
    assert len(up.running("redis-server")) == 1, "the one that was left over is gone"
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(60) == 0
    until(lambda: not up.running(), 30, f"nothing is left of {up.running()}")


STOPPED_AT_ONCE = """
import os, signal
from approvals.crew import Crew

class Hasty(Crew):
    def _start(self):
        super()._start()
        os.kill(os.getpid(), signal.SIGTERM)  # before it heard of any that started

hasty = Hasty()
for number in range(3):
    hasty.add_process(f"sleeper-{number}", "exec sleep 300")
hasty.loop()
print("ended with", hasty.returncode)
"""


def test_it_can_be_stopped_while_it_starts() -> None:
    """Ctrl-C in the first second: honcho alone would wait for ever."""
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_AT_ONCE], cwd=ROOT, capture_output=True, text=True,
        timeout=30, check=True,
    )  # fmt: skip

    assert "ended with 143" in done.stdout


STOPPED_WHILE_PRINTING = """
import os, signal, sys
from approvals.crew import Crew

class Interrupted:
    '''Standard output, during each write of which somebody asks us to stop.'''
    is_busy = False

    def write(self, text):
        if self.is_busy:
            raise RuntimeError("reentrant call inside <_io.BufferedWriter>")
        self.is_busy = True
        os.kill(os.getpid(), signal.SIGTERM)
        self.is_busy = False

    def flush(self):
        pass

    def isatty(self):
        return False

crew = Crew()
crew._printer.output = Interrupted()
crew.add_process("sleeper", "exec sleep 300")
crew.loop()
sys.exit(crew.returncode)
"""


def test_it_can_be_stopped_while_a_line_is_printed() -> None:
    """Python refuses to print in a signal handler that interrupted printing."""
    done = subprocess.run([sys.executable, "-c", STOPPED_WHILE_PRINTING], cwd=ROOT, timeout=30)

    assert done.returncode == 143


NEVER_STARTS = """
from approvals import crew

crew.PATIENCE_S = 1.0
unlucky = crew.Crew()
unlucky.add_process("sleeper", "exec sleep 300")
unlucky.add_process("nobody", "true", cwd="/does/not/exist")
unlucky.loop()
"""


def test_it_ends_although_one_of_its_processes_never_started() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", NEVER_STARTS], cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()  # the sleeper has started
    child.send_signal(signal.SIGTERM)

    assert child.wait(20) == 143
    child.stdout.close()


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

        until(is_back, 20, "another Redis answers")
