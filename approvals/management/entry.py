"""The command ``assent`` of the installed package.

The wheel installs one package, ``assent``: this file, and the repository's tree in
``assent/house``. That folder comes first on the path, because the A2A SDK owns the name ``a2a`` in
site-packages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

HOUSE = Path(__file__).resolve().parent / "house"
USAGE = """\
assent serve          try it: everything on this machine, empty, with its own PostgreSQL and Valkey
assent demo           the same with demo people, tools and working agents
assent run PROCESS    one process for production: migrate, web, worker, courier, sweeper, slack, bus
assent evidence …     an archive for auditors: `assent evidence --help`
assent manage …       a command of the server; `assent manage help` lists them
assent version

What `serve` and `demo` store is in {home}; ASSENT_HOME names another folder.
"""
ON_TRIAL = {"serve": "up", "demo": "demo"}


def main() -> None:
    sys.path.insert(0, str(HOUSE))
    os.environ["ASSENT_HOME"] = os.environ.get("ASSENT_HOME") or str(_home())
    match sys.argv[1:]:
        case [("serve" | "demo") as name, *options]:
            _manage([ON_TRIAL[name], *options])
        case ["evidence", *_]:
            _manage(sys.argv[1:])
        case ["manage", *arguments]:
            _manage(arguments)
        case ["run", name, *options]:
            _run(name, options)
        case ["version" | "--version"]:
            from approvals import __version__

            print(__version__)  # noqa: T201
        case _:
            sys.exit(USAGE.format(home=os.environ["ASSENT_HOME"]))


def _home() -> Path:
    """The folder of this person's data, by the XDG base directories."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "assent"


def _manage(arguments: Sequence[str]) -> None:
    import manage

    sys.argv = ["assent manage", *arguments]
    manage.main()


def _run(name: str, options: Sequence[str]) -> None:
    """Become the process of this name, with its own secrets of those that are given.

    A number may follow, as in ``worker-2``: service managers tell instances apart by it.
    """
    from approvals.processes import PROCESSES, environment_of

    named = {process.name: process for process in PROCESSES}
    process = named.get(name.partition("-")[0])
    if process is None:
        sys.exit(f"There is no process {name}. There are: {', '.join(named)}.")
    os.chdir(HOUSE)
    command = [sys.executable, *process.command, *options]
    os.execve(sys.executable, command, environment_of(process, os.environ))
