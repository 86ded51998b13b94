"""Programs that the supervisor runs: each with its present process, and what that prints."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from approvals.local.guard import STOP_PATIENCE_S
from ledger.foundation.backoff import Backoff

RESTART = Backoff(first=timedelta(seconds=0.2), longest=timedelta(seconds=5))
STEADY_AFTER_S = 10.0  # a program that ran for longer starts again with the first
CHUNK = 1 << 16  # bytes of output that are read at once; a longer line is broken


@dataclass(frozen=True, slots=True)
class Program:
    """A program: its name in the log, its command line and its whole environment."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path | None = None
    # How long it may take to end: a call of a tool has a time limit of its own.
    patience_s: float = STOP_PATIENCE_S
    log: Path | None = None  # a file for what it prints, in the place of our own output


class Child:
    """One program, and the process that runs it at the moment, if any."""

    def __init__(self, program: Program, colour: str, mark: Mapping[str, str]) -> None:
        """``mark`` is added to its environment."""
        self.name, self.program, self.colour = program.name, program, colour
        self._environment = {**program.environment, **mark}
        self.process: subprocess.Popen[bytes] | None = None
        self.output: int | None = None  # a file descriptor, while somebody may still print
        self.start_at = 0.0  # due, while no process runs
        self.kill_at: float | None = None  # due, once the process was told to stop
        self._started_at, self._short_runs = 0.0, 0
        self.last_line = ""
        self._unfinished = b""  # what was printed after the last newline

    def start(self) -> None:
        """Raises ``OSError``."""
        self._started_at = time.monotonic()
        self.output, write_end = os.pipe()
        os.set_blocking(self.output, False)
        try:
            self.process = subprocess.Popen(
                self.program.command,
                env=self._environment,
                cwd=self.program.folder,
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError:
            self.close()
            raise
        finally:
            os.close(write_end)

    def read_lines(self) -> list[str] | None:
        """The lines printed since the last call; ``None`` when no more will come."""
        assert self.output is not None
        try:
            chunk = os.read(self.output, CHUNK)
        except BlockingIOError:
            return []
        *lines, self._unfinished = (self._unfinished + chunk).split(b"\n")
        if self._unfinished and (not chunk or len(self._unfinished) >= CHUNK):
            lines, self._unfinished = [*lines, self._unfinished], b""
        return [_text(line) for line in lines] or (None if not chunk else [])

    def close(self) -> str:
        """Read no more. Returns an unfinished last line."""
        if self.output is not None:
            os.close(self.output)
        rest, self.output, self._unfinished = self._unfinished, None, b""
        return _text(rest)

    def back_off(self) -> float:
        """Seconds until the next start: longer each time, unless the program ran steadily."""
        if time.monotonic() - self._started_at > STEADY_AFTER_S:
            self._short_runs = 0
        self._short_runs += 1
        wait_s = RESTART.wait(self._short_runs).total_seconds()
        self.start_at = time.monotonic() + wait_s
        return wait_s


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
