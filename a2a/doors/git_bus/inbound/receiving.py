"""Requests of others: found in the inbox, claimed by a push, and entered as tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

from a2a import submissions
from a2a.doors.git_bus import record, senders
from a2a.doors.git_bus.inbound import admission, answering
from a2a.doors.git_bus.inbound.admission import Admission
from a2a.doors.git_bus.models import BusMethod, BusRequest, Progress, Strangers
from a2a.doors.git_bus.passes import Pass
from a2a.doors.git_bus.record import VIA
from a2a.doors.git_bus.repository import Change, Entry, files
from a2a.doors.git_bus.repository.files import Request, RequestInvalid
from a2a.models import Task
from a2a.states import TaskReasons
from a2a.submissions import Submission
from ledger.agents import Caller
from ledger.contracts import json_schemas
from ledger.errors import IdempotencyKeyReused, LedgerError, LimitReached, cut
from ledger.execution import crash_points
from ledger.models import Scope

MOST_READ = 200  # new requests in one turn; each costs some calls of git


def recover(bus_pass: Pass) -> None:
    """Go on with claims whose process died: they were pushed by us, by another, or not at all."""
    rows = BusRequest.objects.filter(bus=bus_pass.bus, is_ours=False, progress=Progress.CLAIMING)
    for row in rows.select_related("bus__agent__tenant", "task", "admission"):
        with record.isolated(row, partial(record.problem, row)):
            _recover(bus_pass, row)


def _recover(bus_pass: Pass, row: BusRequest) -> None:
    entry = bus_pass.entry(bus_pass.folders.claimed(row.request_id))
    if entry is not None and _is_claimed_by_us(bus_pass, row, entry.path):
        _work_on(bus_pass, row, entry)
    elif entry is None and bus_pass.has(bus_pass.folders.request(row.request_id)):
        record.note(row, progress=Progress.LEFT, problem=TaskReasons.CLAIM_LOST())
    else:
        record.note(row, progress=Progress.ELSEWHERE)


def take_all(bus_pass: Pass, most: int) -> None:
    """Claim what is for us in the inbox, at most that many requests."""
    entries = _requests_in(bus_pass)
    known = bus_pass.known(entries)
    answered = _answered(bus_pass, entries)
    claimed = bus_pass.claimed()
    offered = _offered(bus_pass)
    reads = MOST_READ
    if BusRequest.objects.filter(bus=bus_pass.bus, progress=Progress.CLAIMING).exists():
        return  # what is claimed comes first; it waits for room
    for request_id, entry in entries.items():
        if bus_pass.is_over:
            return
        new = BusRequest(bus=bus_pass.bus, request_id=request_id, progress=Progress.LEFT)
        row = known.setdefault(request_id.lower(), new)
        if row.is_ours:
            continue
        if row.request_id != request_id:
            bus_pass.unusable.append(f"{entry.name}: differs from {row.request_id} in case only")
        elif request_id in answered:
            with record.isolated(row, partial(_leave_to_operator, row, entry)):
                _answered_before(bus_pass, row, entry, answered[request_id])
        elif request_id in claimed:
            _leave_to_operator(row, entry, "It is in the inbox, and among the claimed ones too.")
        elif (is_new := _is_unread(row, entry)) and reads == 0:
            continue
        else:
            reads -= is_new
            most -= _try_to_take(bus_pass, row, entry, offered)
        if most <= 0 or row.progress == Progress.CLAIMING:
            return


# --- what is in the inbox ---------------------------------------------------------------------


def _requests_in(bus_pass: Pass) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for entry in bus_pass.inbox():
        if files.is_request(entry.name):
            entries[files.id_of(entry.name)] = entry
        elif not files.is_passed_over(entry.name):
            bus_pass.unusable.append(f"{entry.name[:200]}: no name of a request")
    return entries


def _answered(bus_pass: Pass, ids: Iterable[str]) -> dict[str, Entry | None]:
    """Those that have an answer or are in the archive, with their file there."""
    responses = {bus_pass.folders.response(request_id): request_id for request_id in ids}
    archived = {bus_pass.folders.archived(request_id): request_id for request_id in ids}
    entries = bus_pass.entries([*responses, *archived])
    answered: dict[str, Entry | None] = {
        responses[path]: None for path in entries if path in responses
    }
    return answered | {archived[path]: entries[path] for path in entries if path in archived}


def _offered(bus_pass: Pass) -> dict[str, str]:
    """Our skills, by the methods that stand for them on this bus."""
    rows = BusMethod.objects.filter(bus=bus_pass.bus, is_ours=True)
    return dict(rows.values_list("method", "skill"))


# --- one request ------------------------------------------------------------------------------


def _answered_before(bus_pass: Pass, row: BusRequest, entry: Entry, archived: Entry | None) -> None:
    """A request that was answered is in the inbox again: the same is removed, another one left."""
    is_same = archived is not None and archived.object_id == entry.object_id
    if not is_same or not bus_pass.has(bus_pass.folders.response(row.request_id)):
        _leave_to_operator(row, entry, "An answer to another request of this id is published.")
        return

    def change() -> Change | None:
        if bus_pass.entry(entry.path) != entry:
            return None
        return Change(f"Duplicate {row.request_id}", removed=[entry.path])

    bus_pass.publish(change)


def _leave_to_operator(row: BusRequest, entry: Entry, text: str) -> None:
    row.blob = entry.object_id
    record.problem(row, text)


def _is_unread(row: BusRequest, entry: Entry) -> bool:
    """Not with this content; of a file that others had claimed first, only the content is known."""
    is_known = bool(row.method) or row.progress == Progress.PROBLEM
    return row.blob != entry.object_id or not is_known


def _try_to_take(bus_pass: Pass, row: BusRequest, entry: Entry, offered: Mapping[str, str]) -> bool:
    """As ``_take``; a request that we cannot handle does not stop those after it."""
    with record.isolated(row, partial(_set_aside, row, entry)):
        return _take(bus_pass, row, entry, offered)
    return False


def _set_aside(row: BusRequest, entry: Entry, text: str) -> None:
    """Leave it to an operator; without what was read of it, if that could not be kept so far."""
    is_kept = BusRequest.objects.filter(pk=row.pk, blob=entry.object_id).exists()
    read = ("method", "sender_id", "parent_id", *senders.OF_AUTHOR)
    columns = {} if is_kept else dict.fromkeys(read, "")
    record.note(
        row, **columns, blob=entry.object_id, progress=Progress.PROBLEM, problem=cut(text, 2000)
    )


def _take(bus_pass: Pass, row: BusRequest, entry: Entry, offered: Mapping[str, str]) -> bool:
    """True if the request was claimed; else its row says why it is left."""
    is_changed = row.blob != entry.object_id
    if not is_changed and row.progress in {Progress.TAKEN, Progress.DONE} and row.task is not None:
        return _claim(
            bus_pass, row, entry
        )  # somebody has taken back our claim: the task is the same
    if row.task is not None:
        _leave_to_operator(row, entry, "Another request of this id has become a task already.")
        return False
    if not is_changed and row.progress == Progress.PROBLEM:
        return False
    is_unread = _is_unread(row, entry)
    if is_unread or row.bus.strangers != Strangers.ACCEPT:
        senders.note_author(bus_pass, row, entry.path)  # the signers may be others than last time
    if is_unread:
        try:
            _describe(row, entry, _read(bus_pass, entry))
        except RequestInvalid as invalid:
            return _refuse_unreadable(bus_pass, row, entry, invalid)
    if (reason := _reason_to_leave(bus_pass, row, offered)) is not None:
        record.leave(row, reason, senders.columns_of(row))
        return False
    decided, _ = admission.of(row, lambda: _shown(bus_pass, row, entry, offered[row.method]))
    if decided == Admission.ASKED:
        return False
    return _claim(bus_pass, row, entry) and _work_on(bus_pass, row, entry)


def _refuse_unreadable(
    bus_pass: Pass, row: BusRequest, entry: Entry, invalid: RequestInvalid
) -> bool:
    row.blob = entry.object_id
    if not entry.is_plain_file:
        _leave_to_operator(row, entry, "It is no regular file. Nothing was done with it.")
        return False
    if senders.is_refused(row):
        _leave_to_operator(row, entry, f"{invalid} Nobody known has signed it.")
        return False
    return _claim(bus_pass, row, entry) and answering.refuse(
        bus_pass, row, invalid.code, str(invalid)
    )


def _reason_to_leave(bus_pass: Pass, row: BusRequest, offered: Mapping[str, str]) -> str | None:
    if row.method not in offered:
        return f"It asks for {row.method!r}, which is not offered here."
    if row.parent_id and not bus_pass.answers([row.parent_id]):
        return f"It revises {row.parent_id!r}, whose answer is not published."
    return None


def _shown(bus_pass: Pass, row: BusRequest, entry: Entry, slug: str) -> dict[str, Any]:
    """The content that a person who is asked about the request sees: what a worker would get."""
    submission = _submission(bus_pass, row, _read(bus_pass, entry), slug)
    shown: dict[str, Any] = {"skill": slug, "input": submission.input}
    if submission.parts:
        shown["change_request"] = submission.parts[0]["text"]
    if row.parent_id:
        shown["revises"] = row.parent_id
    return shown


def _read(bus_pass: Pass, entry: Entry) -> Request:
    """Raises ``RequestInvalid``."""
    if not entry.is_plain_file or entry.size is None:
        raise RequestInvalid(-32600, "The request is no regular file.")
    if entry.size > files.LARGEST_REQUEST:
        raise RequestInvalid(-32600, f"The request has more than {files.LARGEST_REQUEST} bytes.")
    demands = bus_pass.bus.agent.tenant.demands_sender
    return files.request_of(entry.name, bus_pass.repository.read(entry), demands_sender=demands)


def _describe(row: BusRequest, entry: Entry, request: Request) -> None:
    row.blob, row.method = entry.object_id, request.method
    row.sender_id, row.parent_id = request.sender_id, request.parent_id


# --- the claim --------------------------------------------------------------------------------


def _claim(bus_pass: Pass, row: BusRequest, entry: Entry) -> bool:
    """Move the file to the claimed ones; whoever pushes first has it."""
    had_task = row.task is not None
    before = Progress.TAKEN if had_task else Progress.CLAIMING
    mark = {"claim_mark": uuid4().hex}
    record.note(row, **senders.columns_of(row), **mark, progress=before, problem="", ended_at=None)
    target = bus_pass.folders.claimed(row.request_id)

    def change() -> Change | None:
        entries = bus_pass.entries([entry.path, target])
        if target in entries or entries.get(entry.path) != entry:
            return None
        message = f"Claimed {row.request_id} by {bus_pass.bus.participant}\n\n{_mark_of(row)}"
        return Change(message, renamed={entry.path: target})

    commit = bus_pass.publish(change)
    crash_points.reach("bus claimed")
    if commit is None and not had_task:
        record.note(row, progress=Progress.ELSEWHERE)
    elif commit is not None:
        record.note(row, claim_commit=commit)
    return commit is not None


def _mark_of(row: BusRequest) -> str:
    """In the message of the commit that claims the request."""
    return f"Claim: {row.claim_mark}\n"


def _is_claimed_by_us(bus_pass: Pass, row: BusRequest, path: str) -> bool:
    author = bus_pass.repository.author_of(bus_pass.head, path)
    if author is None or _mark_of(row) not in bus_pass.repository.message_of(author.commit):
        return False
    record.note(row, claim_commit=author.commit)
    return True


def _work_on(bus_pass: Pass, row: BusRequest, entry: Entry) -> bool:
    """Enter the claimed request as a task, or answer it with an error."""
    if entry.object_id != row.blob:
        _leave_to_operator(row, entry, "It was changed after we had claimed it.")
        return True
    try:
        request = _read(bus_pass, entry)
    except RequestInvalid as invalid:
        return answering.refuse(bus_pass, row, invalid.code, str(invalid))
    offered = _offered(bus_pass)
    if request.method not in offered:
        return answering.refuse(bus_pass, row, -32601, f"{request.method!r} is not offered here.")
    decided, reason = admission.of_claimed(row)
    if decided == Admission.REFUSED:
        return answering.refuse(bus_pass, row, answering.REFUSED, reason)
    return _enter(bus_pass, row, request, offered[request.method])


def _enter(bus_pass: Pass, row: BusRequest, request: Request, slug: str) -> bool:
    """Enter the task. May run twice: the key makes it the same task."""
    agent = row.bus.agent
    caller = Caller(agent.principal, agent.tenant_id, frozenset({Scope.SUBMIT.value}))
    submission = _submission(bus_pass, row, request, slug)
    try:
        task = submissions.submit(submission, caller=caller, via=VIA).task
    except LimitReached as later:
        record.note(row, problem=later.detail)  # it stays claimed, and is tried in the next pass
        return True
    except IdempotencyKeyReused:  # a process died that had entered it, with another parent or skill
        task = _entered_before(caller, submission)
    except LedgerError as refusal:
        return answering.refuse(bus_pass, row, answering.REFUSED, refusal.detail)
    record.note(row, task=task, progress=Progress.TAKEN, problem="")
    record.exchanged(bus_pass, row, row.claim_commit, bus_pass.folders.claimed(row.request_id))
    crash_points.reach("bus task entered")
    return True


def _submission(bus_pass: Pass, row: BusRequest, request: Request, slug: str) -> Submission:
    submission = Submission(
        skill=slug,
        input=request.params,
        message_id=request.id,
        context_id=f"git-{row.bus_id}-{request.id}"[:100],
        metadata={"git_bus": _origin(bus_pass, row)},
        idempotency_key=f"git:{row.bus_id}:{request.id}",
        envelope=_envelope(row, request),
    )
    parent = _parent_of(row, slug)
    return submission if parent is None else _revision(submission, parent)


def _envelope(row: BusRequest, request: Request) -> dict[str, str] | None:
    """The sender and the time, where the tenant demands that requests name them."""
    agent = row.bus.agent
    if not agent.tenant.demands_sender:
        return None
    return {"from": agent.slug, "sent_at": request.timestamp}


def _entered_before(caller: Caller, submission: Submission) -> Task:
    return Task.objects.get(
        submitted_by=str(caller.principal), idempotency_key=submission.idempotency_key
    )


def _parent_of(row: BusRequest, slug: str) -> Task | None:
    """The task that the request revises, if we have done it by the same skill."""
    parents = BusRequest.objects.filter(bus=row.bus_id, request_id=row.parent_id, is_ours=False)
    parent = parents.select_related("task__skill").first() if row.parent_id else None
    task = parent.task if parent is not None else None
    return task if task is not None and task.skill_slug == slug else None


def _revision(submission: Submission, parent: Task) -> Submission:
    """Lay what is new on top: as the input if it is a whole one, else as what is to change."""
    schema = parent.skill.input_schema if parent.skill else {}
    is_whole = not json_schemas.misfits(schema, submission.input)
    comment = submission.input.get("comment")
    text = comment if isinstance(comment, str) else json.dumps(submission.input, indent=2)
    return replace(
        submission,
        revises=parent.pk,
        context_id=parent.context_id,
        input=submission.input if is_whole else parent.input,
        parts=[{"text": text}],
    )


def _origin(bus_pass: Pass, row: BusRequest) -> dict[str, str]:
    """The facts that the worker is told about where the task comes from."""
    return {
        "repository": bus_pass.bus.url,
        "branch": bus_pass.bus.branch,
        "request_id": row.request_id,
        "parent_id": row.parent_id,
        "sender_id": row.sender_id,
        "trust": senders.trust_in(row),
    }
