"""Answers to requests that we have claimed: files beside the request, published in one commit."""

from __future__ import annotations

import base64
import json
import mimetypes
import re
from collections.abc import Iterator
from typing import Any

from django.db.models.functions import Now
from django.utils import timezone

from a2a.errors import Reason
from a2a.git_bus import files
from a2a.git_bus.files import Attachment
from a2a.git_bus.git import Change
from a2a.git_bus.passes import Pass
from a2a.models import Artifact, BusRequest, Progress, Task
from a2a.states import TaskState

# Codes of JSON-RPC; from -32000 on those that a protocol defines for itself.
INTERNAL, REFUSED = -32603, -32000
CODES = {
    Reason.SCHEMA_MISMATCH: -32602,
    Reason.UNSUPPORTED_CAPABILITY: -32601,
    Reason.NOT_SIGNED_OFF: -32001,
    Reason.CANCELED_BY_PERSON: -32002,
    Reason.INPUT_TIMEOUT: -32003,
    Reason.TIMED_OUT: -32004,
    Reason.DECLINED: -32005,
}
UNUSABLE = re.compile(r"[^A-Za-z0-9._-]+")


def answer_all(here: Pass) -> None:
    """Publish the answers of all tasks that have ended."""
    ended = BusRequest.objects.filter(
        bus=here.bus, is_ours=False, progress=Progress.TAKEN, task__ended_at__isnull=False
    )
    for row in ended.select_related("task").order_by("task__ended_at"):
        assert row.task is not None
        if row.task.state == TaskState.COMPLETED:
            _publish(here, row, result=_result_of(row.task), attachments=_attachments_of(row.task))
        else:
            _publish(here, row, error=_error_of(row.task))


def refuse(here: Pass, row: BusRequest, code: int, message: str) -> None:
    """Answer a claimed request with an error, without a task."""
    _publish(here, row, error={"code": code, "message": message})


def _publish(
    here: Pass,
    row: BusRequest,
    *,
    result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
    attachments: list[Attachment] | None = None,
) -> None:
    folders, request_id = here.folders, row.request_id
    by = here.bus.participant
    written = {
        folders.attachment(request_id, each.name): each.content for each in attachments or []
    }
    if attachments:
        written[folders.attachment(request_id, "metadata.json")] = files.metadata_file(
            request_id,
            attachments,
            processed_by=by,
            at=timezone.now(),
            summary=str((result or {}).get("summary", f"Answer to {request_id}."))[:500],
        )
    written[folders.response(request_id)] = files.response_file(
        request_id, processed_by=by, result=result, error=error
    )

    def change() -> Change | None:
        claimed = folders.claimed(request_id)
        found = here.repository.entries(here.head, [claimed, folders.response(request_id)])
        if claimed not in found or folders.response(request_id) in found:
            return None
        return Change(
            folders.processed.format(request_id=request_id),
            renamed={claimed: folders.archived(request_id)},
            written=written,
        )

    commit = here.publish(change)
    row.answer_commit, row.ended_at = commit or "", Now()
    row.progress = Progress.DONE if commit or _is_ours(here, row) else Progress.PROBLEM
    if row.progress == Progress.PROBLEM:
        row.problem = "It is no longer among the claimed ones, so its answer was not published."
    row.save()


def _is_ours(here: Pass, row: BusRequest) -> bool:
    """Whether the answer that is there was pushed by us, before a process died."""
    path = here.folders.response(row.request_id)
    entry = here.repository.entries(here.head, [path]).get(path)
    if entry is None or (entry.size or 0) > files.LARGEST_RESPONSE:
        return False
    response = files.response_of(row.request_id, here.repository.read(entry))
    return response.processed_by == here.bus.participant


def _result_of(task: Task) -> dict[str, Any]:
    return task.result if isinstance(task.result, dict) else {"value": task.result}


def _error_of(task: Task) -> dict[str, Any]:
    reason = Reason(task.reason_code)
    data: dict[str, Any] = {"reason": {"code": reason.value, "errors": task.errors}}
    question = task.questions.order_by("-pk").first()
    if reason == Reason.INPUT_TIMEOUT and question is not None:
        data["question"] = question.text
    return {"code": CODES.get(reason, INTERNAL), "message": task.reason, "data": data}


# --- attachments ----------------------------------------------------------------------------------


def _attachments_of(task: Task) -> list[Attachment]:
    """The artifacts as files with different names, within the limits of the bus."""
    kept: dict[str, Attachment] = {}
    size = 0
    for each in _files_of(task):
        size += len(each.content)
        if len(each.content) <= files.LARGEST_FILE and size <= files.LARGEST_FOLDER:
            kept.setdefault(each.name.lower(), each)
    return list(kept.values())


def _files_of(task: Task) -> Iterator[Attachment]:
    for artifact in task.artifacts.order_by("pk"):
        for number, part in enumerate(artifact.parts):
            if part.get("data") != task.result or "data" not in part:
                yield from _file_of(artifact, part, number)


def _file_of(artifact: Artifact, part: dict[str, Any], number: int) -> Iterator[Attachment]:
    if "text" in part:
        content, media_type = part["text"].encode(), part.get("mediaType", "text/plain")
    elif "data" in part:
        text = json.dumps(part["data"], ensure_ascii=False, indent=2)
        content, media_type = f"{text}\n".encode(), "application/json"
    elif "raw" in part:
        content = base64.b64decode(part["raw"])
        media_type = part.get("mediaType", "application/octet-stream")
    else:
        return
    yield Attachment(
        _name_of(artifact, part, media_type, number), media_type, artifact.name, content
    )


def _name_of(artifact: Artifact, part: dict[str, Any], media_type: str, number: int) -> str:
    given = UNUSABLE.sub("-", str(part.get("filename") or "").rpartition("/")[2]).strip(".-")[-100:]
    if given and files.is_usable_id(given) and given.lower() != "metadata.json":
        return given
    plain = UNUSABLE.sub("-", artifact.artifact_id).strip(".-")[:80] or "artifact"
    suffix = mimetypes.guess_extension(media_type.partition(";")[0]) or ".bin"
    return f"{plain}-{number + 1}{suffix}"
