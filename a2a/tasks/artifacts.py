"""Artifacts: what comes of a task, whole or in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.transaction import atomic

from a2a import states
from a2a.models import Artifact
from a2a.tasks.leases import advance_as_holder, lease_from_now
from a2a.tasks.transitions import advance
from a2a.validation.parts import Part, refuse_malformed, refuse_unstorable
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

    Raises ``InvalidRequest``, ``TaskLeaseLost, TaskNotFound``.
    """
    refuse_unstorable([artifact_id, parts, name, description])
    refuse_malformed(parts)
    with atomic():
        before = Artifact.objects.filter(task=task_id, artifact_id=artifact_id).first()
        kept = before.parts if before and append else []
        advance_as_holder(
            task_id,
            states.ADD_ARTIFACT,
            agent=agent,
            fencing_token=fencing_token,
            via=via,
            details=_event_details(artifact_id, parts, after=len(kept), is_complete=is_complete),
            lease_expires_at=lease_from_now(),
        )
        artifact, _ = Artifact.objects.update_or_create(
            task_id=task_id,
            artifact_id=artifact_id,
            defaults={
                "name": name or (before.name if before else ""),
                "description": description or (before.description if before else ""),
                "parts": [*kept, *parts],
                "is_complete": is_complete,
            },
        )
    return artifact


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
    """Which parts of the artifact the event added: ``parts`` of them, from number ``from`` on."""
    return {
        "artifact_id": artifact_id,
        "from": after,
        "parts": len(parts),
        "append": after > 0,
        "last": is_complete,
    }
