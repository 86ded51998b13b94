"""Endings of the tasks that Assent executes itself: with an artifact, or with a reason."""

from __future__ import annotations

import json
from typing import Any

from a2a import states, tasks
from a2a.builtin.claims import VIA
from a2a.errors import Reason
from a2a.models import ASSENT, Task


def complete(task: Task, result: dict[str, Any], artifact_id: str, name: str) -> None:
    """Complete the task with a result that is also its artifact. Raises ``TaskNotPossible``."""
    plain = _plain(result)
    parts = tasks.result_parts(plain, reads_text=bool(task.reads_text))
    artifact = tasks.WholeArtifact(artifact_id, name, parts)
    tasks.finish(task.pk, by=ASSENT, via=VIA, result=plain, artifacts=[artifact])


def fail(
    task: Task, code: Reason, reason: str, error: dict[str, Any] | None = None, **changes: Any
) -> None:
    """Fail the task; ``error`` says more for machines. Raises ``TaskNotPossible``."""
    errors = [_plain(error)] if error else []
    tasks.end(
        task.pk, states.FAIL, by=ASSENT, via=VIA, code=code, reason=reason, errors=errors, **changes
    )


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """The value as JSON has it; times, decimals and ids become text."""
    plain: dict[str, Any] = json.loads(json.dumps(value, default=str))
    return plain
