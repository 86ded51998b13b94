"""The processes of ``manage.py up``, run by honcho."""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType

from honcho import manager
from honcho.manager import Manager

# Honcho kills after this: a worker may need it to end a commit and record its outcome.
manager.KILL_WAIT = 10
PATIENCE_S = 15.0  # longer than that
# Who asks twice wants it at once; two that come together are one (a supervisor tells us all).
SECOND_THOUGHT_S = 1.0


class Crew(Manager):  # type: ignore[misc]
    """Honcho's manager, which may be told to stop at any moment.

    Honcho prints and ends its processes within the signal handler. While a line is being printed,
    or a process still starts, that raises, and it waits for ever for those that nobody told to end.
    Here the handler only takes note; the loop acts upon it, in one of its ten rounds a second.
    """

    _asked_at: float | None = None
    _is_urgent = False
    _is_killed = False

    def _start(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)
        super()._start()

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._asked_at is None:
            self._asked_at, self.returncode = now, 128 + number
        elif now - self._asked_at > SECOND_THOUGHT_S:
            self._is_urgent = True

    def _all_started(self) -> bool:
        """Asked in each round of the loop."""
        is_true: bool = super()._all_started()
        if self._asked_at is None:
            return is_true
        if is_true:
            self.terminate()
        if self._is_urgent or time.monotonic() - self._asked_at > PATIENCE_S:
            self._leave()
        return is_true

    def terminate(self) -> None:
        """Also called by honcho, when one process has ended by itself."""
        if super()._all_started():
            super().terminate()

    def kill(self) -> None:
        """Once; honcho asks again in each round."""
        if not self._is_killed:
            self._is_killed = True
            super().kill()

    def _leave(self) -> None:
        """Some never started, or do not hear: what is there is killed."""
        for process in self._processes.values():
            if "pid" in process and "returncode" not in process:
                self._procmgr.kill(process["pid"])
        sys.exit(self.returncode)
