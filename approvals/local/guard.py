"""A process that stops the supervisor's programs when the supervisor was killed.

The supervisor writes the process groups of its programs to the standard input of this file, a line
for each change. However the supervisor ends, the kernel closes the pipe; the groups of the last
line are then stopped. Runs by itself and imports nothing of the product.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable

STOP_PATIENCE_S = 10.0  # after SIGTERM, for what has no longer time limit of its own
LOOK_EVERY_S = 0.05


class Guard:
    """The supervisor's end of the pipe."""

    _process: subprocess.Popen[bytes] | None = None

    def __init__(self, patience_s: float = STOP_PATIENCE_S) -> None:
        self._patience_s = patience_s

    def watch(self, groups: Iterable[int]) -> None:
        """These groups run now. A guard that was killed is replaced."""
        line = " ".join(map(str, groups)) + "\n"
        if self._process is None or self._process.poll() is not None or not self._tell(line):
            self._start()
            self._tell(line)

    def dismiss(self) -> None:
        """Nothing runs any more."""
        if self._process is not None:
            self._tell("\n")
            self._process.communicate()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(self._patience_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )

    def _tell(self, line: str) -> bool:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
        except BrokenPipeError:
            return False
        return True


def signal_group(group: int, number: int) -> bool:
    """Whether any process of the group was left to be signalled."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # the latter on macOS, for ended processes
        return False
    return True


def stand_by(patience_s: float) -> None:
    """Read groups until the supervisor has ended, then stop those that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: list[int] = []
    for line in sys.stdin.buffer:
        groups = [int(group) for group in line.split()]
    kill_at = time.monotonic() + patience_s
    for group in groups:
        signal_group(group, signal.SIGTERM)
    while any(signal_group(group, 0) for group in groups):
        if time.monotonic() > kill_at:
            for group in groups:
                signal_group(group, signal.SIGKILL)
            return
        time.sleep(LOOK_EVERY_S)


if __name__ == "__main__":
    stand_by(float(sys.argv[1]))
