"""Requests of others: found in the inbox, claimed by a push, and entered as tasks."""

from __future__ import annotations

from a2a import submissions
from a2a.git_bus import answering, senders
from a2a.git_bus.files import (
    LARGEST_REQUEST,
    Request,
    RequestInvalid,
    is_usable_id,
    request_of,
)
from a2a.git_bus.git import Change, Entry
from a2a.git_bus.passes import Pass
from a2a.models import BusMethod, BusRequest, Progress, Strangers
from a2a.submissions import Submission
from ledger.agents.callers import Caller
from ledger.errors import LedgerError
from ledger.models import Scope
from ledger.principals import Surface

VIA = Surface.A2A


def take_next(here: Pass) -> bool:
    """Claim one request that is for us, in the order of names; ``False``: there is none."""
    offered = _offered(here)
    for entry in here.repository.folder(here.head, here.folders.inbox):
        request_id = entry.name.removesuffix(".json")
        if entry.name.startswith(".") or entry.name == request_id or not is_usable_id(request_id):
            continue
        row = _row_of(here, request_id)
        if row.progress in {Progress.TAKEN, Progress.DONE, Progress.SENT, Progress.PROBLEM}:
            continue
        if _take(here, row, entry, offered):
            return True
    return False


def _offered(here: Pass) -> dict[str, str]:
    """Our skills, by the methods that stand for them on this bus."""
    rows = BusMethod.objects.filter(bus=here.bus, is_ours=True)
    return dict(rows.values_list("method", "skill"))


def _row_of(here: Pass, request_id: str) -> BusRequest:
    known = BusRequest.objects.filter(bus=here.bus, request_id__iexact=request_id).first()
    return known or BusRequest(bus=here.bus, request_id=request_id, progress=Progress.CLAIMING)


def recover(here: Pass) -> None:
    """Go on with claims whose process died: they were pushed by us, by another, or not at all."""
    for row in BusRequest.objects.filter(bus=here.bus, progress=Progress.CLAIMING):
        path = here.folders.claimed(row.request_id)
        entry = here.repository.entries(here.head, [path]).get(path)
        if entry is not None and _is_claimed_by(here, row, path):
            _go_on(here, row, entry)
        elif not here.has(here.folders.request(row.request_id)):
            row.progress = Progress.ELSEWHERE
            row.save()


def _is_claimed_by(here: Pass, row: BusRequest, path: str) -> bool:
    author = here.repository.author_of(here.head, path)
    if author is None or _mark_of(row) not in here.repository.message_of(author.commit):
        return False
    row.claim_commit = author.commit
    return True


def _mark_of(row: BusRequest) -> str:
    """In the message of the commit that claims the request."""
    return f"Claim: {row.pk}\n"


def _go_on(here: Pass, row: BusRequest, entry: Entry) -> None:
    offered = _offered(here)
    try:
        request = _read(here, entry)
    except RequestInvalid as invalid:
        answering.refuse(here, row, invalid.code, str(invalid))
        return
    if request.method in offered:
        _enter(row, request, offered[request.method])


def _take(here: Pass, row: BusRequest, entry: Entry, offered: dict[str, str]) -> bool:
    try:
        request = _read(here, entry)
    except RequestInvalid as invalid:
        if _is_answered(here, row.request_id):
            return _conflict(row, "It has been answered already, and is in the inbox again.")
        if _claim(here, row, entry):
            answering.refuse(here, row, invalid.code, str(invalid))
        return True
    if request.method not in offered or not _has_parent(here, request):
        return False
    if _is_answered(here, request.id):
        return _conflict(row, "It has been answered already, and is in the inbox again.")
    senders.note(
        row,
        here.repository.author_of(here.head, entry.path, here.bus.allowed_signers),
    )
    _describe(row, request)
    if senders.is_stranger(here.bus, row) and here.bus.strangers == Strangers.ASK:
        return _hold(row)
    if senders.is_stranger(here.bus, row) and here.bus.strangers == Strangers.REFUSE:
        if _claim(here, row, entry):
            answering.refuse(here, row, answering.REFUSED, "No allowed signer has signed it.")
        return True
    return _claim(here, row, entry) and _enter(row, request, offered[request.method])


def _read(here: Pass, entry: Entry) -> Request:
    """Raises ``RequestInvalid``."""
    if not entry.is_plain_file or entry.size is None:
        raise RequestInvalid(-32600, "The request is no regular file.")
    if entry.size > LARGEST_REQUEST:
        raise RequestInvalid(-32600, f"The request has more than {LARGEST_REQUEST} bytes.")
    return request_of(entry.name, here.repository.read(entry))


def _has_parent(here: Pass, request: Request) -> bool:
    """A revision waits until the answer that it revises is published."""
    return not request.parent_id or here.has(here.folders.response(request.parent_id))


def _is_answered(here: Pass, request_id: str) -> bool:
    paths = (here.folders.response(request_id), here.folders.archived(request_id))
    return bool(here.repository.entries(here.head, paths))


def _describe(row: BusRequest, request: Request) -> None:
    row.method, row.sender_id = request.method, request.sender_id
    row.parent_id = request.parent_id


def _conflict(row: BusRequest, problem: str) -> bool:
    row.progress, row.problem = Progress.PROBLEM, problem
    row.save()
    return False


def _hold(row: BusRequest) -> bool:
    row.progress = Progress.HELD
    row.save()
    return False


def _claim(here: Pass, row: BusRequest, entry: Entry) -> bool:
    """Move the file to the claimed ones; whoever pushes first has it."""
    row.progress = Progress.CLAIMING
    row.save()
    target = here.folders.claimed(row.request_id)

    def change() -> Change | None:
        found = here.repository.entries(here.head, [entry.path, target])
        if target in found or found.get(entry.path) != entry:
            return None
        message = f"Claimed {row.request_id} by {here.bus.participant}\n\n{_mark_of(row)}"
        return Change(message, renamed={entry.path: target})

    commit = here.publish(change)
    row.progress, row.claim_commit = (
        (Progress.CLAIMING, commit) if commit else (Progress.ELSEWHERE, "")
    )
    row.save()
    return commit is not None


def _enter(row: BusRequest, request: Request, skill: str) -> bool:
    """Enter the task. May run twice: the key makes it the same task."""
    agent = row.bus.agent
    caller = Caller(agent.principal, agent.tenant_id, frozenset({Scope.SUBMIT.value}))
    submission = Submission(
        skill=skill,
        input=request.params,
        message_id=request.id,
        context_id=f"git-{row.bus_id}-{request.id}"[:100],
        idempotency_key=f"git:{row.bus_id}:{request.id}",
    )
    try:
        row.task = submissions.submit(submission, caller=caller, via=VIA).task
        row.progress = Progress.TAKEN
    except LedgerError as refusal:
        row.progress, row.problem = Progress.PROBLEM, refusal.detail
    row.save()
    return True
