"""Recognise a process that an earlier run started, although its number may be in use again."""

from __future__ import annotations

import os
from pathlib import Path


def identity(pid: int) -> str:
    """The process as ``<pid>:<start time>``, to be kept in a file; no start time outside Linux.

    A process that has ended but was not reaped yet counts as ended.
    """
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return f"{pid}:"
    return f"{pid}:{'ended' if state in 'ZX' else rest[18]}"


def is_alive(recorded: str) -> bool:
    """True if the process of this ``identity`` still runs."""
    pid = int(recorded.partition(":")[0])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return identity(pid) == recorded
