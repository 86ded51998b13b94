"""Tasks as JSON, kept in this process for as long as the task does not change."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from a2a.models import Task
from ledger.foundation.bounded import Bounded

MOST_TASKS = 4096
LARGEST_TASK = 32 * 1024  # bytes; a larger one is rendered anew each time


class RenderCache:
    """An LRU cache whose entries are valid while the task has the same ``updated_at``.

    Safe for threads: reads and sends share it.
    """

    def __init__(self) -> None:
        self._rendered: Bounded[UUID, tuple[datetime, bytes]] = Bounded(MOST_TASKS)

    def get(self, task_id: UUID, updated_at: datetime) -> bytes | None:
        entry = self._rendered.get(task_id)
        return entry[1] if entry is not None and entry[0] == updated_at else None

    def put(self, task: Task, rendered: bytes) -> None:
        """Keep it, unless it tells of a transaction that moves without the task."""
        if len(rendered) <= LARGEST_TASK and task.transaction_id is None:
            self._rendered.put(task.pk, (task.updated_at, rendered))
