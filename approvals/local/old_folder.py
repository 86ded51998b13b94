"""A folder ``.assent/`` whose database another version made: it is set aside, never changed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from approvals.local.embedded_services import GIVEN, HOME

NAME = ".assent-before-0.1.0"
KEPT = "peers"  # what tests have downloaded belongs to no database


class OldFolder(Exception):
    """The database in the folder was made by a commit before 0.1.0, or by a newer version."""


def new_path(home: Path = HOME) -> Path:
    """The first name beside the folder that is free."""
    path, number = home.with_name(NAME), 1
    while path.exists():
        number += 1
        path = home.with_name(f"{NAME}-{number}")
    return path


def advice() -> str:
    """The command that makes room for an empty database."""
    folders = " ".join(os.path.relpath(path) for path in (HOME, new_path()))
    return f"The database is in {HOME.name}/; to start anew, set the folder aside: mv {folders}"


def is_to_be_set_aside() -> bool:
    """The answer of a person at the terminal; without a terminal it is no."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    question = f"Set {HOME.name}/ aside as {new_path().name}/ and start anew? [Y/n] "
    try:
        return input(question).strip().lower() in {"", "y", "yes"}
    except EOFError:
        return False


def set_aside(home: Path = HOME) -> Path:
    """Rename the folder; returns its new path."""
    path = new_path(home)
    home.rename(path)
    if (path / KEPT).exists():
        home.mkdir(mode=0o755)
        (path / KEPT).rename(home / KEPT)
    return path


def start_anew() -> NoReturn:
    """Replace this process by the same command, without the keys of the folder that is gone."""
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], GIVEN)
