"""One pass over a bus: what has arrived is claimed, and what has ended is answered.

Every step can be repeated: a process that dies leaves rows and commits from which the next pass
goes on. A commit that is pushed is never taken back, and nothing is ever forced.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from a2a.git_bus import files
from a2a.git_bus.files import BusUnusable, Folders
from a2a.git_bus.git import Change, GitFailed, Repository
from a2a.models import GitBus
from ledger.execution import crash_points

TRIES = 5  # of a push, while others push
PAUSE_S = 0.5  # at most, between two


@dataclass
class Pass:
    """The repository as it is at one moment; ``head`` moves with every commit that is pushed."""

    bus: GitBus
    repository: Repository
    head: str
    folders: Folders

    @classmethod
    def begin(cls, bus: GitBus, repository: Repository) -> Pass:
        """Raises ``GitFailed, BusUnusable``."""
        head = repository.fetch()
        found = repository.entries(head, [files.SETTINGS_PATH])
        settings = found.get(files.SETTINGS_PATH)
        if settings is None or not settings.is_plain_file:
            raise BusUnusable(f"The repository has no {files.SETTINGS_PATH}.")
        if (settings.size or 0) > files.LARGEST_REQUEST:
            raise BusUnusable(f"{files.SETTINGS_PATH} is too large.")
        return cls(bus, repository, head, files.folders_of(repository.read(settings)))

    def has(self, path: str) -> bool:
        return path in self.repository.entries(self.head, [path])

    def publish(self, change_of: Callable[[], Change | None]) -> str | None:
        """Commit and push a change; its commit, or ``None`` if there is nothing to change any more.

        ``change_of`` is asked again when another push came first. Raises ``GitFailed``.
        """
        for _ in range(TRIES):
            change = change_of()
            if change is None:
                return None
            name = self.bus.agent.name
            commit = self.repository.commit(
                self.head, change, name=name, email=f"{self.bus.participant}@assent.invalid"
            )
            crash_points.reach("bus commit made")
            if self.repository.push(commit):
                crash_points.reach("bus commit pushed")
                self.head = commit
                return commit
            time.sleep(random.uniform(0, PAUSE_S))
            self.head = self.repository.fetch()
        raise GitFailed("Others push all the time. It is tried again in the next pass.")
