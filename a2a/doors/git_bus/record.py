"""Records of what happens on a bus, on the rows and in the audit log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db.models.functions import Now
from django.utils import timezone

from a2a import tasks
from a2a.doors.git_bus.changes import BusChange
from a2a.doors.git_bus.models import BusRequest, GitBus, Progress
from a2a.doors.git_bus.passes import HoldLost, Pass
from a2a.doors.git_bus.repository import GitFailed, PushDeclined
from ledger.errors import cut, with_sources
from ledger.events import record_change
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.principals import Principal, Surface, system

logger = logging.getLogger(__name__)

VIA = Surface("git")
BUS = system("bus", "Git bus")
OUR_ERROR = "It could not be handled: an error within Assent, which is in the log."


@contextmanager
def isolated(row: BusRequest, or_else: Callable[[str], None]) -> Iterator[None]:
    """Keep a fault of one request from stopping others: ``or_else`` is told what it was.

    What concerns the whole bus is raised: ``GitFailed, HoldLost``, a lost database.
    """
    try:
        yield
    except PushDeclined as failure:
        or_else(f"The git host has declined it: {failure}")
    except (GitFailed, HoldLost, *CONNECTION_LOST):
        raise
    except Exception:
        logger.exception("request %s of %s", row.request_id, row.bus)
        or_else(OUR_ERROR)


def note(row: BusRequest, **columns: Any) -> None:
    """Write these columns of the row; a new row is written whole."""
    columns = with_sources(BusRequest, columns)
    for name, value in columns.items():
        setattr(row, name, value)
    if row._state.adding:
        row.save(force_insert=True)
    else:
        row.save(update_fields=list(columns))


def problem(row: BusRequest, text: str) -> None:
    """Leave the request to an operator, who reads why."""
    note(row, progress=Progress.PROBLEM, problem=cut(text, 2000), blob=row.blob)


def note_problem(row: BusRequest, text: str) -> None:
    """Tell operators; it is tried again in a later pass."""
    note(row, problem=cut(text, 2000))


def leave(row: BusRequest, reason: str, columns: dict[str, Any]) -> None:
    """It stays in the inbox. What says so already is not written again in every pass."""
    if row._state.adding or (row.progress, row.problem) != (Progress.LEFT, reason):
        note(row, **columns, progress=Progress.LEFT, problem=reason, ended_at=None)


def done(row: BusRequest, text: str = "", **columns: Any) -> None:
    note(row, progress=Progress.DONE, problem=cut(text, 2000), ended_at=Now(), **columns)


def exchanged(bus_pass: Pass, row: BusRequest, commit: str, path: str) -> None:
    """Seal in the task's chain which commit of the bus carried the file, there or here."""
    if row.task_id is None:
        return
    details = {"repository": bus_pass.bus.url, "branch": bus_pass.bus.branch, "commit": commit}
    tasks.record_exchange(
        row.task_id,
        by=bus_pass.bus.agent.principal,
        via=VIA,
        details={**details, "path": path, "author": row.author, "signer": row.signer},
    )


def rewritten(bus_pass: Pass, known: str) -> None:
    """The commit that we knew is not in the history any more."""
    bus_pass.bus.rewritten_at = timezone.now()
    GitBus.objects.filter(pk=bus_pass.bus.pk).update(rewritten_at=bus_pass.bus.rewritten_at)
    details = {"was_at": known, "is_at": bus_pass.head}
    change(bus_pass.bus, BusChange.HISTORY_REWRITTEN, details)


def change(
    bus: GitBus, kind: BusChange, details: dict[str, Any], *, by: Principal = BUS, reason: str = ""
) -> None:
    """Seal what concerns the bus and no task."""
    record_change(
        f"git_bus:{bus.pk}",
        kind,
        tenant=bus.agent.tenant_id,
        by=by,
        via=VIA,
        name=str(bus),
        details=details,
        reason=reason,
    )
