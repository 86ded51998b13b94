"""Planned faults: the provider is late, fails or closes the connection, before or after work."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any


class Mode(StrEnum):
    DELAY = "delay"  # the work is done; the response is late
    DELAY_BEFORE_WORK = "delay_before_work"  # the request arrives late and is then handled normally
    DROP_BEFORE_WORK = "drop_before_work"
    DROP_AFTER_WORK = "drop_after_work"
    ERROR_500_BEFORE = "error_500_before"
    ERROR_500_AFTER = "error_500_after"


DELAYS = {Mode.DELAY, Mode.DELAY_BEFORE_WORK}


@dataclass(slots=True)
class Fault:
    """One fault, for the next ``times`` requests to ``path``, which may contain ``*``."""

    path: str
    mode: Mode
    seconds: float = 0
    times: int = 1
    method: str = "POST"


class Faults:
    """The planned faults of one sandbox. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._planned: list[Fault] = []

    def plan(self, fault: Fault) -> None:
        with self._lock:
            self._planned.append(fault)

    def take(self, method: str, path: str) -> Fault | None:
        """The fault that applies to this request, if any; it counts as one of its ``times``."""
        with self._lock:
            for fault in self._planned:
                if fault.method in {method, "*"} and fnmatchcase(path, fault.path):
                    fault.times -= 1
                    if not fault.times:
                        self._planned.remove(fault)
                    return fault
        return None

    def clear(self) -> None:
        with self._lock:
            self._planned.clear()

    def listed(self) -> list[dict[str, Any]]:
        with self._lock:
            return [asdict(fault) for fault in self._planned]
