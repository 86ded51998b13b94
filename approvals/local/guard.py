"""A process that stops the supervisor's programs when the supervisor was killed.

The supervisor writes the process groups of its programs to the standard input of this file, a line
for each change. However the supervisor ends, the kernel closes the pipe; the groups of the last
line are then stopped, and on Linux also what the supervisor had started without coming to write it:
its programs carry a mark in their environment. In the supervisor's own group only what carries the
mark is stopped: others may share it. Runs by itself and imports nothing of the product.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

STOP_PATIENCE_S = 10.0  # after SIGTERM, for what has no longer time limit of its own
LOOK_EVERY_S = 0.05
# For so long a program that was just being started may yet appear.
MAY_APPEAR_S = 2.0
MARK = "SUPERVISED_BY"
DISMISSED = b"dismissed\n"


class Guard:
    """The supervisor's end of the pipe."""

    _process: subprocess.Popen[bytes] | None = None

    def __init__(self, patience_s: float = STOP_PATIENCE_S) -> None:
        self._patience_s = patience_s
        # For the environment of each program.
        self.mark = {MARK: secrets.token_hex(16)}

    def watch(self, groups: Iterable[int]) -> None:
        """These groups run now. A guard that was killed is replaced."""
        line = " ".join(map(str, groups)).encode() + b"\n"
        if self._process is None or self._process.poll() is not None or not self._tell(line):
            self._start()
            self._tell(line)

    def dismiss(self) -> None:
        """Nothing runs any more."""
        if self._process is not None:
            self._tell(DISMISSED)
            self._process.communicate()

    def _start(self) -> None:
        arguments = (self._patience_s, self.mark[MARK], os.getpgrp())
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )

    def _tell(self, line: bytes) -> bool:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
        except BrokenPipeError:
            return False
        return True


def signal_group(group: int, number: int) -> bool:
    """Signal the group. False if no process of it was left."""
    return _signal(-group, number)


def _signal(target: int, number: int) -> bool:
    try:
        os.kill(target, number)
    except (ProcessLookupError, PermissionError):  # the latter on macOS, for ended processes
        return False
    return True


def marked(mark: str, own_group: int) -> set[int]:
    """Targets that carry the mark, as ``os.kill`` takes them: groups below zero, processes of the
    supervisor's own group. Empty where there is no ``/proc``.
    """
    wanted = f"{MARK}={mark}".encode()
    targets = set()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        process = int(environment.parent.name)
        try:
            if wanted in environment.read_bytes().split(b"\0") and process != os.getpid():
                group = os.getpgid(process)
                targets.add(process if group == own_group else -group)
        except OSError:  # it has ended, or belongs to somebody else
            continue
    return targets


def stand_by(patience_s: float, mark: str, own_group: int) -> None:
    """Read groups until the supervisor has ended, then stop those that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        if line == DISMISSED:
            return
        groups = {int(group) for group in line.split()}
    stop({-group for group in groups}, patience_s, mark, own_group)


def stop(targets: set[int], patience_s: float, mark: str, own_group: int) -> None:
    """Ask them to end, and those that still appear; kill what has not ended in time."""
    began = time.monotonic()
    told: set[int] = set()
    while True:
        passed = time.monotonic() - began
        if passed < MAY_APPEAR_S:
            targets |= marked(mark, own_group)
        for target in targets - told:
            _signal(target, signal.SIGTERM)
        told |= targets
        if passed > patience_s:
            for target in targets:
                _signal(target, signal.SIGKILL)
            return
        if passed > MAY_APPEAR_S and not any(_signal(target, 0) for target in targets):
            return
        time.sleep(LOOK_EVERY_S)


if __name__ == "__main__":
    stand_by(float(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
