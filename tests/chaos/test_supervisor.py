"""The supervisor of `make up`: it restarts, stops in order, and killed it leaves nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from approvals.local import guard
from tests.processes import ROOT, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]

SUPERVISE = """
import json, os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever the tests run under
from approvals.local import programs, supervisor
settings, stages = json.loads(sys.argv[1])
for name, value in settings.items():
    setattr(supervisor if hasattr(supervisor, name) else programs, name, value)
sys.exit(supervisor.Supervisor([
    [programs.Program(name, [sys.executable, "-uc", code], dict(os.environ),
                      patience_s=programs.STOP_PATIENCE_S)
     for name, code in stage.items()]
    for stage in stages
]).run())
"""
SLEEP = "import time; time.sleep(300)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf')\n" + SLEEP


class Supervised:
    """A supervisor of small programs, each given as the text of a Python script."""

    def __init__(self, folder: Path, stages: Any, settings: dict[str, float]) -> None:
        self.log_file = folder / "log.txt"
        with self.log_file.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SUPERVISE, json.dumps([settings, stages])],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pids: set[int] = set()

    def log(self) -> str:
        return self.log_file.read_text()

    def lines(self, name: str) -> list[str]:
        """What stands behind this name in the log."""
        return re.findall(rf"^\d\d:\d\d:\d\d {name} +\| (.*)$", self.log(), re.M)

    def wait_for(self, text: str, times: int = 1) -> None:
        until(lambda: self.log().count(text) >= times, 90, f"{text} in the log")

    def pid_of(self, name: str) -> int:
        self.wait_for(f"{name} started")
        return int(re.findall(rf"\b{name} started \(pid=(\d+)\)", self.log())[-1])

    def guard(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return next(pid for pid in map(int, children.read_text().split()) if is_guard(pid))

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


def is_guard(pid: int) -> bool:
    return b"guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    begun: list[Supervised] = []

    def start(*stages: dict[str, str], **settings: float) -> Supervised:
        begun.append(Supervised(tmp_path, stages, settings))
        return begun[-1]

    yield start
    for supervised in begun:
        supervised.process.kill()
        supervised.process.wait()
        for pid in re.findall(r"pid=(\d+)", supervised.log()):
            with suppress(ProcessLookupError):
                os.killpg(int(pid), signal.SIGKILL)


def test_a_program_that_ends_starts_again_later_each_time_and_the_others_run_on(supervise):
    supervised = supervise({"hasty": "raise SystemExit(3)", "steady": SLEEP})

    supervised.wait_for("starting again in 0.8 s")

    waits = [f"exited with 3; starting again in {wait} s" for wait in (0.2, 0.4, 0.8)]
    assert supervised.lines("hasty")[:3] == waits
    assert supervised.log().count("steady started") == 1


def test_a_program_that_ran_steadily_starts_again_without_a_longer_wait(supervise):
    supervised = supervise({"worker": "print('at work')"}, STEADY_AFTER_S=0)

    supervised.wait_for("starting again", times=3)

    assert {line for line in supervised.lines("worker") if line != "at work"} == {
        "exited with 0; starting again in 0.2 s"
    }


def test_a_program_that_was_killed_starts_again(supervise):
    supervised = supervise({"worker": SLEEP})
    before = supervised.pid_of("worker")

    os.kill(before, signal.SIGKILL)

    supervised.wait_for("worker started", times=2)
    assert supervised.lines("worker") == ["exited with -9; starting again in 0.2 s"]


BEATS = """
import time
from ledger.foundation.liveness import beat
beat()
print("at work")
"""
GOES_ON = f"{BEATS}while True: beat(); time.sleep(0.2)"
IN_A_CHILD = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-uc", {GOES_ON!r}])
print("child", child.pid)
while True:
    child.wait()
    child = subprocess.Popen([sys.executable, "-uc", "import time; time.sleep(300)"])
    print("another child")
"""


def test_a_program_that_was_stopped_is_killed_and_starts_again(supervise):
    supervised = supervise({"worker": GOES_ON, "other": GOES_ON, "foreign": SLEEP})
    supervised.wait_for("at work", times=2)
    before = supervised.pid_of("worker")

    os.kill(before, signal.SIGSTOP)

    supervised.wait_for("worker started", times=2)
    assert f"worker (process {before}) stands still and is killed" in supervised.log()
    assert not is_running(before)
    assert [supervised.log().count(f"{name} started") for name in ("other", "foreign")] == [1, 1]


def test_a_program_whose_loop_is_blocked_is_killed_although_its_process_runs(supervise):
    supervised = supervise({"worker": f"{BEATS}while True: pass"})

    supervised.wait_for("worker started", times=2)
    assert "stands still and is killed" in supervised.log()


def test_a_child_that_stands_still_is_killed_alone_and_its_parent_replaces_it(supervise):
    """As a server replaces its workers."""
    supervised = supervise({"server": IN_A_CHILD})
    supervised.wait_for("at work")
    child = int(supervised.lines("server")[0].removeprefix("child "))

    os.kill(child, signal.SIGSTOP)

    supervised.wait_for("another child")
    assert supervised.log().count("server started") == 1


LEAVES_A_CHILD = """
import subprocess, sys
print("left", subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"]).pid)
"""


def test_what_an_ended_program_started_has_ended_before_it_starts_again(supervise):
    """Or a second server would find its port taken."""
    supervised = supervise({"server": LEAVES_A_CHILD})

    supervised.wait_for("server started", times=2)

    left = int(supervised.lines("server")[0].removeprefix("left "))
    until(lambda: not is_running(left), 90, "what it left has ended")


def test_stages_stop_in_reverse_order_each_when_the_one_after_it_has_ended(supervise):
    ends_late = (
        "import signal, sys, time\n"
        "def end(*_): time.sleep(0.3); print('done'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end); print('ready')\n" + SLEEP
    )
    supervised = supervise({"worker": SLEEP}, {"agent": ends_late, "web": SLEEP})
    supervised.wait_for("ready")
    supervised.pid_of("worker")

    assert supervised.stop() == signal.SIGTERM

    order = [line.partition(" (")[0] for line in supervised.lines("system")][-7:]
    assert order[0] == "SIGTERM received"
    assert order[1:3] == ["sending SIGTERM to agent", "sending SIGTERM to web"]
    assert order[3:] == [
        "web stopped",
        "agent stopped",
        "sending SIGTERM to worker",
        "worker stopped",
    ]
    assert supervised.lines("agent")[-1] == "done", "what it prints at its end is logged"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_stop_signal_stops(supervise, number):
    supervised = supervise({"worker": SLEEP})
    worker = supervised.pid_of("worker")

    assert supervised.stop(number) == number
    assert not is_running(worker)


def test_a_program_that_ignores_sigterm_is_killed_after_a_while(supervise):
    supervised = supervise({"stubborn": STUBBORN, "other": SLEEP}, STOP_PATIENCE_S=0.3)
    supervised.wait_for("deaf")

    assert supervised.stop() == signal.SIGTERM
    assert "stubborn did not stop in time and is killed" in supervised.lines("system")
    assert "stubborn stopped (rc=-9)" in supervised.lines("system")
    assert "other stopped (rc=-15)" in supervised.lines("system")


def test_a_second_signal_kills_at_once(supervise):
    supervised = supervise(
        {"first": SLEEP}, {"stubborn": STUBBORN}, STOP_PATIENCE_S=300, DUPLICATE_WITHIN_S=0
    )
    supervised.wait_for("deaf")
    supervised.process.send_signal(signal.SIGINT)
    supervised.wait_for("sending SIGTERM")

    assert supervised.stop(signal.SIGINT) == signal.SIGINT
    assert "stubborn stopped (rc=-9)" in supervised.lines("system")
    assert "first stopped (rc=-9)" in supervised.lines("system")


def test_a_signal_that_comes_twice_within_a_second_is_one(supervise, tmp_path):
    """`make` passes on the Ctrl-C that the terminal sends to everybody."""
    may_end = tmp_path / "may-end"
    patient = (
        "import pathlib, signal, sys, time\n"
        "def end(*_):\n"
        "    print('ending')\n"
        f"    while not pathlib.Path({str(may_end)!r}).exists(): time.sleep(0.01)\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end); print('ready')\n" + SLEEP
    )
    supervised = supervise({"patient": patient}, DUPLICATE_WITHIN_S=300)
    supervised.wait_for("ready")
    for _ in range(3):
        supervised.process.send_signal(signal.SIGINT)
        supervised.wait_for("ending")

    may_end.touch()

    assert supervised.process.wait(30) == signal.SIGINT
    assert "patient stopped (rc=0)" in supervised.lines("system")


def test_a_killed_supervisor_leaves_no_program_not_even_one_that_ignores_sigterm(supervise):
    supervised = supervise({"worker": SLEEP, "stubborn": STUBBORN})
    supervised.wait_for("deaf")
    left = [supervised.pid_of("worker"), supervised.pid_of("stubborn"), supervised.guard()]

    supervised.process.kill()

    until(lambda: not is_running(left[0]), 90, "the worker has ended")
    until(lambda: not any(map(is_running, left)), 90, "the stubborn one and the guard have ended")


def test_the_guard_also_stops_what_the_supervisor_had_no_time_to_name():
    name = guard.MARK
    stands_by = subprocess.Popen(
        [sys.executable, "-IS", guard.__file__, "10", "m1", "0"], stdin=subprocess.PIPE
    )
    begun = [
        subprocess.Popen(["sleep", "300"], env={name: mark}, start_new_session=True)
        for mark in ("m1", "m2")
    ]

    stands_by.communicate(b"\n")

    assert begun[0].wait(10) == -signal.SIGTERM
    assert begun[1].poll() is None, "that of another supervisor"
    begun[1].kill()
    begun[1].wait()


def test_a_killed_guard_is_replaced(supervise):
    supervised = supervise({"worker": SLEEP, "other": SLEEP})
    other = supervised.pid_of("other")
    os.kill(supervised.guard(), signal.SIGKILL)
    os.kill(supervised.pid_of("worker"), signal.SIGKILL)
    supervised.wait_for("worker started", times=2)
    left = [supervised.pid_of("worker"), other]

    supervised.process.kill()

    until(lambda: not any(map(is_running, left)), 90, "both have ended")


def test_the_guard_ends_with_the_supervisor(supervise):
    supervised = supervise({"worker": SLEEP})
    supervised.pid_of("worker")
    guard = supervised.guard()

    supervised.stop()

    assert not is_running(guard)


def test_everything_printed_is_logged_line_by_line(supervise):
    script = (
        "import sys\n"
        "sys.stdout.buffer.write(b'a' * 200_000 + b'\\n')\n"
        "sys.stdout.buffer.write('né'.encode() + b'\\xff\\n')\n"
        "print('to stderr', file=sys.stderr); sys.stderr.write('no newline')\n"
    )
    supervised = supervise({"talker": script})

    supervised.wait_for("starting again")

    again = "exited with 0; starting again in 0.2 s"
    lines = supervised.lines("talker")
    first_run = lines[: lines.index(again) + 1]
    assert sum(len(line) for line in first_run if set(line) == {"a"}) == 200_000
    assert first_run[-4:] == ["né�", "to stderr", "no newline", again]


def test_it_stops_when_nobody_can_read_its_log_any_more(tmp_path):
    """``make demo | head``, or a terminal that is gone."""
    stages = [{"talker": "print('hello')\n" + SLEEP}]
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISE, json.dumps([{}, stages])],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert supervisor.stdout is not None
    supervisor.stdout.close()

    assert supervisor.wait(30) != 0


STOPPED_AT_ONCE = """
import os, signal, sys
from approvals.local.programs import Program
from approvals.local.supervisor import Supervisor

class Hasty(Supervisor):
    def _start(self, child):
        os.kill(os.getpid(), signal.SIGTERM)
        super()._start(child)

programs = [Program(f"sleeper-{n}", ["sleep", "300"], os.environ) for n in range(3)]
print("ended with", Hasty([programs]).run())
"""


def test_it_can_be_stopped_while_it_starts():
    """Ctrl-C in the first moment."""
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_AT_ONCE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    assert "ended with 15" in done.stdout


STOPPED_WHILE_PRINTING = """
import os, signal, sys
from approvals.local.programs import Program
from approvals.local.supervisor import Supervisor

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

program = Program("sleeper", ["sleep", "300"], os.environ)
sys.exit(Supervisor([[program]], output=Interrupted()).run())
"""


def test_it_can_be_stopped_while_a_line_is_printed():
    """Python refuses to print in a signal handler that interrupted printing."""
    done = subprocess.run([sys.executable, "-c", STOPPED_WHILE_PRINTING], cwd=ROOT, timeout=30)

    assert done.returncode == 15


NEVER_STARTS = """
import os, sys
from pathlib import Path
from approvals.local.programs import Program
from approvals.local.supervisor import Supervisor

sys.exit(Supervisor([[
    Program("sleeper", ["sleep", "300"], os.environ),
    Program("nowhere", ["true"], os.environ, Path("/does/not/exist")),
]]).run())
"""


def test_a_program_that_cannot_be_started_is_tried_again_and_holds_up_no_other():
    child = subprocess.Popen(
        [sys.executable, "-c", NEVER_STARTS], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(3)]
    child.send_signal(signal.SIGTERM)

    assert child.wait(20) == 15
    child.stdout.close()
    assert "sleeper started" in lines[0]
    assert "nowhere | does not start: " in lines[1]
    assert "trying again in 0.2 s" in lines[1]
    assert "trying again in 0.4 s" in lines[2]
