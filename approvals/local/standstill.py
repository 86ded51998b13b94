"""Processes that were stopped (SIGSTOP, or a terminal that stops what prints) and go on no more.

Such a process keeps its sockets open, so clients that reached it hang. Linux only: elsewhere there
is no ``/proc``, and nothing is found.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

LOOK_EVERY_S = 1.0
STOPPED_S = 4.0  # so often seen in a row, a second apart


class Standstills:
    """Finds processes of some groups that have stood still for ``STOPPED_S``."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._look_at = 0.0

    def find(self, groups: Collection[int]) -> list[int]:
        """Process ids; looks at most every ``LOOK_EVERY_S``.

        Counts looks instead of seconds: if we stood still ourselves, they have not for that long.
        """
        if time.monotonic() < self._look_at:
            return []
        self._look_at = time.monotonic() + LOOK_EVERY_S
        self._seen = {pid: self._seen.get(pid, 0) + 1 for pid in _stopped(groups)}
        return [pid for pid, looks in self._seen.items() if looks * LOOK_EVERY_S > STOPPED_S]


def _stopped(groups: Collection[int]) -> list[int]:
    stopped = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            state, _, group = entry.read_text().rpartition(")")[2].split()[:3]
            if state == "T" and int(group) in groups:
                stopped.append(int(entry.parent.name))
    return stopped
