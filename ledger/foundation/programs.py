"""Programs that operators of the machine allow to be started, by name."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def programs_in(text: str) -> dict[str, list[str]]:
    """Each program with its arguments, from a JSON object of lists. Raises ``ValueError``."""
    try:
        programs = json.loads(text or "{}")
    except ValueError:
        programs = None
    if not isinstance(programs, dict) or not all(
        isinstance(command, list) and command and all(isinstance(word, str) for word in command)
        for command in programs.values()
    ):
        raise ValueError('It is a JSON object of lists: {"files": ["/bin/x"]}.')
    return programs


def programs_of(file: Path) -> dict[str, list[str]]:
    """The same from a file as it is now.

    Raises ``OSError`` and ``ValueError``, also for a file that others than its owner may write.
    """
    with file.open() as opened:
        if os.fstat(opened.fileno()).st_mode & WRITABLE_BY_OTHERS:
            raise ValueError("Others than its owner may write it (chmod go-w).")
        return programs_in(opened.read())
