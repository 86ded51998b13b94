"""The processes of ``manage.py up``, run by honcho."""

from __future__ import annotations

import sys
import time

from honcho.manager import Manager

PATIENCE_S = 15.0  # longer than honcho's own, after which it kills


class Crew(Manager):  # type: ignore[misc]
    """Honcho's manager, which may also be told to stop while it still starts.

    Honcho itself raises a KeyError then, for the processes that have no number yet, and waits for
    ever for those that nobody told to end.
    """

    _asked_at: float | None = None

    def terminate(self) -> None:
        """The first time politely; whoever asks again gets it at once."""
        if self._asked_at is not None and not self._terminating:
            self._leave()
        self._asked_at = self._asked_at or time.monotonic()
        if super()._all_started():
            super().terminate()

    def _all_started(self) -> bool:
        """Asked in each round of the loop; what had to wait is done as soon as it is true."""
        is_true: bool = super()._all_started()
        if self._asked_at is None:
            return is_true
        if is_true:
            super().terminate()
        if time.monotonic() - self._asked_at > PATIENCE_S:
            self._leave()
        return is_true

    def _leave(self) -> None:
        """Some never started, or do not hear: what is there is killed."""
        for process in self._processes.values():
            if "pid" in process and "returncode" not in process:
                self._procmgr.kill(process["pid"])
        sys.exit(self.returncode or 1)
