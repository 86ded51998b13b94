"""Answers to requests that we have claimed: files beside the request, published in one commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.utils import timezone

from a2a.doors.git_bus import attachments, record, repository
from a2a.doors.git_bus.attachments import Attached
from a2a.doors.git_bus.models import BusRequest, Progress
from a2a.doors.git_bus.passes import Pass
from a2a.doors.git_bus.repository import Change, PushDeclined, files
from a2a.errors import Reason
from a2a.models import Task
from a2a.states import TaskState
from ledger.execution import crash_points

# Codes of JSON-RPC; from -32000 on those that a protocol defines for itself.
INTERNAL, REFUSED = -32603, -32000
MOST_ANSWERS = 100  # in one turn
CODES = {
    Reason.SCHEMA_MISMATCH: -32602,
    Reason.UNSUPPORTED_CAPABILITY: -32601,
    Reason.NOT_SIGNED_OFF: -32001,
    Reason.CANCELED_BY_PERSON: -32002,
    Reason.INPUT_TIMEOUT: -32003,
    Reason.TIMED_OUT: -32004,
    Reason.DECLINED: -32005,
}
KEPT_BACK = "The answer has what looks like a secret ({}), so it is not published."
NOT_CLAIMED = "It is no longer among the claimed ones, so its answer was not published."
DECLINED = "The git host has declined its answer: {}"
EXCHANGED = (
    "Somebody has replaced the file since we claimed it. The answer is to what we claimed, and the "
    "file was left where it is."
)
FASTER = "Somebody else has published an answer before us. Ours is on the task only."


@dataclass(frozen=True, slots=True)
class Answer:
    """The content that is published; exactly one of ``result`` and ``error`` is set."""

    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    attached: Attached = field(default_factory=Attached)
    cost: dict[str, Any] | None = None


def answer_all(bus_pass: Pass) -> None:
    """Publish the answers of all tasks that have ended."""
    ended = BusRequest.objects.filter(
        bus=bus_pass.bus, is_ours=False, progress=Progress.TAKEN, task__ended_at__isnull=False
    )
    # First those without a problem: what cannot be published keeps nothing else back.
    rows = ended.select_related("task__skill", "bus__agent__tenant").order_by(
        "problem", "task__ended_at"
    )
    for row in rows[:MOST_ANSWERS]:
        if bus_pass.is_over:
            return
        with record.isolated(row, partial(record.note_problem, row)):
            assert row.task is not None
            _publish(bus_pass, row, _answer_of(row.task))


def refuse(bus_pass: Pass, row: BusRequest, code: int, message: str) -> bool:
    """Answer a claimed request with an error, without a task. Always true: it was claimed."""
    _publish(bus_pass, row, Answer(error={"code": code, "message": message}))
    return True


def _publish(bus_pass: Pass, row: BusRequest, answer: Answer) -> None:
    written = _files_of(bus_pass, row, answer)
    if kind := repository.first_secret(written.values()):
        kept_back = {"code": REFUSED, "message": KEPT_BACK.format(kind)}
        written = _files_of(bus_pass, row, Answer(error=kept_back))
    folders, request_id = bus_pass.folders, row.request_id
    claimed, response = folders.claimed(request_id), folders.response(request_id)

    def change() -> Change | None:
        entries = bus_pass.entries([claimed, response])
        if claimed not in entries or response in entries:
            return None
        message = folders.processed.format(request_id=request_id)
        # Not what we claimed: our signature would say that we had been asked that.
        is_other = bool(row.blob) and entries[claimed].object_id != row.blob
        moved = {} if is_other else {claimed: folders.archived(request_id)}
        return Change(message, renamed=moved, written=written)

    try:
        commit = bus_pass.publish(change)
    except PushDeclined as failure:
        if row.task_id is None:
            raise
        record.note_problem(row, DECLINED.format(failure))
        return
    crash_points.reach("bus answer pushed")
    if commit is None and not _is_there(bus_pass, response, written[response]):
        if bus_pass.has(response):
            record.problem(row, FASTER)
        else:
            record.note(row, problem=NOT_CLAIMED)  # it may come back
        return
    refusal = answer.error["message"] if answer.error and row.task_id is None else ""
    if not refusal and bus_pass.has(claimed):
        refusal = EXCHANGED
    record.done(row, refusal, answer_commit=commit or "", processed_by=bus_pass.bus.participant)
    record.exchanged(bus_pass, row, commit or bus_pass.head, response)


def _files_of(bus_pass: Pass, row: BusRequest, answer: Answer) -> dict[str, bytes]:
    folders, request_id, by = bus_pass.folders, row.request_id, bus_pass.bus.participant
    written = {
        folders.attachment(request_id, each.name): each.content for each in answer.attached.files
    }
    if answer.attached.files:
        written[folders.attachment(request_id, files.METADATA)] = files.metadata_file(
            request_id,
            answer.attached.files,
            processed_by=by,
            at=timezone.now(),
            summary=str((answer.result or {}).get("summary", f"Answer to {request_id}."))[:500],
        )
    result = answer.result
    if result is not None:
        result = _with_places(bus_pass, row, result, answer.attached)
    written[folders.response(request_id)] = files.response_file(
        request_id, processed_by=by, result=result, error=answer.error, cost=answer.cost
    )
    return written


def _with_places(
    bus_pass: Pass, row: BusRequest, result: dict[str, Any], attached: Attached
) -> dict[str, Any]:
    """The result with what readers need to find the files, and what it revises."""
    more: dict[str, Any] = {"parent_id": row.parent_id} if row.parent_id else {}
    if attached.files:
        folder = bus_pass.folders.attachment(row.request_id, "")
        more["envelope"] = {
            "path": folder,
            "artifact_files": [each.name for each in attached.files],
            "metadata": f"{folder}{files.METADATA}",
        }
    if attached.left_out:
        more["left_out"] = attached.left_out
    return {**result, **more}


def _is_there(bus_pass: Pass, path: str, content: bytes) -> bool:
    """True if our answer was pushed already, by a process that died then."""
    entry = bus_pass.entry(path)
    if entry is None or not entry.is_plain_file or entry.size != len(content):
        return False
    return bus_pass.repository.read(entry) == content


# --- from the task to the answer --------------------------------------------------------------


def _answer_of(task: Task) -> Answer:
    if task.state == TaskState.COMPLETED:
        return Answer(result=_result_of(task), attached=attachments.of(task), cost=task.cost)
    return Answer(error=_error_of(task), cost=task.cost)


def _result_of(task: Task) -> dict[str, Any]:
    return task.result if isinstance(task.result, dict) else {"value": task.result}


def _error_of(task: Task) -> dict[str, Any]:
    reason = Reason(task.reason_code)
    data: dict[str, Any] = {"reason": {"code": reason.value, "errors": task.errors}}
    question = task.questions.order_by("-pk").first()
    if reason == Reason.INPUT_TIMEOUT and question is not None:
        data["question"] = question.text
    return {"code": CODES.get(reason, INTERNAL), "message": task.reason, "data": data}
