"""What the programs of all frameworks do alike: one action, then one line of JSON.

    python play_langgraph.py ACTION FOLDER

``start`` runs until the calls in ``FOLDER/calls.json`` wait for sign-off; ``resume`` goes on if the
desk has decided; ``forge`` goes on without asking; ``again`` repeats a run that was killed. With
ASSENT_DIE the process is gone as soon as it has proposed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from assent_client import Assent, AsyncAssent, Intent

RUN = "run-7"


class Desk(Assent):
    def prepare(self, *said: Any, **more: Any) -> Intent:
        intent = super().prepare(*said, **more)
        if os.environ.get("ASSENT_DIE"):
            os._exit(9)
        return intent


class AsyncDesk(AsyncAssent):
    async def prepare(self, *said: Any, **more: Any) -> Intent:
        intent = await super().prepare(*said, **more)
        if os.environ.get("ASSENT_DIE"):
            os._exit(9)
        return intent


class Stage:
    """One action of one run: where its state is kept, and what its model was told."""

    def __init__(self) -> None:
        self.action, folder = sys.argv[1], Path(sys.argv[2])
        self.saved = folder / "run"
        self.calls: list[dict[str, Any]] = json.loads((folder / "calls.json").read_text())
        self.told: dict[str, Any] = {}

    def end(self, waiting: int, said: str) -> None:
        print(json.dumps({"waiting": waiting, "told": self.told, "said": said}))  # noqa: T201


def call_id(number: int, action: str = "start") -> str:
    """A model that is asked again gives its calls other ids."""
    return f"call-{number}" if action != "again" else f"called-again-{number}"
