"""One pass over a bus: what has arrived is claimed, and what has ended is answered.

Every step can be repeated: a process that dies leaves rows and commits from which the next pass
goes on. A commit that is pushed is never taken back, and nothing is ever forced.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import timedelta

from django.db.models.functions import Lower, Now

from a2a.doors.git_bus.models import BusRequest, GitBus
from a2a.doors.git_bus.repository import (
    Change,
    Entry,
    GitFailed,
    Repository,
    TooManyNames,
    files,
)
from a2a.doors.git_bus.repository.files import BusUnusable, Folders
from ledger.execution import crash_points

HOLD = timedelta(minutes=5)  # longer than the longest call of git
TURN_S = 120.0  # after which nothing more is begun in a turn
TRIES = 5  # of a push, while others push
PAUSE_S = 0.5  # at most, between two

NO_SETTINGS = f"It has no {files.SETTINGS_PATH}: the folders of version 1.0 count."
FULL_OUTBOX = "outbox/ has too many names: only answers in JSON are seen. Archive old ones."
CHANGED = (
    f"{files.SETTINGS_PATH} names other folders than before, which anybody who may push can do. "
    "Empty the environment of the bus in the admin if that is right."
)


class HoldLost(Exception):
    """Another process has the bus now."""


@dataclass
class Pass:
    """The repository as it is at one moment; ``head`` moves with every commit that is pushed.

    ``unusable`` collects the names in the inbox that can be no requests.
    """

    bus: GitBus
    repository: Repository
    head: str
    folders: Folders
    unusable: list[str] = field(default_factory=list)
    ends_at: float = field(default_factory=lambda: time.monotonic() + TURN_S)
    _in_outbox: list[Entry] = field(default_factory=list)
    _outbox_at: str = ""

    @classmethod
    def begin(cls, bus: GitBus, repository: Repository) -> Pass:
        """Raises ``GitFailed, BusUnusable``."""
        head = repository.fetch()
        settings = repository.entries(head, [files.SETTINGS_PATH]).get(files.SETTINGS_PATH)
        if settings is None:
            folders, bus.note = Folders(), NO_SETTINGS
        elif files.is_small(settings):
            folders, bus.note = files.folders_of(repository.read(settings)), ""
        else:
            raise BusUnusable(f"{files.SETTINGS_PATH} is no file that can be read.")
        _keep_folders(bus, folders)
        return cls(bus, repository, head, folders)

    @property
    def is_over(self) -> bool:
        """True if the next bus should have its turn; asked between two requests."""
        return time.monotonic() > self.ends_at

    def entry(self, path: str) -> Entry | None:
        return self.repository.entries(self.head, [path]).get(path)

    def has(self, path: str) -> bool:
        return self.entry(path) is not None

    def inbox(self) -> list[Entry]:
        """In the order of names, which is the order in which requests are taken."""
        return self.repository.folder(self.head, self.folders.inbox)

    def claimed(self) -> dict[str, Entry]:
        """The requests that anybody has claimed, by id."""
        listed = self.repository.folder(self.head, self.folders.processing)
        return {files.id_of(entry.name): entry for entry in listed if files.is_request(entry.name)}

    def answers(self, ids: Iterable[str]) -> dict[str, list[Entry]]:
        """The published answers to these requests, by id; in JSON, or all with other endings."""
        paths = {self.folders.response(request_id): request_id for request_id in ids}
        answers = {paths[path]: [entry] for path, entry in self.entries(paths).items()}
        wanted = {f"res_{each}": each for each in paths.values() if each not in answers}
        for entry in self._outbox() if wanted else ():
            request_id = wanted.get(entry.name.rpartition(".")[0])
            if request_id is not None and not files.is_passed_over(entry.name):
                answers.setdefault(request_id, []).append(entry)
        return answers

    def _outbox(self) -> list[Entry]:
        """All that was ever answered, read once for each state of the repository."""
        if self._outbox_at != self.head:
            try:
                self._in_outbox = self.repository.folder(self.head, self.folders.outbox)
            except TooManyNames:
                self._in_outbox, self.bus.note = [], FULL_OUTBOX
            self._outbox_at = self.head
        return self._in_outbox

    def entries(self, paths: Iterable[str]) -> dict[str, Entry]:
        return self.repository.entries(self.head, list(paths))

    def known(self, ids: Iterable[str]) -> dict[str, BusRequest]:
        """The rows of these ids, by the id in lower case."""
        lowered = [request_id.lower() for request_id in ids]
        rows = BusRequest.objects.annotate(lower=Lower("request_id")).filter(
            bus=self.bus, lower__in=lowered
        )
        requests = rows.select_related("bus__agent__tenant", "task", "admission")
        return {row.request_id.lower(): row for row in requests}

    def publish(self, change_of: Callable[[], Change | None]) -> str | None:
        """Commit and push a change; its commit, or ``None`` if there is nothing to change any more.

        ``change_of`` is asked again when another push came first. Raises ``GitFailed, HoldLost``.
        """
        for _ in range(TRIES):
            self._keep_hold()
            change = change_of()
            if change is None:
                return None
            commit = self.repository.commit(
                self.head,
                change,
                name=self.bus.our_name,
                email=self.bus.our_address,
            )
            crash_points.reach("bus commit made")
            if self.repository.push(commit):
                crash_points.reach("bus commit pushed")
                self.head = commit
                return commit
            time.sleep(random.uniform(0, PAUSE_S))
            self.head = self.repository.fetch()
        raise GitFailed("Others push all the time. It is tried again in the next pass.")

    def _keep_hold(self) -> None:
        held = GitBus.objects.filter(pk=self.bus.pk, hold=self.bus.hold, is_active=True)
        if not held.update(busy_until=Now() + HOLD):
            raise HoldLost("Another process has the bus, or it was switched off.")


def _keep_folders(bus: GitBus, folders: Folders) -> None:
    """Keep the folders at the first contact. Raises ``BusUnusable`` if they are others later."""
    named = "\n".join(f"{name}: {path}" for name, path in asdict(folders).items())
    if bus.environment and bus.environment.split() != named.split():
        raise BusUnusable(CHANGED)
    if not bus.environment:
        GitBus.objects.filter(pk=bus.pk).update(environment=named)
        bus.environment = named
