"""Tasks for a skill that is done over the bus: each becomes a request in the inbox."""

from __future__ import annotations

import base64
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from django.db.transaction import atomic

from a2a import states, tasks
from a2a.doors.git_bus import record, repository
from a2a.doors.git_bus.models import BusMethod, BusRequest, Progress
from a2a.doors.git_bus.passes import Pass
from a2a.doors.git_bus.record import VIA
from a2a.doors.git_bus.repository import Change, files
from a2a.errors import Reason, TaskNotPossible
from a2a.models import Role, Task
from a2a.states import TaskState
from ledger.execution import crash_points

MOST_SENT = 20  # in one turn
HAS_SECRET = "The task has what looks like a secret ({}), so it was not sent."
TOO_LARGE = f"The request would have more than {files.LARGEST_REQUEST} bytes, so it was not sent."


def send_all(bus_pass: Pass) -> None:
    """Send what waits, and go on with what a process that died had begun to send."""
    for begun in _begun(bus_pass):
        _try_to_send(bus_pass, begun)
    for task, method in _waiting(bus_pass):
        if bus_pass.is_over:
            return
        if (row := _begin(bus_pass, task, method)) is not None:
            _try_to_send(bus_pass, row)


def withdraw_all(bus_pass: Pass) -> None:
    """Take back what nobody has claimed and nobody here waits for any more."""
    ended = BusRequest.objects.filter(
        bus=bus_pass.bus, is_ours=True, progress=Progress.SENT, task__ended_at__isnull=False
    )
    for row in ended.select_related("task", "bus__agent__tenant").order_by("pk")[:MOST_SENT]:
        with record.isolated(row, partial(record.done, row)):
            _withdraw(bus_pass, row)


def _begun(bus_pass: Pass) -> list[BusRequest]:
    rows = BusRequest.objects.filter(bus=bus_pass.bus, is_ours=True, progress=Progress.SENDING)
    return list(rows.select_related("task", "bus__agent__tenant").order_by("pk"))


def _waiting(bus_pass: Pass) -> list[tuple[Task, str]]:
    """Tasks that nobody has begun, with the method that each asks for."""
    methods = dict(
        BusMethod.objects.filter(bus=bus_pass.bus, is_ours=False).values_list("skill", "method")
    )
    waiting = Task.objects.claimable().filter(
        owner=str(bus_pass.bus.agent.principal), skill_slug__in=methods, bus_request=None
    )
    return [(task, methods[task.skill_slug]) for task in waiting.order_by("pk")[:MOST_SENT]]


def _begin(bus_pass: Pass, task: Task, method: str) -> BusRequest | None:
    """Claim the task for the bus; ``None`` if it was canceled or claimed meanwhile."""
    # In one transaction: a claimed task without a request would never be sent.
    with suppress(TaskNotPossible), atomic():
        tasks.claim_task(
            task.pk,
            by=bus_pass.bus.agent.principal,
            via=VIA,
            details={"repository": bus_pass.bus.url},
            note="Being put into the repository.",
        )
        return BusRequest.objects.create(
            bus=bus_pass.bus,
            request_id=str(uuid4()),  # which nobody knows before it is there
            is_ours=True,
            progress=Progress.SENDING,
            task=task,
            method=method,
            parent_id=_parent_of(bus_pass, task),
            sender_id=bus_pass.bus.participant,
        )
    return None


def _parent_of(bus_pass: Pass, task: Task) -> str:
    """The request of the task that this one revises, if it was done over the same bus."""
    sent = BusRequest.objects.filter(bus=bus_pass.bus, is_ours=True, task=task.revises_id)
    return sent.values_list("request_id", flat=True).first() or ""


def _try_to_send(bus_pass: Pass, row: BusRequest) -> None:
    with record.isolated(row, partial(_give_up, bus_pass, row)):
        _send(bus_pass, row)


def _send(bus_pass: Pass, row: BusRequest) -> None:
    task = row.task
    assert task is not None
    task.refresh_from_db()
    if task.is_final:
        record.done(row, "The task ended before it was sent.")
        return
    params = _params_of(task)
    content = files.request_file(
        row.request_id,
        row.method,
        params,
        sender_id=row.sender_id,
        at=task.created_at,
        parent_id=row.parent_id,
    )
    if (kind := repository.first_secret([content, *_raw_in(params)])) is not None:
        _give_up(bus_pass, row, HAS_SECRET.format(kind))
    elif len(content) > files.LARGEST_REQUEST:
        _give_up(bus_pass, row, TOO_LARGE)
    else:
        _publish(bus_pass, row, content)


def _publish(bus_pass: Pass, row: BusRequest, content: bytes) -> None:
    path, all_paths = (
        bus_pass.folders.request(row.request_id),
        bus_pass.folders.all_of(row.request_id),
    )

    def change() -> Change | None:
        if bus_pass.entries(all_paths):
            return None  # it was sent before, by a process that died
        return Change(f"Submitted {row.request_id}", written={path: content})

    commit = bus_pass.publish(change)
    crash_points.reach("bus request pushed")
    record.note(row, progress=Progress.SENT, commit=commit or "")
    record.exchanged(bus_pass, row, commit or bus_pass.head, path)
    with suppress(TaskNotPossible):
        note = f"In the repository, as {path}; nobody has claimed it yet."
        tasks.report_note(row.sent_task, note, by=bus_pass.bus.agent.principal, via=VIA)


def _params_of(task: Task) -> dict[str, Any]:
    """The input; with a note or what a revision is to change, and the files of the task."""
    params = dict(task.input) if isinstance(task.input, dict) else {"value": task.input}
    first = task.messages.filter(role=Role.USER).order_by("pk").first()
    parts: list[dict[str, Any]] = first.parts if first else []
    texts = [part["text"] for part in parts if "text" in part and "filename" not in part]
    # Beside a data part, the texts are no input but a note to whoever does the task.
    has_note = any("data" in part for part in parts)
    if texts and (task.revises_id is not None or has_note):
        params.setdefault("comment", "\n".join(texts))
    attached = [part for part in parts if "raw" in part or "url" in part or "filename" in part]
    if attached:
        params.setdefault("files", attached)
    return params


def _raw_in(params: dict[str, Any]) -> list[bytes]:
    """The bytes of the files that go along."""
    files_along = params.get("files")
    if not isinstance(files_along, list):
        return []
    return [
        content
        for part in files_along
        if isinstance(part, dict) and (content := _decoded(part.get("raw"))) is not None
    ]


def _decoded(raw: object) -> bytes | None:
    """An input may have a member of this name that is no base64; it goes along as it is."""
    if not isinstance(raw, str):
        return None
    try:
        return base64.b64decode(raw)
    except ValueError:
        return None


def _give_up(bus_pass: Pass, row: BusRequest, reason: str) -> None:
    with suppress(TaskNotPossible):
        tasks.end(
            row.sent_task,
            states.FAIL,
            by=bus_pass.bus.agent.principal,
            via=VIA,
            code=Reason.REFUSED,
            reason=reason[:2000],
        )
    record.done(row, reason)


def _withdraw(bus_pass: Pass, row: BusRequest) -> None:
    path = bus_pass.folders.request(row.request_id)
    assert row.task is not None
    if row.task.state == TaskState.COMPLETED:
        record.done(row)
        return

    def change() -> Change | None:
        if bus_pass.entry(path) is None:
            return None
        return Change(f"Withdrawn {row.request_id}", removed=[path])

    commit = bus_pass.publish(change)
    if commit is not None:
        record.exchanged(bus_pass, row, commit, path)
    taken = "" if commit else "It was taken already; its answer will not be waited for."
    record.done(row, f"The task ended before its answer came. {taken}".strip())
