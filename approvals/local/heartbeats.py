"""Processes that have sent signs of life (``ledger.foundation.liveness``) and send none any more.

Whatever keeps such a process (it was stopped or frozen, its loop is blocked), its sockets stay
open, so clients that reached it hang. Linux only, which tells who has sent a message.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from ledger.foundation.liveness import BEAT_EVERY_S, waited_s

MISSED = 5  # signs in a row
CREDENTIALS = struct.Struct("3i")  # process, user, group; see unix(7)


@dataclass
class _Pulse:
    thread: int
    waited_s: float
    missed: int = 0


class Heartbeats:
    """``mark`` is for the environment of the processes; ``socket`` is readable when one beats."""

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        self.mark: dict[str, str] = {}
        self._pulses: dict[int, _Pulse] = {}
        self._look_at = 0.0
        if sys.platform == "linux":
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self.socket.setblocking(False)
            # A file in a folder that no other user can reach; names without files are everybody's.
            self._folder = tempfile.mkdtemp(prefix="assent-")
            self.mark["NOTIFY_SOCKET"] = f"{self._folder}/heartbeats"
            self.socket.bind(self.mark["NOTIFY_SOCKET"])

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def read(self) -> None:
        assert self.socket is not None
        with suppress(BlockingIOError):
            while True:
                text, credentials, *_ = self.socket.recvmsg(256, socket.CMSG_SPACE(12))
                with suppress(ValueError, IndexError):
                    self._note(CREDENTIALS.unpack(credentials[0][2])[0], text.decode())

    def _note(self, process: int, text: str) -> None:
        """Raises ``ValueError``."""
        fields = dict(line.split("=", 1) for line in text.splitlines())
        if fields.get("WATCHDOG") == "1":
            thread = int(fields.get("X_THREAD", process))
            self._pulses[process] = _Pulse(thread, waited_s(thread, process))

    def silent(self, groups: Collection[int]) -> dict[int, int]:
        """Processes of these groups that have missed ``MISSED`` signs, each with its group.

        Looks once a second.

        Counts looks instead of seconds: if we stood still ourselves, they have not for that long.
        A look does not count for a thread that waited for a processor meanwhile.
        """
        if time.monotonic() < self._look_at:
            return {}
        self._look_at = time.monotonic() + BEAT_EVERY_S
        silent = {}
        for process, pulse in list(self._pulses.items()):
            group = _group_of(process)
            if group not in groups:
                del self._pulses[process]
                continue
            before, pulse.waited_s = pulse.waited_s, waited_s(pulse.thread, process)
            if pulse.waited_s - before < BEAT_EVERY_S / 2:
                pulse.missed += 1
            if pulse.missed > MISSED:
                silent[process] = group
        return silent


def _group_of(process: int) -> int:
    """0 for one that has ended."""
    try:
        return os.getpgid(process)
    except ProcessLookupError:
        return 0
