"""Artifacts: what comes of a task, whole or in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import F, Func, IntegerField, JSONField, Value
from django.db.transaction import atomic

from a2a import states
from a2a.models import Artifact, Task
from a2a.tasks.leases import advance_as_holder, lease_from_now
from a2a.tasks.transitions import advance
from a2a.validation import Part, refuse_malformed, refuse_unstorable
from ledger.principals import Principal, Surface


@dataclass(frozen=True, slots=True)
class WholeArtifact:
    """An artifact that is written at once and complete."""

    artifact_id: str
    name: str
    parts: list[Part]


def add_artifact(
    task_id: UUID,
    *,
    agent: Principal,
    fencing_token: int,
    artifact_id: str,
    parts: list[Part],
    name: str = "",
    description: str = "",
    append: bool = False,
    is_complete: bool = True,
    via: Surface,
) -> Artifact:
    """Store an artifact, or append parts to one, and renew the worker's lease.

    Returns the artifact with these parts, without those before. Raises ``InvalidRequest``,
    ``TaskLeaseLost, TaskNotFound``.
    """
    refuse_unstorable([artifact_id, parts, name, description])
    refuse_malformed(parts)
    with atomic():
        after = _lock_and_count(task_id, artifact_id) if append else None
        advance_as_holder(
            task_id,
            states.ADD_ARTIFACT,
            agent=agent,
            fencing_token=fencing_token,
            via=via,
            details=_event_details(artifact_id, parts, after=after or 0, is_complete=is_complete),
            lease_expires_at=lease_from_now(),
        )
        columns = {"name": name, "description": description}
        defaults: dict[str, Any] = {column: text for column, text in columns.items() if text}
        rows = Artifact.objects.filter(task=task_id, artifact_id=artifact_id)
        if after is None:
            defaults |= {"parts": parts, "is_complete": is_complete}
            rows.update_or_create(task_id=task_id, artifact_id=artifact_id, defaults=defaults)
        else:
            rows.update(parts=_Concatenated("parts", parts), is_complete=is_complete, **defaults)
        artifact: Artifact = rows.defer("parts").get()
    artifact.parts = parts
    return artifact


def _lock_and_count(task_id: UUID, artifact_id: str) -> int | None:
    """The number of parts that the artifact has; ``None`` if there is none yet.

    The task is locked before, so that two appends at once do not count the same parts. The parts
    stay in the database: with each append there would be more to read and to write.
    """
    Task.objects.select_for_update().filter(pk=task_id).values_list("pk").first()
    rows = Artifact.objects.filter(task=task_id, artifact_id=artifact_id)
    number: int | None = rows.values_list(_Length("parts"), flat=True).first()
    return number


class _Length(Func):
    function = "jsonb_array_length"
    output_field = IntegerField()


class _Concatenated(Func):
    """A list in a column with further items after it."""

    template = "%(expressions)s"
    arg_joiner = " || "
    output_field = JSONField()

    def __init__(self, column: str, items: list[Part]) -> None:
        super().__init__(F(column), Value(items, JSONField()))


def put_artifact(task_id: UUID, artifact: WholeArtifact, *, by: Principal, via: Surface) -> None:
    """Store an artifact of a task without a leased worker. Call it in a database transaction.

    Raises ``TaskNotPossible, TaskNotFound``.
    """
    details = _event_details(artifact.artifact_id, artifact.parts)
    advance(task_id, states.ADD_ARTIFACT, by=by, via=via, details=details)
    Artifact.objects.update_or_create(
        task_id=task_id,
        artifact_id=artifact.artifact_id,
        defaults={"name": artifact.name, "parts": artifact.parts},
    )


def _event_details(
    artifact_id: str, parts: list[Part], *, after: int = 0, is_complete: bool = True
) -> dict[str, Any]:
    """The parts that the event added to the artifact: ``parts`` of them, from ``from`` on."""
    return {
        "artifact_id": artifact_id,
        "from": after,
        "parts": len(parts),
        "append": after > 0,
        "last": is_complete,
    }
