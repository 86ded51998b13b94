"""Tasks as JSON, kept in this process for as long as the task does not change."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from uuid import UUID

from a2a.models import Task

MOST_TASKS = 4096
LARGEST_TASK = 32 * 1024  # bytes; a larger one is rendered anew each time


class RenderCache:
    """An LRU cache whose entries are valid while the task has the same ``updated_at``."""

    def __init__(self) -> None:
        self._rendered: OrderedDict[UUID, tuple[datetime, bytes]] = OrderedDict()

    def get(self, task_id: UUID, updated_at: datetime) -> bytes | None:
        entry = self._rendered.get(task_id)
        if entry is None or entry[0] != updated_at:
            return None
        self._rendered.move_to_end(task_id)
        return entry[1]

    def put(self, task: Task, rendered: bytes) -> None:
        if len(rendered) <= LARGEST_TASK:
            self._rendered[task.pk] = (task.updated_at, rendered)
            while len(self._rendered) > MOST_TASKS:
                self._rendered.popitem(last=False)
