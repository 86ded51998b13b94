"""Memory and processor time of a process and its descendants, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def resident(*pids: int) -> float:
    """Resident memory, in MiB."""
    return sum(_resident_kib(member) for member in family(*pids)) / 1024


def cpu_seconds(*pids: int) -> float:
    """Seconds of processor time so far, user and system. Load of others distorts it little."""
    return sum(_ticks(member) for member in family(*pids)) / TICKS_PER_S


def family(*pids: int) -> set[int]:
    """The processes and their descendants, by their ids."""
    parents = dict(_parents())
    family = set(pids)
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def _parents() -> Iterator[tuple[int, int]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            yield int(stat.parent.name), int(_fields(stat)[1])
        except OSError:
            continue


def _fields(stat: Path) -> list[str]:
    """Without pid and name of the process: the name, in brackets, may contain spaces."""
    return stat.read_text().rpartition(")")[2].split()


def _ticks(pid: int) -> int:
    try:
        fields = _fields(Path(f"/proc/{pid}/stat"))
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def _resident_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)
