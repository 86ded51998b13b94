"""Answers of others to the requests that we have sent."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from a2a import states, tasks
from a2a.doors.git_bus import attachments, record, senders
from a2a.doors.git_bus.models import BusRequest, Progress
from a2a.doors.git_bus.passes import Pass
from a2a.doors.git_bus.record import VIA
from a2a.doors.git_bus.repository import Entry, files
from a2a.doors.git_bus.repository.files import RequestInvalid, Response
from a2a.errors import Reason, TaskNotPossible
from a2a.validation import refuse_unstorable
from ledger.contracts import json_schemas
from ledger.errors import InvalidRequest, LedgerError
from ledger.execution import crash_points
from ledger.foundation.characters import unsafe_in

LARGEST_KEPT = 1024 * 1024  # bytes of a file that becomes part of the task
MOST_LOOKED_AT = 5_000  # requests whose answers are looked for in one turn
MOST_KEPT = 4 * 1024 * 1024  # bytes of all of them
NOT_SIGNED = "The answer is not signed by anybody who is known here, which this bus demands."
INCOMPLETE = "An answer is there, but not all of the files that it names."
ILLEGIBLE = "The answer that {author} published cannot be read: {fault}"


def collect_all(bus_pass: Pass) -> None:
    """Complete or fail the tasks whose answers are published; say of others who claimed them."""
    rows = BusRequest.objects.filter(bus=bus_pass.bus, is_ours=True, progress=Progress.SENT)
    sent = list(
        rows.select_related("task__skill", "bus__agent__tenant").order_by("pk")[:MOST_LOOKED_AT]
    )
    answers = bus_pass.answers(row.request_id for row in sent)
    claimed = bus_pass.claimed() if sent else {}
    for row in sent:
        if row.request_id in answers:
            _try_to_collect(bus_pass, row, answers[row.request_id])
        elif row.request_id in claimed and row.claimed_at is None:
            _note_claim(bus_pass, row, claimed[row.request_id])


def _note_claim(bus_pass: Pass, row: BusRequest, entry: Entry) -> None:
    author = bus_pass.repository.author_of(bus_pass.head, entry.path)
    if author is None:
        return
    record.note(row, claimed_at=author.at, processed_by=author.name)
    with suppress(TaskNotPossible):
        note = f"{author.name} has claimed it."
        tasks.report_note(row.sent_task, note, by=bus_pass.bus.agent.principal, via=VIA)


def _try_to_collect(bus_pass: Pass, row: BusRequest, answer: list[Entry]) -> None:
    """As ``_collect``; an answer that we cannot handle does not stop those after it."""
    with record.isolated(row, partial(_fail, bus_pass, row, errors=[])):
        _collect(bus_pass, row, answer)


def _collect(bus_pass: Pass, row: BusRequest, answer: list[Entry]) -> None:
    """``answer`` is one JSON file, or only files with other endings, which are the answer then."""
    is_json = answer[0].path == bus_pass.folders.response(row.request_id)
    if not is_json:
        answer = [each for each in answer if each.is_plain_file and each.size]
        answer = _that_count(bus_pass, row, answer) or answer
        if not answer:
            return
    entry = answer[0]
    senders.note_author(bus_pass, row, entry.path)
    if senders.is_refused(row):
        if row.problem != NOT_SIGNED:
            record.note(row, problem=NOT_SIGNED, author=row.author, commit=row.commit)
        return
    try:
        response = _read(bus_pass, row, entry) if is_json else _other_response(answer)
        refuse_unstorable([response.result, response.error])
        artifacts = _attached(bus_pass, row, response)
        if artifacts is not None and not is_json:
            artifacts.append(_other_artifact(bus_pass, row, answer))
    except (RequestInvalid, InvalidRequest) as invalid:
        _fail(bus_pass, row, ILLEGIBLE.format(author=row.author, fault=invalid), [])
    else:
        if artifacts is None:
            record.note(row, problem=INCOMPLETE)
            return
        _end(bus_pass, row, response, artifacts)
    record.exchanged(bus_pass, row, row.commit, entry.path)


def _end(
    bus_pass: Pass, row: BusRequest, response: Response, artifacts: list[tasks.WholeArtifact]
) -> None:
    row.processed_by = response.processed_by
    crash_points.reach("bus answer read")
    if response.error is not None:
        message = _message_of(response.error)
        _fail(bus_pass, row, message, [response.error], response.cost)
        return
    skill = row.task.skill if row.task is not None else None
    if errors := json_schemas.misfits(skill.output_schema if skill else {}, response.result):
        _fail(bus_pass, row, "The answer does not fit the output schema of the skill.", errors)
        return
    by, text = bus_pass.bus.agent.principal, ""
    try:
        tasks.finish(
            row.sent_task,
            by=by,
            via=VIA,
            result=response.result,
            artifacts=artifacts,
            cost=response.cost,
        )
    except TaskNotPossible:
        text = "The answer came after the task had ended."
    except LedgerError as refusal:
        _fail(bus_pass, row, f"The answer cannot be kept: {refusal.detail}", [])
        return
    record.done(row, text, **_columns(row))


def _message_of(error: dict[str, Any]) -> str:
    text = error.get("message")
    if not isinstance(text, str) or not text.strip():
        return "The answer is an error without a message."
    shown = "".join(each if each.isprintable() and not unsafe_in(each) else " " for each in text)
    return shown[:2000]


def _fail(
    bus_pass: Pass,
    row: BusRequest,
    reason: str,
    errors: list[dict[str, Any]],
    cost: dict[str, Any] | None = None,
) -> None:
    text = ""
    try:
        tasks.end(
            row.sent_task,
            states.FAIL,
            by=bus_pass.bus.agent.principal,
            via=VIA,
            code=Reason.REMOTE_FAILED,
            reason=reason,
            errors=errors,
            cost=cost,
        )
    except TaskNotPossible:
        text = "The answer came after the task had ended."
    record.done(row, text, **_columns(row))


def _columns(row: BusRequest) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("processed_by", *senders.OF_AUTHOR)}


# --- reading ----------------------------------------------------------------------------------


def _read(bus_pass: Pass, row: BusRequest, entry: Entry) -> Response:
    """Raises ``RequestInvalid``."""
    if not entry.is_plain_file or entry.size is None:
        raise RequestInvalid(-32603, "it is no regular file.")
    if entry.size > files.LARGEST_RESPONSE:
        raise RequestInvalid(-32603, f"it has more than {files.LARGEST_RESPONSE} bytes.")
    return files.response_of(row.request_id, bus_pass.repository.read(entry))


def _attached(
    bus_pass: Pass, row: BusRequest, response: Response
) -> list[tasks.WholeArtifact] | None:
    """The attachments as one artifact; ``None`` while not all that are named are there.

    Raises ``RequestInvalid``.
    """
    folder = bus_pass.folders.attachment(row.request_id, "").rstrip("/")
    beside = bus_pass.repository.folder(bus_pass.head, folder)
    there = {entry.name: entry for entry in _that_count(bus_pass, row, beside)}
    result = _result_artifact(response)
    if not there:
        return None if files.names_a_folder(response) else result
    metadata = there.pop(files.METADATA, None)
    if metadata is None or not files.is_small(metadata):
        return None
    named = files.attachments_in(bus_pass.repository.read(metadata))
    if any(name not in there for name in named):
        return None
    parts = list(_parts(bus_pass, named, there))
    return [*result, tasks.WholeArtifact("attachments", "Attachments", parts)]


def _that_count(bus_pass: Pass, row: BusRequest, entries: list[Entry]) -> list[Entry]:
    """Without those that nobody known has signed, where the bus demands it: anybody adds such."""
    if not senders.demands_signatures(row):
        return entries
    return [entry for entry in entries if senders.is_signed(bus_pass, entry.path)]


def _other_response(answer: list[Entry]) -> Response:
    """An answer without JSON has done what was asked, and says so by its files."""
    return Response({"files": [entry.name for entry in answer]}, None, "")


def _other_artifact(bus_pass: Pass, row: BusRequest, answer: list[Entry]) -> tasks.WholeArtifact:
    named = {entry.name: mimetypes.guess_type(entry.name)[0] or "" for entry in answer}
    parts = list(_parts(bus_pass, named, {entry.name: entry for entry in answer}))
    return tasks.WholeArtifact("answer", "Answer", parts)


def _result_artifact(response: Response) -> list[tasks.WholeArtifact]:
    if response.result is None:
        return []
    return [tasks.WholeArtifact("result", "Result", [{"data": response.result}])]


def _parts(
    bus_pass: Pass, named: Mapping[str, str], there: Mapping[str, Entry]
) -> Iterable[dict[str, Any]]:
    """Small files as they are; of larger ones, and of what is no file, where it lies."""
    left = MOST_KEPT
    for name, media_type in named.items():
        entry = there[name]
        size = entry.size or 0
        if entry.is_plain_file and size <= min(LARGEST_KEPT, left):
            left -= size
            yield attachments.part_of(name, media_type, bus_pass.repository.read(entry))
        else:
            place = {"repository": bus_pass.bus.url, "commit": bus_pass.head, "path": entry.path}
            yield {"data": {**place, "size": size, "blob": entry.object_id}, "filename": name}
