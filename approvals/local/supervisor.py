"""Run several programs side by side: log what they print, restart them, stop them in order.

Used by ``manage.py up`` and ``demo``. One thread waits in a selector for output, signals and ended
processes. Signal handlers only take notes, so a signal may come at any moment.

Each program runs in a session of its own. ``guard.py`` stops them if we are killed ourselves.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from approvals.local.guard import Guard, signal_group
from approvals.local.heartbeats import Heartbeats
from approvals.local.programs import CHUNK, Child, Program
from ledger.foundation.liveness import BEAT_EVERY_S

STOPS_WITHIN_S = 4.0  # what takes longer is told
DUPLICATE_WITHIN_S = 1.0  # `make` passes on a Ctrl-C that the terminal has sent to us already
# ANSI: cyan, yellow, green, magenta, red, blue, then the same in bold.
COLOURS = tuple(f"{number}{bold}" for bold in ("", ";1") for number in (36, 33, 32, 35, 31, 34))


def on_stop_signals(handler: Callable[[int, Any], None]) -> None:
    """Handle SIGINT, SIGTERM and, unless we run under ``nohup``, SIGHUP."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


class Log:
    """Lines as ``time name | line``, the first two in the colour of the program."""

    def __init__(self, output: TextIO, names: Sequence[str]) -> None:
        self._output, self._width = output, max(map(len, ("system", *names)))
        self._has_colours = output.isatty()
        self.is_broken = False  # nobody can read it any more: the terminal or a pipe was closed

    def system(self, line: str) -> None:
        self._write("system", line, "")

    def line(self, child: Child, line: str) -> None:
        if child.program.log is None:
            self._write(child.name, line, child.colour)
        else:
            with child.program.log.open("a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%H:%M:%S')} {line}\n")

    def trouble(self, child: Child, line: str) -> None:
        """The same on our output, wherever the program prints."""
        self._write(child.name, line, child.colour)

    def _write(self, name: str, line: str, colour: str) -> None:
        prefix = f"{time.strftime('%H:%M:%S')} {name:<{self._width}} | "
        if self._has_colours and colour:
            prefix = f"\033[0m\033[{colour}m{prefix}\033[0m"
        try:
            self._output.write(f"{prefix}{line}\n")
            self._output.flush()
        except OSError:
            self.is_broken = True


class Supervisor:
    """Starts ``stages`` one after the other and stops them in reverse, each stage together.

    ``is_quiet`` leaves out what goes as it should: what starts, and what ends as it was told.
    ``on_stop`` is called once, before anything is stopped.
    """

    def __init__(
        self,
        stages: Sequence[Sequence[Program]],
        output: TextIO = sys.stdout,
        *,
        is_quiet: bool = False,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        programs = [program for stage in stages for program in stage]
        colour = {program.name: COLOURS[i % len(COLOURS)] for i, program in enumerate(programs)}
        self._guard = Guard(max(program.patience_s for program in programs))
        self._heartbeats = Heartbeats()
        mark = {**self._guard.mark, **self._heartbeats.mark}
        self._stages = [
            [Child(each, colour[each.name], mark) for each in stage] for stage in stages
        ]
        self._children = [child for stage in self._stages for child in stage]
        self._log, self._is_quiet = Log(output, list(colour)), is_quiet
        self._on_stop = on_stop
        self._selector = selectors.DefaultSelector()
        self._signals: list[tuple[int, float]] = []  # number and time, noted by the handler
        self._stopped_by: int | None = None
        self._stop_asked_at, self._has_told_patience = 0.0, False
        self._to_stop: list[list[Child]] = []
        self._stopping: list[Child] = []

    def run(self) -> int:
        """Run until SIGINT, SIGTERM or SIGHUP; returns which, once every program has ended.

        A further signal kills at once what is left, unless it is a duplicate. The handlers stay:
        what the caller has to tidy up afterwards is not interrupted.
        """
        with self._noted_signals() as wake:
            self._guard.watch(())
            try:
                while self._stopped_by is None or self._to_stop or self._is_running():
                    self._start_due()
                    self._wait(wake)
                    self._reap()
                    self._kill_silent()
                    self._obey_signals()
                    self._stop_due()
            finally:
                self._kill()
                self._guard.dismiss()
                self._heartbeats.close()
        return self._stopped_by

    def _is_running(self) -> bool:
        return any(child.process is not None for child in self._children)

    @contextmanager
    def _noted_signals(self) -> Iterator[socket.socket]:
        """A socket that becomes readable with every signal, also when a process has ended."""

        def note(number: int, _: object) -> None:
            self._signals.append((number, time.monotonic()))

        on_stop_signals(note)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        wake, waker = socket.socketpair()
        with wake, waker, self._selector:
            wake.setblocking(False)
            waker.setblocking(False)
            self._selector.register(wake, selectors.EVENT_READ)
            if self._heartbeats.socket is not None:
                self._selector.register(self._heartbeats.socket, selectors.EVENT_READ)
            signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
            try:
                yield wake
            finally:
                signal.set_wakeup_fd(-1)

    def _wait(self, wake: socket.socket) -> None:
        """Until a signal, an ended process, or the next start or kill is due; copy output."""
        if self._stopped_by is None:
            due = [child.start_at for child in self._children if child.process is None]
        else:
            due = [child.kill_at for child in self._stopping if child.kill_at is not None]
        due.append(time.monotonic() + BEAT_EVERY_S)
        timeout = max(0.0, min(due) - time.monotonic())
        for key, _ in self._selector.select(timeout):
            if key.data is not None:
                self._copy_output(key.data)
            elif key.fileobj is self._heartbeats.socket:
                self._heartbeats.read()
            else:
                with suppress(BlockingIOError):
                    wake.recv(CHUNK)

    def _start_due(self) -> None:
        for child in self._children:
            is_due = child.process is None and child.start_at <= time.monotonic()
            if is_due and self._stopped_by is None:
                self._start(child)

    def _start(self, child: Child) -> None:
        try:
            child.start()
        except OSError as failure:
            wait_s = child.back_off()
            self._log.trouble(child, f"does not start: {failure}; trying again in {wait_s:.1f} s")
            return
        assert child.process is not None
        assert child.output is not None
        self._tell_guard()
        self._selector.register(child.output, selectors.EVENT_READ, child)
        self._usual(f"{child.name} started (pid={child.process.pid})")

    def _usual(self, line: str) -> None:
        if not self._is_quiet:
            self._log.system(line)

    def _tell_guard(self) -> None:
        self._guard.watch(child.process.pid for child in self._children if child.process)

    def _copy_output(self, child: Child) -> bool:
        """Copy the child's lines to the log. True if there were any."""
        lines = child.read_lines()
        for line in lines or ():
            child.last_line = line
            self._log.line(child, line)
        if lines is None:
            self._close_output(child)
        return bool(lines)

    def _close_output(self, child: Child) -> None:
        if child.output is not None:
            self._selector.unregister(child.output)
        if rest := child.close():
            self._log.line(child, rest)

    def _reap(self) -> None:
        for child in self._children:
            if child.process is None or child.process.poll() is None:
                continue
            signal_group(child.process.pid, signal.SIGKILL)  # what it may have left behind
            while child.output is not None and self._copy_output(child):
                pass
            self._close_output(child)
            code = child.process.returncode
            child.process = child.kill_at = None
            self._tell_guard()
            if self._stopped_by is not None:
                self._usual(f"{child.name} stopped (rc={code})")
            else:
                wait_s = child.back_off()
                self._log.trouble(child, f"exited with {code}; starting again in {wait_s:.1f} s")

    def _kill_silent(self) -> None:
        """It is started again like what died."""
        groups = {child.process.pid: child for child in self._children if child.process}
        for pid, group in self._heartbeats.silent(groups).items():
            self._log.system(f"{groups[group].name} (process {pid}) stands still and is killed")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _obey_signals(self) -> None:
        if self._log.is_broken and self._stopped_by is None:
            self._signals.append((signal.SIGHUP, time.monotonic()))
        while self._signals:
            number, at = self._signals.pop(0)
            if self._stopped_by is None:
                self._stopped_by, self._stop_asked_at = number, at
                self._to_stop = list(self._stages)
                self._log.system(f"{signal.Signals(number).name} received")
                self._on_stop()
            elif at - self._stop_asked_at > DUPLICATE_WITHIN_S:
                self._to_stop = []
                self._kill()

    def _stop_due(self) -> None:
        while self._to_stop and not any(child.process for child in self._stopping):
            self._stopping = self._to_stop.pop()
            for child in self._stopping:
                self._terminate(child)
        self._tell_patience()
        for child in self._stopping:
            if child.kill_at is not None and child.kill_at <= time.monotonic():
                self._log.system(f"{child.name} did not stop in time and is killed")
                self._kill(child)

    def _tell_patience(self) -> None:
        """Say once what is waited for, when it takes longer than usual."""
        is_usual = time.monotonic() < self._stop_asked_at + STOPS_WITHIN_S
        if self._stopped_by is None or is_usual or self._has_told_patience:
            return
        self._has_told_patience = True
        for child in self._stopping:
            if child.process is not None:
                self._log.system(f"waits for {child.name}, which last printed: {child.last_line}")

    def _terminate(self, child: Child) -> None:
        """Tell the process alone: what it started is its own to stop."""
        if child.process is not None:
            patience_s = child.program.patience_s
            self._usual(
                f"sending SIGTERM to {child.name} (pid {child.process.pid}); "
                f"it has {patience_s:.0f} s to end what it does"
            )
            child.process.terminate()
            child.kill_at = time.monotonic() + patience_s

    def _kill(self, *children: Child) -> None:
        """These or all, with everything that they started."""
        for child in children or self._children:
            child.kill_at = None
            if child.process is not None:
                signal_group(child.process.pid, signal.SIGKILL)
