"""A neighbour that does not answer is not asked again until a thread got an answer from it."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

PROBE_EVERY_S = 0.5


class Breaker:
    """Tells if this process asks a neighbour, and has the thread that finds out when it may again.

    ``gives_sign`` asks it for a sign of life, within a bounded time. ``refusal`` is raised instead
    of asking.
    """

    def __init__(self, name: str, gives_sign: Callable[[], bool], refusal: type[Exception]) -> None:
        self._name, self._gives_sign, self._refusal = name, gives_sign, refusal
        self._lock = threading.Lock()
        self._probing_pid = self._open_pid = 0  # a forked process has to ask for itself
        self._heard_at = float("-inf")

    @property
    def is_open(self) -> bool:
        return self._open_pid != 0 and self._open_pid == os.getpid()

    def refuse(self) -> None:
        """Raises ``refusal`` while open."""
        if self.is_open:
            raise self._refusal(f"{self._name} did not answer a moment ago.")

    def heard(self) -> None:
        """It has answered somebody."""
        self._heard_at = time.monotonic()

    def open(self, failure: Exception) -> None:
        """It failed: ask no more until it gives a sign of life."""
        with self._lock:
            self._open(str(failure))
            self._probe()

    def doubt(self) -> None:
        """It is slow: open if it neither gives a sign of life now nor answers anybody meanwhile."""
        with self._lock:
            self._probe()

    def _open(self, reason: str) -> None:
        if not self.is_open:
            self._open_pid = os.getpid()
            logger.warning("%s does not answer (%s)", self._name, reason)

    def _probe(self) -> None:
        if self._probing_pid == os.getpid():
            return
        try:
            threading.Thread(target=self._ask, name=f"{self._name} probe", daemon=True).start()
        except RuntimeError:  # the system has no thread left: nobody would close it again
            self._open_pid = 0
            logger.exception("no thread to ask %s for a sign of life", self._name)
        else:
            self._probing_pid = os.getpid()

    def _ask(self) -> None:
        since = time.monotonic()
        while not self._is_alive():
            with self._lock:
                self._open("no sign of life")
            time.sleep(PROBE_EVERY_S)
        with self._lock:
            was_open, self._probing_pid, self._open_pid = self.is_open, 0, 0
        if was_open:
            logger.warning("%s answers again after %.1f s", self._name, time.monotonic() - since)

    def _is_alive(self) -> bool:
        began = time.monotonic()
        try:
            return self._gives_sign() or self._heard_at > began
        except Exception:  # this thread must go on: nobody else closes the breaker
            logger.exception("%s could not be asked for a sign of life", self._name)
            return False
