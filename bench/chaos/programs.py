"""Programs that are kept running as a supervisor keeps them, and broken on purpose."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from approvals.local.guard import Guard
from tests import faults

RESTART_AFTER_S = 0.2
_guard = Guard()
_guarded: dict[str, int] = {}
_guard_lock = threading.Lock()


class Program:
    """One program, started again whenever it ends; ``down`` keeps it from that.

    The commands of a fault (``kill``, ``freeze``, …) may be called from any thread.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        *,
        folder: Path | None = None,
        user: str | None = None,
        host: Sequence[str] = (),
    ) -> None:
        self.name, self.command, self.environment = name, list(command), dict(environment)
        self._log, self._folder, self._user = log, folder, user
        self._host = list(host)  # a prefix that runs the program on another host
        self.extra: dict[str, str] = {}  # further variables from the next start on
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._may_run, self._is_over = threading.Event(), False
        self._may_run.set()
        self._thread = threading.Thread(target=self._keep, name=f"keep {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _keep(self) -> None:
        while not self._is_over:
            self._may_run.wait()
            if self._is_over:
                return
            with self._log.open("ab") as log:
                self.process = subprocess.Popen(
                    [*self._host, *self.command],
                    env=self.environment | self.extra,
                    cwd=self._folder,
                    user=self._user,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            self.starts += 1
            _watch(self.name, self.process.pid)
            self.process.wait()
            _signal_group(self.process.pid, signal.SIGKILL)  # what it may have left behind
            time.sleep(RESTART_AFTER_S)

    def pids(self) -> list[int]:
        """The process and everything that it started, as it is now."""
        return [] if self.process is None else faults.family(self.process.pid)

    def kill(self) -> None:
        """As the kernel does when memory is short: no handler runs. It starts again."""
        if self.process is not None:
            _signal(self.process.pid, signal.SIGKILL)

    def kill_child(self, pick: int) -> None:
        """Kill one of the processes that it has started, or itself if there is none."""
        children = self.pids()[1:]
        if children:
            _signal(children[pick % len(children)], signal.SIGKILL)
        else:
            self.kill()

    def freeze(self) -> list[int]:
        """Stop all of its processes for a while. Returns those to thaw."""
        pids = self.pids()
        for pid in pids:
            with suppress(ProcessLookupError):
                faults.freeze(pid)
        return pids

    def down(self) -> None:
        """Kill it, and keep it down until ``up``."""
        self._may_run.clear()
        for pid in self.pids():
            _signal(pid, signal.SIGKILL)

    def up(self) -> None:
        self._may_run.set()

    def restart(self, **extra: str) -> None:
        """Start anew with these further variables."""
        self.extra = extra
        self.kill()

    def stop(self) -> None:
        """For good."""
        self._is_over = True
        self._may_run.set()
        for pid in self.pids():
            _signal(pid, signal.SIGKILL)
        if self._thread.is_alive():
            self._thread.join(10)


def _watch(name: str, pid: int) -> None:
    """If we are killed ourselves, the guard of the product's supervisor stops what runs."""
    with _guard_lock:
        _guarded[name] = pid
        _guard.watch(_guarded.values())


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
