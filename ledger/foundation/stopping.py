"""One stop event for a process: whatever works in it looks at this one."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

from ledger.foundation.liveness import BEAT_EVERY_S, beat

DUPLICATE_WITHIN_S = 1.0  # `make` and a terminal may both send the same Ctrl-C


def on_signals() -> threading.Event:
    """The event that SIGINT and SIGTERM set from now on; a further signal ends the process.

    The thread that would hear them also tells a supervisor that this process goes on.
    A thread sets it: a handler that did so could wait for a lock that the thread it interrupts
    holds. Call it once, in the main thread.
    """
    stop = threading.Event()
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _noted_by_the_thread)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    beat()
    threading.Thread(target=_watch, args=(reader, writer, stop), name="stop", daemon=True).start()
    return stop


def _noted_by_the_thread(*_: object) -> None:
    pass


def _watch(reader: socket.socket, _writer: socket.socket, stop: threading.Event) -> None:
    """The writer is only kept open."""
    asked_at = 0.0
    reader.settimeout(BEAT_EVERY_S)
    while True:
        beat()
        try:
            stops = {signal.SIGINT, signal.SIGTERM} & set(reader.recv(64))
        except TimeoutError:
            continue
        if stops and not stop.is_set():
            asked_at = time.monotonic()
            stop.set()
        elif stops and time.monotonic() - asked_at > DUPLICATE_WITHIN_S:
            os._exit(1)
