"""What operators do in the middle of a storm: change who signs what, and stop an agent.

Both are mended as the other faults are: the tenant has no rules then, and the agent goes on.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

import yaml

from bench.chaos import engines, records
from bench.chaos.installation import AGENTS, Installation

# Of the brake, in what the command says; before it may stand that Redis is away.
NUMBER = re.compile(r"^\d+(?=  )", re.MULTILINE)
LAPSES_AFTER_MIN = 2
PATIENCE_S = 100.0  # a lift is repeated for so long; then the brake lapses by itself
DENIED = [f"r{number}" for number in range(5, 3000, 31)]
# Whatever they ask of those who sign, the people of a storm do.
SETS: tuple[list[dict[str, Any]], ...] = (
    [
        {"when": {"tool": "reserve"}, "then": "pass"},
        {"when": {"tool": "note", "arguments.reference": DENIED}, "then": "deny"},
    ],
    [{"when": {"tool": ["transfer", "wire"]}, "then": {"verdict": "ask", "note": True}}],
    [{"when": {"tool": "transfer"}, "then": {"verdict": "ask", "strength": "typed"}}],
)


def rules_changed(here: Installation, dice: Random, seconds: float) -> None:
    """Rules become active and are taken back, each while proposals are planned and claimed."""
    for written in (dice.choice(SETS), []):
        _apply(here, written)
        time.sleep(seconds)


def _apply(here: Installation, written: list[dict[str, Any]]) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"rules": written}, file)
        file.flush()
        with suppress(subprocess.CalledProcessError):  # the database may be away just now
            _manage(here, "rules", "apply", file.name, "--tenant", "storm")


def agent_stopped(here: Installation, dice: Random, seconds: float) -> None:
    """One agent is stopped for a while."""
    # What a put that failed has put, if it has, lapses by itself.
    with suppress(subprocess.CalledProcessError), stopped(here, dice.choice(AGENTS)):
        time.sleep(seconds)


@contextmanager
def stopped(here: Installation, name: str) -> Iterator[None]:
    """The record has the time in which the agent stood still. Raises ``CalledProcessError``."""
    agent = f"agent:storm/{name}"
    scope = ("--tenant", "storm", "--agent", agent, "--minutes", str(LAPSES_AFTER_MIN))
    said = _manage(here, "brake", "put", *scope, "--why", "storm")
    began = time.time()
    try:
        yield
    finally:
        line = {"agent": agent, "from": began, "until": time.time()}
        _lift(here, NUMBER.findall(said)[0])
    if "may still begin" not in said:
        with (here.folder / records.BRAKES).open("a") as file:
            file.write(json.dumps(line) + "\n")


def _lift(here: Installation, number: str) -> None:
    gives_up_at = time.monotonic() + PATIENCE_S
    while time.monotonic() < gives_up_at:
        with suppress(subprocess.CalledProcessError):
            _manage(here, "brake", "lift", number)
            return


def _manage(here: Installation, *arguments: str) -> str:
    reached = {"DATABASE_URL": here.owner_url, "REDIS_URL": here.redis_url}
    return engines.run_manage(here.environment | reached, *arguments)
