"""A run of the tests that is killed takes with it whatever it had started."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes import ROOT, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.large,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
]
# In the environment of the run and of whatever it starts.
MARK = "MARK_OF_THE_RUN"
PROGRAMS = ("postgres", "valkey-server", "granian", "sandbox", "sweep", "work", "guard.py")


def commands_of(mark: str, folder: str) -> list[str]:
    """The command lines of what carries the mark, or works in the folder: Redis wipes the mark."""
    wanted, commands = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to somebody else
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            is_marked = wanted in (entry / "environ").read_bytes().split(b"\0")
            if is_marked or folder in command:
                commands.append(command)
    return commands


@pytest.mark.parametrize(
    ("workers", "killed"), [("0", "the one process"), ("1", "a worker"), ("1", "the dispatcher")]
)
def test_a_killed_run_leaves_no_process(tmp_path, workers, killed):
    mark, record = secrets.token_hex(8), tmp_path / "record"
    endless = str(Path(__file__).with_name("left_running.py"))
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-n", workers, "-p", "no:cacheprovider", endless],
        cwd=ROOT,
        env=os.environ | {MARK: mark, "RECORD_OF_THE_RUN": str(record)},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    until(record.exists, 200, "the product runs")
    tester, folder = record.read_text().split()
    commands = commands_of(mark, folder)
    assert [name for name in PROGRAMS if not any(name in each for each in commands)] == []

    os.kill(run.pid if killed == "the dispatcher" else int(tester), signal.SIGKILL)
    run.wait(200)

    until(lambda: not commands_of(mark, folder), 100, "nothing of it runs any more")
    shutil.rmtree(folder, ignore_errors=True)
