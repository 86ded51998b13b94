"""Over which git bus a task came or went, and how far its sender can be trusted."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q

from a2a.doors.git_bus.models import BusRequest, Progress
from a2a.doors.git_bus.senders import trust_in
from a2a.models import Task
from a2a.origins import Origin

__all__ = ("of_task", "trust_in")

SHORT = 10  # characters of a commit's id
HIGHEST = 20  # levels that are looked at above a task


def of_task(task: Task) -> Origin | None:
    """Of the task, or of the nearest one above it that came over a bus; else ``None``."""
    above, row = task.parent_id, _request_of(task.pk)
    for _ in range(HIGHEST):
        if row is not None or above is None:
            break
        parent = Task.objects.only("parent_id").get(pk=above)
        above, row = parent.parent_id, _received_as(parent.pk)
    return _origin(row, task) if row is not None else None


def _request_of(task_id: UUID) -> BusRequest | None:
    return _first_request(Q(task=task_id) | Q(admission=task_id))


def _received_as(task_id: UUID) -> BusRequest | None:
    return _first_request(Q(task=task_id, is_ours=False))


def _first_request(which: Q) -> BusRequest | None:
    rows = BusRequest.objects.filter(which).select_related("bus__agent")
    return rows.defer("bus__deploy_key", "bus__signing_key", "bus__password").first()


def _origin(row: BusRequest, task: Task) -> Origin:
    is_answered = row.is_ours and row.progress == Progress.DONE
    is_told = row.admission_id == task.pk or (row.is_ours and not is_answered)
    return Origin(
        bus=row.bus.agent.name,
        commit=row.commit[:SHORT],
        named=row.processed_by if row.is_ours else row.sender_id,
        trust="" if is_told else trust_in(row),
        is_ours=row.is_ours,
        is_above=task.pk not in {row.task_id, row.admission_id},
    )
